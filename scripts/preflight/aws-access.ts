/** Whether the cluster can give its administrators access: EKS makes an entry for who makes it, and refuses a second one. */
import { overlap } from "../../infra/plan/aws/subnets.ts";
import { RESERVED_NETWORKS } from "../../infra/plan/catalogue/reserved-networks.ts";
import type { Caller } from "../aws/account.ts";
import { eksCluster } from "../aws/eks.ts";
import type { Answer } from "../aws/session.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { unanswered } from "./aws-words.ts";
import { type Finding, problem } from "./finding.ts";

/** What is known of a caller whom `access.admins` names; null: it does not, or there is no cluster to administer. */
export type AdminReading = { readonly admin: string; readonly cluster: Answer<unknown> } | null;

export async function readAdmin({ plan, context }: AwsTarget, { arn }: Caller): Promise<AdminReading> {
  if (plan.compute !== "eks") return null;
  const admin = plan.config.access.admins.find((one) => isPrincipal(one, arn));
  return admin === undefined ? null : { admin, cluster: await eksCluster(context.region, context.name) };
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
    const reserved = RESERVED_NETWORKS.find(
      ({ kind, cidr: one }) => kind === "example" && overlap(one, cidr),
    );
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

/** A cluster that is there has its entries, whoever made it. */
export function adminFindings({ context }: AwsTarget, reading: AdminReading): readonly Finding[] {
  if (reading === null || reading.cluster.kind === "answer") return [];
  const { admin, cluster } = reading;
  if (cluster.kind !== "absent")
    return unanswered(
      "access",
      cluster,
      `nobody knows whether you are about to make the cluster as ${admin}`,
    );
  return [
    problem(
      "access",
      `\`access.admins\` names you, ${admin}.`,
      `Who makes the cluster ${context.name} administers it by an access entry that EKS makes; it refuses the second one for the same principal (ResourceInUseException), and \`npm run up\` would end there.`,
      "Take yourself out of `access.admins`, and leave it so; or have another one of them run `npm run up` the first time.",
    ),
  ];
}
