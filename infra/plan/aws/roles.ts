/** Documents of IAM roles: who may take one, and what it may do. Pure. */
import { filledText, mapTexts } from "./placeholders.ts";
import { plainName } from "./plain-name.ts";
import type { AwsContext, RolePlan, Statement } from "./types.ts";

/** https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html */
const ROLE_NAME_LENGTH = 64;
/** https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html */
const CLUSTER_NAME_LENGTH = 100;

/** The principal by which EKS gives pods their roles. */
export const PODS = "pods.eks.amazonaws.com";

/** By which EKS runs a cluster. */
export const CLUSTERS = "eks.amazonaws.com";

/** By which flow logs are written. */
export const FLOW_LOGS = "vpc-flow-logs.amazonaws.com";

/** `engine-room-dev-efs-csi`. */
export function roleName({ name }: AwsContext, subject: string): string {
  return plainName(`${name}-${subject}`, ROLE_NAME_LENGTH);
}

/** Of the stack's cluster on EKS, which roles of its pods name. */
export function clusterName({ name }: AwsContext): string {
  return plainName(name, CLUSTER_NAME_LENGTH);
}

/**
 * What a service takes a role for, by the service: AWS recommends to name it, so that nobody has the service act for theirs.
 * For EC2, which gives it to machines, its documents name no condition.
 * https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
 */
const SOURCES: Readonly<Record<string, (context: AwsContext) => string>> = {
  /** https://docs.aws.amazon.com/eks/latest/userguide/cross-service-confused-deputy-prevention.html */
  [CLUSTERS]: (context) => `eks:${context.region}:${context.account}:cluster/${clusterName(context)}`,
  /**
   * Ids of flow logs are known only when they are there.
   * https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html
   */
  [FLOW_LOGS]: ({ region, account }) => `ec2:${region}:${account}:vpc-flow-log/*`,
};

/**
 * Who may take a role, as JSON. Pods take it through EKS, which says in tags of the session whose they are: only those of
 * the one ServiceAccount, in the stack's own cluster, get it.
 * https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
 */
export function trustPolicy(plan: RolePlan, context: AwsContext): string {
  const { service } = plan;
  const isPods = service === PODS;
  const condition = trustCondition(plan, context);
  return policyJson([
    {
      Effect: "Allow",
      Principal: { Service: service },
      Action: isPods ? ["sts:AssumeRole", "sts:TagSession"] : ["sts:AssumeRole"],
      ...(condition === null ? {} : { Condition: condition }),
    },
  ]);
}

function trustCondition({ service, serviceAccount }: RolePlan, context: AwsContext): object | null {
  if (serviceAccount !== null)
    return {
      StringEquals: {
        "aws:RequestTag/eks-cluster-name": clusterName(context),
        "aws:RequestTag/kubernetes-namespace": serviceAccount.namespace,
        "aws:RequestTag/kubernetes-service-account": serviceAccount.name,
      },
    };
  const source = SOURCES[service]?.(context);
  if (source === undefined) return null;
  return {
    StringEquals: { "aws:SourceAccount": context.account },
    ArnLike: { "aws:SourceArn": `arn:${context.partition}:${source}` },
  };
}

/**
 * What a role may do, as JSON.
 *
 * @param inputs - Values of `${name}`; IAM's own variables stay as they are.
 * @throws Error where a statement refers to an input that is not there.
 */
export function policyDocument(
  statements: readonly Statement[],
  inputs: Readonly<Record<string, string>> = {},
): string {
  const filled = (value: unknown) => mapTexts(value, (text) => filledText(text, inputs));
  return policyJson(
    statements.map(({ sid, effect, actions, resources, conditions }) => ({
      Sid: sid,
      Effect: effect,
      Action: actions,
      Resource: filled(resources),
      ...(conditions === undefined ? {} : { Condition: filled(conditions) }),
    })),
  );
}

function policyJson(statements: readonly unknown[]): string {
  return JSON.stringify({ Version: "2012-10-17", Statement: statements });
}
