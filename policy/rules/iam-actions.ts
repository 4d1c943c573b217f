/**
 * No role may do everything, or everything of one service. Policies of KMS keys are not looked at: AWS wants `kms:*` for
 * the account's own root in them, or the key can be lost.
 * https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
 */
import { type CheckedResource, type ResourceFinding, type Rule, UNKNOWN, undecided } from "../rule.ts";
import { at, isMapping, listAt } from "../values.ts";

/** Types with policy documents, and where. Property names of @pulumi/aws 7. */
const documents: Readonly<Record<string, (inputs: CheckedResource["inputs"]) => readonly unknown[]>> = {
  "aws:iam/policy:Policy": ({ policy }) => [policy],
  "aws:iam/rolePolicy:RolePolicy": ({ policy }) => [policy],
  "aws:iam/userPolicy:UserPolicy": ({ policy }) => [policy],
  "aws:iam/groupPolicy:GroupPolicy": ({ policy }) => [policy],
  "aws:iam/role:Role": (inputs) => [
    inputs.assumeRolePolicy,
    ...listAt(inputs, "inlinePolicies").map((inline) => at(inline, "policy")),
  ],
  "aws:s3/bucketPolicy:BucketPolicy": ({ policy }) => [policy],
  "aws:ecr/repositoryPolicy:RepositoryPolicy": ({ policy }) => [policy],
  "aws:efs/fileSystemPolicy:FileSystemPolicy": ({ policy }) => [policy],
  "aws:secretsmanager/secretPolicy:SecretPolicy": ({ policy }) => [policy],
  "aws:sqs/queuePolicy:QueuePolicy": ({ policy }) => [policy],
};

/** Types that give a policy by its ARN, and where. */
const references: Readonly<Record<string, (inputs: CheckedResource["inputs"]) => readonly unknown[]>> = {
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment": ({ policyArn }) => [policyArn],
  "aws:iam/userPolicyAttachment:UserPolicyAttachment": ({ policyArn }) => [policyArn],
  "aws:iam/role:Role": (inputs) => listAt(inputs, "managedPolicyArns"),
};

/** Policies of AWS that allow all actions, or all of a service. */
const WIDE_POLICY = /:aws:policy\/(.*\/)?(AdministratorAccess|PowerUserAccess|\w*FullAccess)$/;

const FIX = "Name the actions that are needed; the provider's documentation of the resource lists them.";

function documentFindings(document: unknown): readonly ResourceFinding[] {
  if (document === undefined) return [];
  if (document === UNKNOWN) return [undecided("the policy's document")];
  const parsed = typeof document === "string" ? parse(document) : document;
  if (!isMapping(parsed))
    return [{ reason: "The policy's document is no JSON object.", fix: "Write it with JSON.stringify." }];
  const statements = Array.isArray(parsed.Statement) ? parsed.Statement : [parsed.Statement];
  return statements.flatMap(statementFindings);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function statementFindings(statement: unknown, index: number): readonly ResourceFinding[] {
  if (statement === UNKNOWN) return [undecided(`Statement[${index}]`)];
  if (at(statement, "Effect") === UNKNOWN) return [undecided(`Statement[${index}].Effect`)];
  if (at(statement, "Effect") !== "Allow") return [];
  if (at(statement, "NotAction") !== undefined)
    return [{ reason: `Statement[${index}] allows all actions but some (NotAction).`, fix: FIX }];
  const action = at(statement, "Action");
  const actions = Array.isArray(action) ? action : [action];
  const wide = actions.find((one) => typeof one === "string" && /^(\*+|[\w-]+:\*+)$/.test(one));
  if (wide !== undefined)
    return [
      { reason: `Statement[${index}] allows ${wide}: whoever gets the role can do all of it.`, fix: FIX },
    ];
  return actions.includes(UNKNOWN) ? [undecided(`Statement[${index}].Action`)] : [];
}

function referenceFindings(arn: unknown): readonly ResourceFinding[] {
  // A policy of the stack's own has an ARN only after `up`, and is looked at itself.
  if (typeof arn !== "string" || !WIDE_POLICY.test(arn)) return [];
  return [{ reason: `${arn} allows every action, or every one of a service.`, fix: FIX }];
}

export const iamActionHasNoWildcard: Rule = {
  description: "No IAM policy allows all actions, or all actions of a service.",
  scope: "resource",
  check: ({ type, inputs }) => [
    ...(documents[type]?.(inputs) ?? []).flatMap(documentFindings),
    ...(references[type]?.(inputs) ?? []).flatMap(referenceFindings),
  ],
};
