/** Networks and addresses of an account, against what a stack makes or uses. Pure. */
import { STACK_TAG } from "../../infra/plan/aws/context.ts";
import { overlap } from "../../infra/plan/aws/network.ts";
import type { SubnetReading, VpcReading } from "../aws/ec2.ts";
import type { Answer } from "../aws/session.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { unanswered } from "./aws-words.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** A network that is made, against those of the account; the plan itself looks at `network.peeredCidrs`. */
export function cidrFindings(
  { context, plan: { config } }: AwsTarget,
  vpcs: Answer<readonly VpcReading[]>,
): readonly Finding[] {
  const { cidr, existing } = config.network;
  if (existing !== undefined) return [];
  if (vpcs.kind !== "answer")
    return unanswered("network", vpcs, "nobody knows whether the network overlaps one of the account");
  const same = otherVpcs(vpcs.value, context.stack).filter(({ cidrs }) =>
    cidrs.some((one) => overlap(one, cidr)),
  );
  if (same.length === 0) return [];
  const named = same.map(({ id, cidrs }) => `${id} (${cidrs.join(", ")})`).join(", ");
  return [
    warning(
      "network",
      `The stack's network ${cidr} overlaps ${same.length === 1 ? "another VPC" : `${same.length} VPCs`} of the account.`,
      `${named} ${same.length === 1 ? "has" : "have"} addresses of it; the two can never be connected to each other.`,
      "Take another `network.cidr`, unless they are never to be connected.",
    ),
  ];
}

/** VPCs that are not the stack's own. */
export function otherVpcs(vpcs: readonly VpcReading[], stack: string): readonly VpcReading[] {
  return vpcs.filter(({ tags }) => tags.get(STACK_TAG) !== stack);
}

/** Addresses that pods and machines of a subnet take at least: EKS wants 6 for itself, and each machine dozens. */
const LEAST_FREE_ADDRESSES = 64;

/** A network that is there: as the stack file says. */
export function existingNetworkFindings(
  { context: { region }, plan: { config } }: AwsTarget,
  vpcs: Answer<readonly VpcReading[]>,
  subnets: Answer<readonly SubnetReading[]> | null,
): readonly Finding[] {
  const { existing, peeredCidrs } = config.network;
  if (existing === undefined || subnets === null) return [];
  const so = "nobody knows whether the existing network is as the stack file says";
  if (vpcs.kind !== "answer") return unanswered("network", vpcs, so);
  if (subnets.kind !== "answer") return unanswered("network", subnets, so);
  const vpc = vpcs.value.find(({ id }) => id === existing.vpcId);
  if (vpc === undefined)
    return [
      problem(
        "network",
        `There is no VPC ${existing.vpcId}.`,
        `The account has ${vpcs.value.length} in ${region}, and none of that id.`,
        "Correct `network.existing.vpcId`.",
      ),
    ];
  const differs = vpc.cidrs.includes(existing.cidr)
    ? []
    : [
        problem(
          "network",
          `The VPC ${existing.vpcId} is not ${existing.cidr}.`,
          `It has ${vpc.cidrs.join(", ")}, and security groups let in what the stack file says.`,
          "Correct `network.existing.cidr`.",
        ),
      ];
  const wanted = [...existing.privateSubnets, ...existing.publicSubnets];
  // The stack file knows one network of the VPC, which the plan has looked at.
  const further = vpc.cidrs.filter((cidr) => cidr !== existing.cidr);
  const peered = peeredCidrs.filter((one) => further.some((cidr) => overlap(one, cidr)));
  return [
    ...differs,
    ...peered.map((one) =>
      problem(
        "network",
        `The VPC ${existing.vpcId} overlaps ${one}.`,
        `It also has ${further.join(", ")}, and routers can't tell two networks with the same addresses apart.`,
        "Correct `network.peeredCidrs`, or take another VPC.",
      ),
    ),
    ...wanted.flatMap(({ id, zone }) => {
      const found = subnets.value.find((one) => one.id === id);
      if (found === undefined || found.vpcId !== existing.vpcId)
        return [
          problem(
            "network",
            `The VPC ${existing.vpcId} has no subnet ${id}.`,
            found === undefined ? "No VPC of the account has it." : `It belongs to ${found.vpcId}.`,
            "Correct `network.existing`.",
          ),
        ];
      if (found.zone !== `${region}${zone}`)
        return [
          problem(
            "network",
            `The subnet ${id} is not in the zone ${zone}.`,
            `It is in ${found.zone}.`,
            `Write \`zone: ${found.zone.slice(region.length)}\` for it.`,
          ),
        ];
      if (found.freeAddresses >= LEAST_FREE_ADDRESSES) return [];
      return [
        warning(
          "network",
          `The subnet ${id} has ${found.freeAddresses} addresses left.`,
          `Every pod takes one; with fewer than ${LEAST_FREE_ADDRESSES} machines soon start that can't run pods.`,
          "Take a larger subnet.",
        ),
      ];
    }),
  ];
}
