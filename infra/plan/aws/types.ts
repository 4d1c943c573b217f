/** The context of a stack on AWS, and its roles. */
import type { RoleArgs } from "@pulumi/aws/iam/role.js";

/** Sorted. */
export type Tags = Readonly<Record<string, string>>;

/** What every part of a stack on AWS is planned with. */
export interface AwsContext {
  /** Name of the stack. */
  readonly stack: string;
  /** `engine-room-<stack>`, the first part of names. */
  readonly name: string;
  readonly account: string;
  readonly region: string;
  /** `aws`, `aws-us-gov`. */
  readonly partition: string;
  /** Whether the stack file names the stack in `retain`: its data and its cluster are protected. */
  readonly isRetained: boolean;
  /** Tags of all resources. */
  readonly tags: Tags;
  /** Tags that never change, of resources that a change of tags replaces. */
  readonly lastingTags: Tags;
}

/** Statement of a policy, in IAM's own grammar. Placeholders stand for values that AWS assigns. */
export interface Statement {
  readonly Sid: string;
  readonly Effect: "Allow";
  readonly Action: readonly string[];
  readonly Resource: readonly string[];
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, string>>>>;
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
