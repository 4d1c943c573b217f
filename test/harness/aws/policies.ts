/**
 * Policies of a stack as documents, and findings of the linter parliament (PyPI): actions, condition keys and resources
 * that IAM does not have or that don't go together. Its definitions are those of April 2025.
 */
import type { AwsResource } from "./arguments.ts";
import { askPython } from "./python.ts";
import { isObject } from "./service-models.ts";

/** Documents by a name for messages. */
export type PolicyDocuments = Readonly<Record<string, unknown>>;

export interface LintFinding {
  /** Name of the document. */
  readonly policy: string;
  /** parliament's name of it: `UNKNOWN_ACTION`, `RESOURCE_MISMATCH`, … */
  readonly issue: string;
  readonly detail: string;
}

/** Properties with a policy, by type. A policy that is unknown before `up` has no document. */
const POLICY_PROPERTIES: Readonly<Record<string, string>> = {
  "aws:iam/role:Role": "assumeRolePolicy",
  "aws:iam/rolePolicy:RolePolicy": "policy",
  "aws:efs/fileSystemPolicy:FileSystemPolicy": "policy",
  "aws:iam/policy:Policy": "policy",
  "aws:kms/key:Key": "policy",
  "aws:s3/bucketPolicy:BucketPolicy": "policy",
  "aws:ec2/vpcEndpoint:VpcEndpoint": "policy",
};

export function policyDocuments(resources: readonly AwsResource[]): PolicyDocuments {
  return Object.fromEntries(
    resources.flatMap(({ type, name, inputs }) => {
      const text = inputs[POLICY_PROPERTIES[type] ?? ""];
      return typeof text === "string" && text.startsWith("{") ? [[`${type} ${name}`, JSON.parse(text)]] : [];
    }),
  );
}

export async function lintPolicies(documents: PolicyDocuments): Promise<readonly LintFinding[]> {
  const answer = (await askPython("lint_policies.py", documents)) as Readonly<
    Record<string, readonly Omit<LintFinding, "policy">[]>
  >;
  return Object.entries(answer).flatMap(([policy, findings]) =>
    findings.map((finding) => ({ policy, ...finding })),
  );
}

/** Every action that a document names, sorted. */
export function actionsOf(document: unknown): readonly string[] {
  const statements = isObject(document) && Array.isArray(document.Statement) ? document.Statement : [];
  return [...new Set(statements.flatMap(({ Action }) => [Action].flat() as string[]))].sort();
}
