/**
 * Checks of a stack's account that save money or hours: AWS itself refuses the rest within seconds of `up`. Nothing is changed.
 */
import { networkInterfaces } from "node:os";
import type { Vpc } from "@aws-sdk/client-ec2";
import { overlap } from "../../infra/plan/aws/network.ts";
import { RESERVED_NETWORKS } from "../../infra/plan/catalogue/aws.ts";
import { callerFinding } from "../aws/account.ts";
import { databaseDiskFinding, runningMachines } from "../aws/machine.ts";
import { AwsError, ask } from "../aws/session.ts";
import type { AskRegistry } from "../images/registry.ts";
import type { AwsTarget } from "../program/targets.ts";
import { machineNeeds, offeringFindings, quotaFindings, reservationFindings } from "./aws-capacity.ts";
import { existingClusterFindings } from "./aws-cluster.ts";
import { machineImageFindings } from "./aws-machine-images.ts";
import {
  certificateFindings,
  type Found,
  fileSystemFindings,
  hubFindings,
  keyFindings,
  tokenFindings,
} from "./aws-services.ts";
import { type CheckResult, type Finding, problem, warning } from "./finding.ts";
import { awsImageFindings } from "./images.ts";

/** Sources of preflight other than AWS. */
interface Others {
  readonly registry: AskRegistry;
  /** IPv4 addresses of this machine's own network interfaces. */
  readonly localAddresses: () => readonly string[];
  /** The public IPv4 address of this machine; null when unknown. */
  readonly ownAddress: () => Promise<string | null>;
}

const TIMEOUT_MILLISECONDS = 15_000;
const ADDRESS_SERVICE = "https://checkip.amazonaws.com";

export function localAddresses(): readonly string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.flatMap(({ family, internal, address }) => (family === "IPv4" && !internal ? [address] : []));
}

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
 * @param needs - Machines that are to start. @returns All checks; with unknown credentials, or those of another account, only that check.
 */
export async function awsPreflight(
  target: AwsTarget,
  others: Others,
  needs = machineNeeds(target),
): Promise<readonly CheckResult[]> {
  const { region } = target.context;
  const caller = await callerFinding(target.context);
  const first = { looksAt: "credentials and account", findings: caller === null ? [] : [caller] };
  if (caller !== null) return [first];
  const checks: readonly (readonly [check: string, looksAt: string, found: Promise<Found>])[] = [
    ["access", "addresses that reach the cluster's API", addressFindings(target, others)],
    ["offerings", "zones that offer the instance types", offeringFindings(target, needs)],
    ["reservations", "capacity reservations", reservationFindings(target, needs)],
    ["quotas", "quotas of vCPUs", runningMachines(region).then((all) => quotaFindings(target, needs, all))],
    ["machineImages", "images of the cluster's machines", machineImageFindings(target)],
    ["network", "networks and their addresses", networkFindings(target)],
    ["cluster", "the existing cluster", existingClusterFindings(target)],
    ["engineStore", "engine store", fileSystemFindings(target)],
    ["encryption", "key of the disks", keyFindings(target)],
    ["databaseDisk", "disk of the databases", diskFindings(target)],
    ["certificate", "certificate", certificateFindings(target)],
    ["hubToken", "token of the model hub", tokenFindings(target)],
    ["hub", "gated models", hubFindings(target)],
    ["images", "images and registries", awsImageFindings(target, others.registry)],
  ];
  const results = checks.map(async ([check, looksAt, found]): Promise<CheckResult> => {
    const findings = await found.catch((error: unknown) => [unanswered(check, looksAt, error)]);
    return findings === null ? { looksAt, findings: [], isNeeded: false } : { looksAt, findings };
  });
  return [first, ...(await Promise.all(results))];
}

/** A failed request is not a problem of the stack. */
function unanswered(check: string, looksAt: string, error: unknown): Finding {
  if (!(error instanceof AwsError)) throw error;
  return warning(
    check,
    `${error.action} does not answer.`,
    `${error.words}; so this was not checked: ${looksAt}.`,
    `Allow your credentials ${error.action}, which only reads; AWS_ENDPOINT_URL, proxies and the region decide who is asked.`,
  );
}

/**
 * EKS refuses the addresses of examples, and does not answer addresses that `access.apiCidrs` lacks: `up` would create the cluster, and
 * never reach its API. https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html
 */
