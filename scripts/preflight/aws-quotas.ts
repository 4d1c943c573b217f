/** Quotas that what a stack makes counts against, and how much of each is left. Pure. */
import type { QuotaCode } from "../aws/account.ts";
import type { RunningMachine } from "../aws/ec2.ts";
import type { Answer } from "../aws/session.ts";
import { unanswered, unansweredOf } from "./aws-words.ts";
import { type Finding, problem, warning } from "./finding.ts";

export interface Quota extends QuotaCode {
  /** As AWS names it. */
  readonly name: string;
  readonly isSpot: boolean;
  /** Instance types that count against it. */
  readonly types: RegExp;
}

const ec2 = (code: string, name: string, isSpot: boolean, types: RegExp): Quota => ({
  service: "ec2",
  code,
  name,
  isSpot,
  types,
});

const G_AND_VT = /^(g|vt)[a-z]*\d/;
const STANDARD = /^([acdhmrtz]|i(?!nf))(?!l\d|rn\d|pc\d|ac\d)[a-z]*\d/;

/**
 * In vCPUs: of the families that the catalogue has machines of. Spot has a row of its own for p5.
 * https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
 */
const VCPU_QUOTAS: readonly Quota[] = [
  ec2("L-DB2E81BA", "Running On-Demand G and VT instances", false, G_AND_VT),
  ec2("L-417A185B", "Running On-Demand P instances", false, /^p\d/),
  ec2("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", false, STANDARD),
  ec2("L-3819A6DF", "All G and VT Spot Instance Requests", true, G_AND_VT),
  ec2("L-C4BD4855", "All P5 Spot Instance Requests", true, /^p5/),
  ec2("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", true, /^p[234]/),
  ec2("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", true, STANDARD),
];

/** https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html; Elastic IPs belong to EC2's list. */
export const VPC_QUOTA: QuotaCode & { readonly name: string } = {
  service: "vpc",
  code: "L-F678F1CE",
  name: "VPCs per Region",
};
export const ADDRESS_QUOTA: QuotaCode & { readonly name: string } = {
  service: "ec2",
  code: "L-0263D0A3",
  name: "EC2-VPC Elastic IPs",
};

/** Machines of one pool. */
export interface MachineNeed {
  readonly pool: string;
  readonly instanceType: string;
  readonly isSpot: boolean;
  /** Of each machine. */
  readonly vcpus: number;
  /** What `up` waits for: without one of these it fails. */
  readonly plannedMachines: number;
  readonly maxMachines: number;
  /** Machines besides these, while EKS updates the pool. */
  readonly surgeMachines: number;
}

/** The quota that a machine counts against; null: this project knows none for its family. */
function vcpuQuota(instanceType: string, isSpot: boolean): Quota | null {
  return VCPU_QUOTAS.find((quota) => quota.isSpot === isSpot && quota.types.test(instanceType)) ?? null;
}

/** Each once, in the order of the pools. */
export function neededQuotas(needs: readonly MachineNeed[]): readonly Quota[] {
  return [...new Set(needs.flatMap(({ instanceType, isSpot }) => vcpuQuota(instanceType, isSpot) ?? []))];
}

interface QuotaReading {
  /** By quota code. */
  readonly quotas: ReadonlyMap<string, Answer<number>>;
  /** Machines of the account that are none of this stack. */
  readonly others: Answer<readonly RunningMachine[]>;
  /** Of the types of these. */
  readonly vcpus: Answer<ReadonlyMap<string, number>>;
  readonly region: string;
}

/** One finding a quota that is too small, with the number of vCPUs that are missing. */
export function vcpuFindings(needs: readonly MachineNeed[], reading: QuotaReading): readonly Finding[] {
  const unknown = needs.filter(({ instanceType, isSpot }) => vcpuQuota(instanceType, isSpot) === null);
  return [
    ...unknown.map(({ pool, instanceType }) =>
      warning(
        "quotas",
        `Whether a quota lets the pool ${pool} start is not known.`,
        `${instanceType} is of a family whose quota code this project does not have.`,
        `Look at the quotas of EC2 in ${reading.region} (https://console.aws.amazon.com/servicequotas/home/services/ec2/quotas).`,
      ),
    ),
    ...[reading.others, reading.vcpus].flatMap((answer) =>
      unanswered("quotas", answer, "what runs already counts as nothing"),
    ),
    ...unansweredOf(
      "quotas",
      new Map(neededQuotas(needs).map(({ name, code }) => [`"${name}" (${code})`, reading.quotas.get(code)])),
      (names) => `nobody knows how many vCPUs ${names} allow`,
    ),
    ...neededQuotas(needs).flatMap((quota) => quotaFinding(quota, needs, reading)),
  ];
}

