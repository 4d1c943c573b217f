/**
 * What an account has of a stack's needs, by questions that save money or hours: AWS itself refuses the rest within seconds of
 * `up`. Nothing is changed.
 */
import type { Vpc } from "@aws-sdk/client-ec2";
import { STACK_TAG } from "../../infra/plan/aws/context.ts";
import { overlap } from "../../infra/plan/aws/network.ts";
import { RESERVED_NETWORKS } from "../../infra/plan/catalogue/aws.ts";
import { caller, callerFindings, exampleAccountFindings, unanswered } from "../aws/account.ts";
import { databaseDiskFindings, databaseDisks, runningMachines } from "../aws/machine.ts";
import { ask, tagMap } from "../aws/session.ts";
import type { AskRegistry } from "../images/registry.ts";
import type { AwsTarget } from "../program/targets.ts";
import { machineNeeds, offeringFindings, quotaFindings, reservationFindings } from "./aws-capacity.ts";
import {
  certificateFindings,
  type Found,
  fileSystemFindings,
  hubFindings,
  tokenFindings,
} from "./aws-services.ts";
import { type CheckResult, type Finding, problem, warning } from "./finding.ts";
import { awsImageFindings } from "./images.ts";

/** Whom preflight asks besides AWS. */
interface Others {
  readonly registry: AskRegistry;
  /** The public IPv4 address of this machine; null: not known. */
  readonly ownAddress: () => Promise<string | null>;
}

const TIMEOUT_MILLISECONDS = 15_000;
const ADDRESS_SERVICE = "https://checkip.amazonaws.com";

/** As a service of AWS sees this machine. */
export async function ownAddress(): Promise<string | null> {
  try {
    const response = await fetch(ADDRESS_SERVICE, { signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS) });
    return /^\d+(\.\d+){3}$/.exec((await response.text()).trim())?.[0] ?? null;
  } catch {
    return null;
  }
}

/**
 * @param needs - Machines that are to start.
 * @returns All checks; where the credentials are missing or another account's, that and what the stack file alone tells: nothing
 * else is asked then.
 */
export async function awsPreflight(
  target: AwsTarget,
  others: Others,
  needs = machineNeeds(target),
): Promise<readonly CheckResult[]> {
  const { context } = target;
  const answer = await caller(context.region);
  const findings = await callerFindings(context, answer);
  const looksAt = "credentials and account";
  if (answer.kind !== "answer" || findings.length > 0)
    return [
      { looksAt, findings: [...findings, ...exampleAccountFindings(context, answer)] },
      ...(await results([["addresses that reach the cluster's API", addressFindings(target, null)]])),
    ];
  const running = runningMachines(context.region);
  return [
    { looksAt, findings },
    ...(await results([
      ["addresses that reach the cluster's API", addressFindings(target, others.ownAddress)],
      ["zones that offer the instance types", offeringFindings(target, needs)],
      ["capacity reservations", running.then((all) => reservationFindings(target, needs, all))],
      ["quotas of vCPUs", running.then((all) => quotaFindings(target, needs, all))],
      ["networks and their addresses", networkFindings(target)],
      ["engine store", fileSystemFindings(target)],
      ["disk of the databases", diskFindings(target)],
      ["certificate", certificateFindings(target)],
      ["token of the model hub", tokenFindings(target)],
      ["gated models", hubFindings(target)],
      ["images and registries", awsImageFindings(target, others.registry)],
    ])),
  ];
}

function results(all: readonly (readonly [looksAt: string, found: Promise<Found>])[]) {
  return Promise.all(
    all.map(async ([looksAt, found]): Promise<CheckResult> => {
      const findings = await found;
      return findings === null ? { looksAt, findings: [], isNeeded: false } : { looksAt, findings };
    }),
  );
}

/**
 * EKS takes the addresses of examples for reserved, and answers no address that `access.apiCidrs` lacks: `up` would make the
 * cluster, and then wait in vain for its API. https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html
 *
 * @param own - null: this machine's address is not asked for.
 */
async function addressFindings({ plan }: AwsTarget, own: Others["ownAddress"] | null): Promise<Found> {
  if (plan.compute !== "eks") return null;
  const { apiCidrs } = plan.config.access;
  const examples = apiCidrs.flatMap((cidr) => {
    const reserved = RESERVED_NETWORKS.find(({ use, cidr: one }) => use === "example" && overlap(one, cidr));
    if (reserved === undefined) return [];
    return [
      problem(
        "access",
        `\`access.apiCidrs\` has ${cidr}, an address of examples.`,
        `${reserved.cidr} has ${reserved.what}: EKS refuses them, and you could not reach the cluster's API.`,
        `Write the address that ${ADDRESS_SERVICE} shows, as A.B.C.D/32.`,
      ),
    ];
  });
  const address = own === null || examples.length > 0 ? null : await own();
  if (address === null || apiCidrs.some((cidr) => overlap(cidr, `${address}/32`))) return examples;
  return [
    warning(
      "access",
      `\`access.apiCidrs\` lacks this machine's address ${address}.`,
      `It has ${apiCidrs.join(", ")}; the cluster's API answers no other address, and \`npx engine-room up\` needs it from here.`,
      `Add ${address}/32, or run \`up\` from one of these networks or from within the VPC.`,
    ),
  ];
}

