/** Whether the cluster can give its administrators access: EKS makes an entry for who makes it, and refuses a second one. */
import { STACK_TAG } from "../../infra/plan/aws/context.ts";
import { overlap } from "../../infra/plan/aws/network.ts";
import { RESERVED_NETWORKS } from "../../infra/plan/catalogue/aws.ts";
import type { Caller } from "../aws/account.ts";
import { accessEntryTags, eksCluster } from "../aws/eks.ts";
import type { Answer } from "../aws/session.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { unanswered, unansweredOf } from "./aws-words.ts";
import { type Finding, problem } from "./finding.ts";

/** What is known of those whom `access.admins` names; null: nobody, or there is no cluster to administer. */
export interface AdminReading {
  readonly cluster: Answer<unknown>;
  /** The one of them that the caller is. */
  readonly caller: string | undefined;
  /** Tags of the entries that they have, by their ARNs; none without a cluster. */
  readonly entries: ReadonlyMap<string, Answer<Readonly<Record<string, string>>>>;
}

export async function readAdmins(
  { plan, context: { region, name } }: AwsTarget,
  { arn }: Caller,
): Promise<AdminReading | null> {
  if (plan.compute !== "eks") return null;
  const { admins } = plan.config.access;
  if (admins.length === 0) return null;
  const cluster = await eksCluster(region, name);
  const asked = cluster.kind === "answer" ? [...new Set(admins)] : [];
  return {
    cluster,
    caller: admins.find((one) => isPrincipal(one, arn)),
    entries: new Map(
      await Promise.all(asked.map(async (one) => [one, await accessEntryTags(region, name, one)] as const)),
    ),
  };
}

/**
 * Whether a caller acts as an IAM user or role. A session of a role is named without the role's path:
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-arns
 *
 * @param principal - `arn:aws:iam::111122223333:role/path/NAME`. @param caller - As STS names it. Pure.
 */
export function isPrincipal(principal: string, caller: string): boolean {
  if (principal === caller) return true;
  const [, ofRole, role] = /^arn:[^:]+:iam::(\d{12}):role\/(?:.+\/)?([^/]+)$/.exec(principal) ?? [];
  const [, ofSession, name] = /^arn:[^:]+:sts::(\d{12}):assumed-role\/([^/]+)\//.exec(caller) ?? [];
  return ofRole !== undefined && ofRole === ofSession && role === name;
}

/**
 * Addresses of examples, which a plan takes because examples have them. EKS refuses what is reserved:
 * https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html
 */
export function apiCidrFindings({ plan }: AwsTarget): readonly Finding[] {
  if (plan.compute !== "eks") return [];
  return plan.config.access.apiCidrs.flatMap((cidr) => {
    const reserved = RESERVED_NETWORKS.find(({ use, cidr: one }) => use === "example" && overlap(one, cidr));
    if (reserved === undefined) return [];
    return [
      problem(
        "access",
        `\`access.apiCidrs\` has ${cidr}, which nobody comes from.`,
        `${reserved.cidr} has ${reserved.what}: EKS refuses them, and you could not reach the cluster's API.`,
        "Write the address that https://checkip.amazonaws.com shows, as A.B.C.D/32.",
      ),
    ];
  });
}

/** Of a cluster that is there, by its entries; else by who is about to make it. */
export function adminFindings(target: AwsTarget, reading: AdminReading | null): readonly Finding[] {
  if (reading === null) return [];
  const { cluster, caller, entries } = reading;
  if (cluster.kind === "answer") return entryFindings(target, entries);
  if (caller === undefined) return [];
  if (cluster.kind !== "absent")
    return unanswered(
      "access",
      cluster,
      `nobody knows whether you are about to make the cluster as ${caller}`,
    );
  return [
    problem(
      "access",
      `\`access.admins\` names you, ${caller}.`,
      `Who makes the cluster ${target.context.name} administers it by an access entry that EKS makes; it refuses the second one for the same principal (ResourceInUseException), and \`npx engine-room up\` would end there.`,
      "Take yourself out of `access.admins`, and leave it so; or have another one of them run `npx engine-room up` the first time.",
    ),
  ];
}

/** Entries that `up` would make a second time: of who made the cluster, or by hand. */
function entryFindings(
  { context: { region, name, stack } }: AwsTarget,
  entries: AdminReading["entries"],
): readonly Finding[] {
  const unknown = new Map([...entries].filter(([, { kind }]) => kind !== "absent"));
  return [
    ...unansweredOf(
      "access",
      unknown,
      (admins) => `nobody knows whether ${admins} has an entry of the cluster`,
    ),
    ...[...entries].flatMap(([admin, answer]) => {
      if (answer.kind !== "answer" || answer.value[STACK_TAG] === stack) return [];
      return [
        problem(
          "access",
          `${admin} has an access entry of the cluster ${name} that is not the stack's.`,
          "Whoever made the cluster has one by EKS, and others may have one by hand; EKS refuses the second one for the same principal (ResourceInUseException), and `npx engine-room up` would end there.",
          `Take it out of \`access.admins\` if it made the cluster; else \`aws eks delete-access-entry --region ${region} --cluster-name ${name} --principal-arn ${admin}\`, and \`up\` makes it anew.`,
        ),
      ];
    }),
  ];
}