function quotaFinding(
  quota: Quota,
  needs: readonly MachineNeed[],
  reading: QuotaReading,
): readonly Finding[] {
  const answer = reading.quotas.get(quota.code);
  if (answer?.kind !== "answer") return [];
  const own = needs.filter((need) => vcpuQuota(need.instanceType, need.isSpot) === quota);
  const most = own.reduce((sum, { vcpus, maxMachines }) => sum + vcpus * maxMachines, 0);
  const running = runningVcpus(quota, reading);
  const missing = most + running - answer.value;
  if (missing <= 0) return surgeFinding(quota, own, most + running - answer.value, reading.region);
  const planned = own.reduce((sum, { vcpus, plannedMachines }) => sum + vcpus * plannedMachines, 0);
  const machines = own.map(
    ({ pool, instanceType, vcpus, maxMachines }) =>
      `${pool} has up to ${maxMachines} × ${instanceType} with ${vcpus} vCPUs`,
  );
  // Else `up` ends well, and the pool can't grow to what the stack file says.
  const isTooSmall = planned + running > answer.value;
  return [
    (isTooSmall ? problem : warning)(
      "quotas",
      `The quota ${quota.code} lacks ${missing} vCPUs.`,
      `"${quota.name}" allows ${answer.value} vCPUs in ${reading.region}; ${machines.join(", ")}, together ${most}, and ${running === 0 ? "nothing else runs" : `${running} run already`}. ${isTooSmall ? `\`npx engine-room up\` waits for machines with ${planned} vCPUs, and would fail.` : "The last of the machines could not start."}`,
      `aws service-quotas request-service-quota-increase --region ${reading.region} --service-code ${quota.service} --quota-code ${quota.code} --desired-value ${most + running}, and wait for AWS to agree, or ${isTooSmall ? "fewer or smaller machines" : "fewer `nodes.max`"}.`,
    ),
  ];
}

/** What an update of node groups takes besides. @param over - vCPUs above the quota without it: 0 or less. */
function surgeFinding(
  { code, name, service }: Quota,
  own: readonly MachineNeed[],
  over: number,
  region: string,
): readonly Finding[] {
  const surging = own.filter(({ surgeMachines }) => surgeMachines > 0);
  const surge = surging.reduce((sum, { vcpus, surgeMachines }) => sum + vcpus * surgeMachines, 0);
  const missing = surge + over;
  if (surge === 0 || missing <= 0) return [];
  const machines = surging.map(
    ({ pool, instanceType, surgeMachines }) => `${surgeMachines} × ${instanceType} of ${pool}`,
  );
  return [
    warning(
      "quotas",
      `The quota ${code} lacks ${missing} vCPUs for an update of the machines.`,
      `"${name}" has ${surge - missing} left in ${region} once all pools are at their most; EKS may start ${machines.join(", ")} before it ends old ones, together ${surge} vCPUs.`,
      `aws service-quotas request-service-quota-increase --region ${region} --service-code ${service} --quota-code ${code}, with a --desired-value that is ${missing} higher, before \`cluster.version\` changes.`,
    ),
  ];
}

function runningVcpus({ isSpot, types }: Quota, { others, vcpus }: QuotaReading): number {
  if (others.kind !== "answer" || vcpus.kind !== "answer") return 0;
  return others.value
    .filter((one) => one.isSpot === isSpot && types.test(one.type))
    .reduce((sum, { type }) => sum + (vcpus.value.get(type) ?? 0), 0);
}

/** A finding where a number of things is more than its quota. @param used - By others than the stack. */
export function countFinding(
  quota: QuotaCode & { readonly name: string },
  {
    needed,
    used,
    allowed,
    region,
  }: {
    readonly needed: number;
    readonly used: number;
    readonly allowed: Answer<number> | undefined;
    readonly region: string;
  },
): readonly Finding[] {
  if (needed === 0) return [];
  if (allowed?.kind !== "answer")
    return unanswered("quotas", allowed, `nobody knows how many "${quota.name}" (${quota.code}) allows`);
  const missing = needed + used - allowed.value;
  if (missing <= 0) return [];
  return [
    problem(
      "quotas",
      `The quota ${quota.code} lacks ${missing}.`,
      `"${quota.name}" allows ${allowed.value} in ${region}; the stack makes ${needed}, and ${used} are there.`,
      `aws service-quotas request-service-quota-increase --region ${region} --service-code ${quota.service} --quota-code ${quota.code} --desired-value ${needed + used}, or delete what nobody uses.`,
    ),
  ];
}