async function addressFindings({ plan }: AwsTarget, others: Others): Promise<Found> {
  if (plan.compute !== "eks" || plan.config.cluster.existing !== undefined) return null;
  const { endpoint, apiCidrs, privateCidrs } = plan.config.access;
  if (endpoint === "private") {
    const addresses = others.localAddresses();
    if (addresses.some((address) => privateCidrs.some((cidr) => overlap(cidr, `${address}/32`)))) return [];
    return [
      warning(
        "access",
        "The cluster's API is private, and this machine has no address of `access.privateCidrs`.",
        `It has ${addresses.join(", ") || "none of IPv4"}; the API answers ${privateCidrs.join(", ") || "only machines and pods of the cluster"}, and \`npx engine-room up\` needs it from here.`,
        "Connect this machine to one of these networks, as by VPN, or run `up` there. If a router translates its address, see that the translated one is in them.",
      ),
    ];
  }
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
  const address = examples.length > 0 ? null : await others.ownAddress();
  if (address === null || apiCidrs.some((cidr) => overlap(cidr, `${address}/32`))) return examples;
  return [
    warning(
      "access",
      `\`access.apiCidrs\` lacks this machine's address ${address}.`,
      `It has ${apiCidrs.join(", ")}; the cluster's API answers no other address, and \`npx engine-room up\` needs it from here.`,
      `Add ${address}/32, or run \`up\` from one of these networks, or from one of \`access.privateCidrs\`.`,
    ),
  ];
}

/** Least number of addresses that pods and machines of a subnet take: EKS requires 6 for itself, and each machine dozens. */
const LEAST_FREE_ADDRESSES = 64;

function cidrsOf({ CidrBlock, CidrBlockAssociationSet = [] }: Vpc): readonly string[] {
  const all = [CidrBlock, ...CidrBlockAssociationSet.map((one) => one.CidrBlock)];
  return [...new Set(all.filter((one) => one !== undefined))];
}

/** Checks of an existing network: addresses and zones, which decide on access and on where machines start. */
async function networkFindings({ context: { region }, plan }: AwsTarget): Promise<Found> {
  const { existing, peeredCidrs } = plan.config.network;
  if (existing === undefined) return null;
  const { vpcId, cidr, privateSubnets, publicSubnets } = existing;
  const wanted = [...privateSubnets, ...publicSubnets];
  const ids = wanted.map(({ id }) => id);
  const [vpcs, subnets] = await Promise.all([
    ask("ec2:DescribeVpcs", region, { VpcIds: [vpcId] }),
    ask("ec2:DescribeSubnets", region, { Filters: [{ Name: "subnet-id", Values: ids }] }),
  ]);
  const [vpc] = vpcs?.Vpcs ?? [];
  const findings: Finding[] = [];
  const found = (...words: [what: string, why: string, fix: string]) =>
    void findings.push(problem("network", ...words));
  if (vpc === undefined)
    found(`There is no VPC ${vpcId} in ${region}.`, "The account lacks it.", "Correct `network.existing`.");
  const cidrs = cidrsOf(vpc ?? { CidrBlock: cidr });
  if (!cidrs.includes(cidr))
    found(
      `The VPC ${vpcId} is not ${cidr}.`,
      `It has ${cidrs.join(", ")}, and security groups let in the stack file's addresses.`,
      "Correct `network.existing.cidr`.",
    );
  // The stack file has one range of the VPC, which the plan has checked.
  for (const peered of peeredCidrs)
    if (cidrs.some((one) => one !== cidr && overlap(one, peered)))
      found(
        `The VPC ${vpcId} overlaps ${peered}.`,
        `It has ${cidrs.join(", ")}, and routers can't tell two networks with the same addresses apart.`,
        "Correct `network.peeredCidrs`, or take another VPC.",
      );
  for (const { id, zone } of vpc === undefined ? [] : wanted) {
    const subnet = subnets?.Subnets?.find(({ SubnetId }) => SubnetId === id);
    const { VpcId, AvailabilityZone, AvailableIpAddressCount: free = 0 } = subnet ?? {};
    if (VpcId !== vpcId || AvailabilityZone !== `${region}${zone}`)
      found(
        `The VPC ${vpcId} has no subnet ${id} in ${region}${zone}.`,
        subnet === undefined ? "The account lacks it." : `It is in ${AvailabilityZone} of ${VpcId}.`,
        "Correct `network.existing`.",
      );
    else if (free < LEAST_FREE_ADDRESSES)
      findings.push(
        warning(
          "network",
          `The subnet ${id} has ${free} addresses left.`,
          `Every pod takes one; with fewer than ${LEAST_FREE_ADDRESSES} machines soon start that can't run pods.`,
          "Take a larger subnet.",
        ),
      );
  }
  return findings;
}

async function diskFindings(target: AwsTarget): Promise<Found> {
  if (target.plan.compute !== "ec2") return null;
  const finding = await databaseDiskFinding(target);
  return finding === null ? [] : [finding];
}
