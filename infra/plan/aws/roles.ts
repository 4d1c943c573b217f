/** IAM roles of a stack, from roles.yaml, with trust policies and rights. */
import type { RoleArgs } from "@pulumi/aws/iam/role.js";
import { type AwsContext, plainName } from "./context.ts";
import { fileContent, filled } from "./data-files.ts";

/** Namespace of controllers and drivers. */
export const SYSTEM_NAMESPACE = "kube-system";

/** https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html */
const ROLE_NAME_LENGTH = 64;

/** Statement of a policy, in IAM's own grammar. Placeholders stand for values that AWS assigns. */
export interface Statement {
  readonly Sid: string;
  readonly Effect: "Allow";
  readonly Action: readonly string[];
  readonly Resource: readonly string[];
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>;
}

export interface RolePlan {
  /** After the stack's name: `cluster`, `node`, `efs-csi`. */
  readonly subject: string;
  readonly args: { readonly name: string; readonly assumeRolePolicy: string } & RoleArgs;
  /** ARNs of AWS's own policies. */
  readonly managedPolicies: readonly string[];
  readonly statements: readonly Statement[];
  /** The only ServiceAccount whose pods assume the role; null for a role of an AWS service. */
  readonly serviceAccount: { readonly namespace: string; readonly serviceAccount: string } | null;
}

/** A role of roles.yaml, which says what its fields are. */
export interface RoleTemplate {
  readonly service?: string;
  readonly source?: string;
  readonly namespace?: string;
  readonly serviceAccount?: string;
  readonly managed?: readonly string[];
  readonly statements?: readonly Statement[];
}

/** JSON of a policy document. */
export function policyDocument(statements: readonly object[]): string {
  return JSON.stringify({ Version: "2012-10-17", Statement: statements });
}

/**
 * A role that a service of AWS assumes, or EKS for pods: it passes the pods' cluster, namespace and ServiceAccount as tags of the
 * session. https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
 *
 * @param values - Values of placeholders that the context lacks.
 */
export function rolePlan(
  context: AwsContext,
  subject: string,
  values: Readonly<Record<string, unknown>> = {},
): RolePlan {
  const { cluster } = context;
  const template = fileContent<Readonly<Record<string, RoleTemplate>>>("roles.yaml")[subject];
  if (template === undefined) throw new Error(`roles.yaml has no role ${subject}`);
  const keyArns = context.kmsKeyArn === undefined ? [] : [context.kmsKeyArn];
  const role = filled(template, { networkPolicy: undefined, ...context, keyArns, ...values });
  const { namespace = SYSTEM_NAMESPACE, serviceAccount, source } = role;
  const podTags = serviceAccount && {
    StringEquals: {
      "aws:RequestTag/eks-cluster-name": cluster,
      "aws:RequestTag/kubernetes-namespace": namespace,
      "aws:RequestTag/kubernetes-service-account": serviceAccount,
    },
  };
  const ofSource = source && {
    StringEquals: { "aws:SourceAccount": context.account },
    ArnLike: { "aws:SourceArn": source },
  };
  const trust = {
    Effect: "Allow",
    Principal: { Service: role.service ?? "pods.eks.amazonaws.com" },
    Action: ["sts:AssumeRole", ...(podTags ? ["sts:TagSession"] : [])],
    Condition: podTags || ofSource || undefined,
  };
  return {
    subject,
    args: {
      name: plainName(`${context.name}-${subject}`, ROLE_NAME_LENGTH),
      assumeRolePolicy: policyDocument([trust]),
      // Policies attached by hand do not prevent deletion of the role.
      forceDetachPolicies: true,
      ...context.iam,
    },
    managedPolicies: (role.managed ?? [])
      .filter((name) => name !== undefined)
      .map((name) => `arn:${context.partition}:iam::aws:policy/${name}`),
    statements: (role.statements ?? []).filter(({ Resource }) => Resource.length > 0),
    serviceAccount: serviceAccount === undefined ? null : { namespace, serviceAccount },
  };
}
