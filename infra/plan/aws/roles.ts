/** Documents of IAM roles: who may take one, and what it may do. Pure. */
import { jsonDigest } from "../canonical-json.ts";
import type { AwsContext, RolePlan, Statement } from "./types.ts";

/** https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html */
const ROLE_NAME_LENGTH = 64;
const HASH_DIGITS = 8;

/** The principal by which EKS gives pods their roles. */
export const PODS = "pods.eks.amazonaws.com";

/** Of a value that is known only when it is made; a policy's own variables have a colon, and stay. */
const PLACEHOLDER = /\$\{([A-Za-z]\w*)\}/g;

/** In a statement: the value of that name, or, with a colon, a variable of IAM's own. */
export function placeholder(name: string): string {
  return `\${${name}}`;
}

/** `engine-room-dev-efs-csi`; one that is too long ends in a hash of its whole instead. */
export function roleName({ name }: AwsContext, subject: string): string {
  const whole = `${name}-${subject}`;
  if (whole.length <= ROLE_NAME_LENGTH) return whole;
  const hash = jsonDigest(whole).slice(0, HASH_DIGITS);
  return `${whole.slice(0, ROLE_NAME_LENGTH - HASH_DIGITS - 1)}-${hash}`;
}

/**
 * Who may take a role, as JSON. Pods take it through EKS, which says in tags of the session whose they are: only those of
 * the one ServiceAccount, in the stack's own cluster, get it.
 * https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
 */
export function trustPolicy({ service, serviceAccount }: RolePlan, { name }: AwsContext): string {
  const isPods = service === PODS;
  return policyJson([
    {
      Effect: "Allow",
      Principal: { Service: service },
      Action: isPods ? ["sts:AssumeRole", "sts:TagSession"] : ["sts:AssumeRole"],
      ...(serviceAccount === null
        ? {}
        : {
            Condition: {
              StringEquals: {
                "aws:RequestTag/eks-cluster-name": name,
                "aws:RequestTag/kubernetes-namespace": serviceAccount.namespace,
                "aws:RequestTag/kubernetes-service-account": serviceAccount.name,
              },
            },
          }),
    },
  ]);
}

/** Names of the inputs that statements refer to, sorted. */
export function statementInputs(statements: readonly Statement[]): readonly string[] {
  const names = [...JSON.stringify(statements).matchAll(PLACEHOLDER)].map(([, name = ""]) => name);
  return [...new Set(names)].sort();
}

/**
 * What a role may do, as JSON.
 *
 * @param inputs - Values of `${name}`; IAM's own variables, such as `${aws:PrincipalTag/…}`, stay as they are.
 * @throws Error where a statement refers to an input that is not there.
 */
export function policyDocument(
  statements: readonly Statement[],
  inputs: Readonly<Record<string, string>> = {},
): string {
  const missing = statementInputs(statements).filter((name) => inputs[name] === undefined);
  if (missing.length > 0) throw new Error(`No value was given for ${missing.join(", ")} of a policy`);
  const filled = (text: string) => text.replace(PLACEHOLDER, (_, name: string) => inputs[name] ?? "");
  return policyJson(
    statements.map(({ sid, effect, actions, resources, conditions }) => ({
      Sid: sid,
      Effect: effect,
      Action: actions,
      Resource: resources.map(filled),
      ...(conditions === undefined ? {} : { Condition: filledConditions(conditions, filled) }),
    })),
  );
}

function filledConditions(
  conditions: NonNullable<Statement["conditions"]>,
  filled: (text: string) => string,
): unknown {
  return mapValues(conditions, (keys) =>
    mapValues(keys, (value) => (typeof value === "string" ? filled(value) : value.map(filled))),
  );
}

function mapValues<From, To>(record: Readonly<Record<string, From>>, map: (value: From) => To) {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}

function policyJson(statements: readonly unknown[]): string {
  return JSON.stringify({ Version: "2012-10-17", Statement: statements });
}