/** Addresses that pods and machines of a subnet take at least: EKS wants 6 for itself, and each machine dozens. */
const LEAST_FREE_ADDRESSES = 64;

async function networkFindings(target: AwsTarget): Promise<Found> {
  const { region, stack } = target.context;
  const { cidr, existing } = target.plan.config.network;
  if (existing !== undefined) return existingNetworkFindings(target, existing);
  const answer = await ask("ec2:DescribeVpcs", region, {});
  if (answer.kind !== "answer")
    return unanswered("network", answer, "it is not known whether the network overlaps one of the account");
  const same = (answer.value.Vpcs ?? []).flatMap((vpc) => {
    const cidrs = cidrsOf(vpc);
    const isOther = tagMap(vpc.Tags).get(STACK_TAG) !== stack && cidrs.some((one) => overlap(one, cidr));
    return isOther ? [`${vpc.VpcId} (${cidrs.join(", ")})`] : [];
  });
  if (same.length === 0) return [];
  return [
    warning(
      "network",
      `The stack's network ${cidr} overlaps ${same.length === 1 ? "another VPC" : `${same.length} VPCs`} of the account.`,
      `${same.join(", ")} ${same.length === 1 ? "has" : "have"} addresses of it; the two can never be connected to each other.`,
      "Take another `network.cidr`, unless they are never to be connected.",
    ),
  ];
}

function cidrsOf({ CidrBlock, CidrBlockAssociationSet = [] }: Vpc): readonly string[] {
  const all = [CidrBlock, ...CidrBlockAssociationSet.map((one) => one.CidrBlock)];
  return [...new Set(all.filter((one) => one !== undefined))];
}

type ExistingNetwork = NonNullable<AwsTarget["plan"]["config"]["network"]["existing"]>;

/** Zones and addresses as the stack file says, which decide where machines start and who is let in. */
async function existingNetworkFindings(
  { context: { region }, plan }: AwsTarget,
  { vpcId, cidr, privateSubnets, publicSubnets }: ExistingNetwork,
): Promise<readonly Finding[]> {
  const wanted = [...privateSubnets, ...publicSubnets];
  const [vpcs, subnets] = await Promise.all([
    ask("ec2:DescribeVpcs", region, { VpcIds: [vpcId] }),
    ask("ec2:DescribeSubnets", region, {
      Filters: [{ Name: "subnet-id", Values: wanted.map(({ id }) => id) }],
    }),
  ]);
  const so = "it is not known whether the existing network is as the stack file says";
  const found = (what: string, why: string, fix: string) => [problem("network", what, why, fix)];
  if (vpcs.kind === "absent")
    return found(
      `There is no VPC ${vpcId}.`,
      `The account has none of that id in ${region}.`,
      "Correct `network.existing.vpcId`.",
    );
  if (vpcs.kind !== "answer") return unanswered("network", vpcs, so);
  if (subnets.kind !== "answer") return unanswered("network", subnets, so);
  const cidrs = cidrsOf(vpcs.value.Vpcs?.[0] ?? {});
  // The stack file knows one network of the VPC, which the plan has looked at.
  const further = cidrs.filter((one) => one !== cidr);
  return [
    ...(cidrs.includes(cidr)
      ? []
      : found(
          `The VPC ${vpcId} is not ${cidr}.`,
          `It has ${cidrs.join(", ")}, and security groups let in the stack file's addresses.`,
          "Correct `network.existing.cidr`.",
        )),
    ...plan.config.network.peeredCidrs
      .filter((one) => further.some((other) => overlap(one, other)))
      .flatMap((one) =>
        found(
          `The VPC ${vpcId} overlaps ${one}.`,
          `It also has ${further.join(", ")}, and routers can't tell two networks with the same addresses apart.`,
          "Correct `network.peeredCidrs`, or take another VPC.",
        ),
      ),
    ...wanted.flatMap(({ id, zone }) => {
      const subnet = subnets.value.Subnets?.find(({ SubnetId }) => SubnetId === id);
      if (subnet?.VpcId !== vpcId)
        return found(
          `The VPC ${vpcId} has no subnet ${id}.`,
          subnet === undefined ? "No VPC of the account has it." : `It belongs to ${subnet.VpcId}.`,
          "Correct `network.existing`.",
        );
      const { AvailabilityZone = "", AvailableIpAddressCount: free = 0 } = subnet;
      if (AvailabilityZone !== `${region}${zone}`)
        return found(
          `The subnet ${id} is not in the zone ${zone}.`,
          `It is in ${AvailabilityZone}.`,
          `Write \`zone: ${AvailabilityZone.slice(region.length)}\` for it.`,
        );
      if (free >= LEAST_FREE_ADDRESSES) return [];
      return [
        warning(
          "network",
          `The subnet ${id} has ${free} addresses left.`,
          `Every pod takes one; with fewer than ${LEAST_FREE_ADDRESSES} machines soon start that can't run pods.`,
          "Take a larger subnet.",
        ),
      ];
    }),
  ];
}

async function diskFindings(target: AwsTarget): Promise<Found> {
  if (target.plan.compute !== "ec2") return null;
  const answer = await databaseDisks(target);
  return [
    ...unanswered(
      "databaseDisk",
      answer,
      "it is not known whether the databases' disk is where the machine would be",
    ),
    ...databaseDiskFindings(target, answer),
  ];
}
