/** Whether AWS lets the machines of a stack start: zones that offer their types, reservations, and quotas of vCPUs. */
import { STACK_TAG, SYSTEM_POOL } from "../../infra/plan/aws/context.ts";
import { eksClusterPlan, type NodePoolPlan, nodePoolPlans } from "../../infra/plan/aws/eks-cluster.ts";
import { instanceZone } from "../../infra/plan/aws/network.ts";
import { machineTypes } from "../../infra/plan/catalogue/machines.ts";
import { plannedNodes } from "../../infra/plan/cost/pool-price.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { buildsOf } from "../../infra/plan/pool-space.ts";
import { unanswered } from "../aws/account.ts";
import type { Machine } from "../aws/machine.ts";
import { type Answer, ask, mapAnswer, type Output } from "../aws/session.ts";
import type { AwsTarget } from "../program/targets.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** Machines of one pool. */
export interface MachineNeed {
  readonly pool: string;
  readonly instanceType: string;
  readonly isSpot: boolean;
  /** Of each machine. */
  readonly vcpus: number;
  /** Machines that `up` waits for: without one of these it fails. */
  readonly plannedMachines: number;
  readonly maxMachines: number;
  /** Machines besides these, while EKS updates the pool. */
  readonly surgeMachines: number;
}

/** Machines of the stack file, and those of EKS's controllers. Pure. */
export function machineNeeds({ plan, context }: AwsTarget): readonly MachineNeed[] {
  if (plan.compute === "ec2")
    return plan.spec.pools.flatMap(({ name: pool, instanceType, machine: { vcpus }, capacity }) => {
      const one = { plannedMachines: 1, maxMachines: 1, surgeMachines: 0 };
      return instanceType === null
        ? []
        : [{ pool, instanceType, vcpus, isSpot: capacity === "spot", ...one }];
    });
  return eksClusterPlan(plan, context).pools.flatMap((pool) =>
    // Which of several types starts is not known; they are of one family and size.
    pool.nodeGroup.instanceTypes.slice(0, 1).map((instanceType) => ({
      pool: pool.name,
      instanceType,
      isSpot: pool.nodeGroup.capacityType === "SPOT",
      vcpus: vcpusOf(plan, pool.name, instanceType),
      plannedMachines: plannedMachines(plan, pool),
      maxMachines: pool.nodeGroup.scalingConfig.maxSize,
      surgeMachines: pool.surgeMachines,
    })),
  );
}

function vcpusOf({ spec }: EksPlan, pool: string, instanceType: string): number {
  const own = spec.pools.find(({ name }) => name === pool)?.machine;
  const vcpus = (own ?? machineTypes[instanceType])?.vcpus;
  if (vcpus === undefined) throw new Error(`The catalogue has no ${instanceType}.`);
  return vcpus;
}

/** Machines of a node group that `up` waits for: those that serve there, and one for builds. */
function plannedMachines({ spec }: EksPlan, { name, nodeGroup }: NodePoolPlan): number {
  const pool = spec.pools.find((one) => one.name === name);
  if (pool === undefined) return nodeGroup.scalingConfig.minSize;
  return Math.max(plannedNodes(spec, pool), buildsOf(spec, pool).length > 0 ? 1 : 0);
}

/** Letters of the zones that a pool's machines may be in. */
function poolZones({ plan }: AwsTarget, pool: string): readonly string[] {
  if (plan.compute === "ec2") return [instanceZone(plan.config)];
  const planned = nodePoolPlans(plan).find(({ name }) => name === pool);
  if (planned === undefined) throw new Error(`The cluster has no pool ${pool}.`);
  return planned.zones;
}

/**
 * Pools with a zone that does not offer their instance type, or does not exist. EKS makes no node group then, whatever its size
 * and its other zones, some 15 minutes after the cluster was begun: "Your requested instance type is not supported in your
 * requested Availability Zone", InvalidRequestException of CreateNodegroup (issue 6461 of eksctl).
 */
export async function offeringFindings(
  target: AwsTarget,
  needs: readonly MachineNeed[],
): Promise<readonly Finding[]> {
  const { region } = target.context;
  const types = [...new Set(needs.map(({ instanceType }) => instanceType))];
  const offered = await ask("ec2:DescribeInstanceTypeOfferings", region, {
    LocationType: "availability-zone",
    Filters: [{ Name: "instance-type", Values: types }],
  });
  if (offered.kind !== "answer")
    return unanswered("offerings", offered, "it is not known which zones offer the instance types");
  const { InstanceTypeOfferings = [] } = offered.value;
  return needs.flatMap(({ pool, instanceType }) => {
    const zones = InstanceTypeOfferings.flatMap(({ InstanceType, Location = "" }) =>
      InstanceType === instanceType ? [Location] : [],
    ).toSorted();
    const lacking = poolZones(target, pool).filter((zone) => !zones.includes(`${region}${zone}`));
    if (lacking.length === 0) return [];
    const refusal =
      target.plan.compute === "eks" ? " EKS makes no node group with a subnet in a zone without it." : "";
    return [
      problem(
        "offerings",
        `The pool ${pool} finds no ${instanceType} in ${lacking.map((zone) => `${region}${zone}`).join(", ")}.`,
        zones.length === 0
          ? `No zone of ${region} offers the type to this account.`
          : `Only ${zones.join(", ")} of ${region} ${zones.length === 1 ? "offers" : "offer"} it to this account.${refusal}`,
        offeringFix(target, pool, zones.length > 0),
      ),
    ];
  });
}

/** @param isOffered - In any zone of the region. */
function offeringFix({ plan }: AwsTarget, pool: string, isOffered: boolean): string {
  const { existing } = plan.config.network;
  const key = existing === undefined ? "`network.zones`" : "`network.existing.privateSubnets`";
  // Its type is not the stack file's to say, nor are its zones.
  if (pool === SYSTEM_POOL)
    return isOffered ? `Have zones of these alone in ${key}.` : "Take another region.";
  if (!isOffered) return "Take another region or another instance type.";
  const own = plan.compute === "eks" ? "zones of these as `zones`" : "one of these as `zone`";
  return `Write ${own} of the pool ${pool}, and have them in ${key}.`;
}

/** Reserved machines that pools name, against those that AWS holds; null: no pool names any. */
export async function reservationFindings(
  target: AwsTarget,
  needs: readonly MachineNeed[],
  running: Answer<readonly Machine[]>,
): Promise<readonly Finding[] | null> {
  const named = target.plan.spec.pools.flatMap(({ name, capacityReservationId: id }) => {
    const need = needs.find(({ pool }) => pool === name);
    return id === undefined || need === undefined ? [] : [{ id, need }];
  });
  if (named.length === 0) return null;
  const { region } = target.context;
  const findings = named.map(async ({ id, need }) => {
    const input = { CapacityReservationIds: [id] };
    const answer = await ask("ec2:DescribeCapacityReservations", region, input);
    const so = `it is not known what ${id} holds for the pool ${need.pool}`;
    if (answer.kind !== "answer" && answer.kind !== "absent") return unanswered("reservations", answer, so);
    const held = answer.kind === "answer" ? answer.value.CapacityReservations?.[0] : undefined;
    return reservationFinding(target, id, need, held, running);
  });
  return (await Promise.all(findings)).flat();
}

type Reservation = NonNullable<Output<"ec2:DescribeCapacityReservations">["CapacityReservations"]>[number];

function reservationFinding(
  target: AwsTarget,
  id: string,
  { pool, instanceType, plannedMachines: planned, maxMachines }: MachineNeed,
  held: Reservation | undefined,
  running: Answer<readonly Machine[]>,
): readonly Finding[] {
  const { region, stack } = target.context;
  const found = (what: string, why: string, fix: string) => [
    problem("reservations", `The capacity reservation ${id} ${what}`, why, fix),
  ];
  const path = `\`capacityReservationId\` of the pool ${pool}`;
  const correct = `Correct ${path}, or leave it out.`;
  if (held === undefined)
    return [
      problem(
        "reservations",
        `There is no capacity reservation ${id}.`,
        `The account has none of that id in ${region}.`,
        correct,
      ),
    ];
  if (held.ReservationType === "capacity-block")
    return found(
      "is a Capacity Block.",
      "Machines of a Capacity Block are started as a kind of their own, for days and with an end, and this project starts on-demand and spot machines alone.",
      `Take an on-demand capacity reservation, or leave out ${path}.`,
    );
  if (held.State !== "active")
    return found(
      "is not active.",
      `AWS says that it is ${held.State}, and no machine starts in it.`,
      correct,
    );
  if (held.InstanceType !== instanceType)
    return found(
      `holds no ${instanceType}.`,
      `It holds ${held.InstanceType}, and the pool ${pool} wants ${instanceType}.`,
      `Correct ${path}, or its instanceType.`,
    );
  const zone = held.AvailabilityZone ?? "";
  const zones = poolZones(target, pool);
  const letter = zone.slice(region.length);
  if (!zones.includes(letter))
    return found(
      `is in another zone than the pool ${pool}.`,
      `It is in ${zone}, and the pool's machines are started in ${zones.join(", ")}.`,
      `Write \`${target.plan.compute === "eks" ? `zones: [${letter}]` : `zone: ${letter}`}\` for the pool.`,
    );
  const { TotalInstanceCount: total = 0, AvailableInstanceCount: free = 0 } = held;
  // The stack's own machines of the type may be those that use it.
  const own = (running.kind === "answer" ? running.value : []).filter(
    ({ type, tags }) => type === instanceType && tags.get(STACK_TAG) === stack,
  );
  const room = Math.min(total, free + own.length);
  if (room >= maxMachines) return [];
  return [
    // With fewer than `up` waits for it fails; with fewer than the most, the pool can't grow to the stack file's size.
    (room < planned ? problem : warning)(
      "reservations",
      `The capacity reservation ${id} has room for ${room} of ${maxMachines} machines of the pool ${pool}.`,
      `It holds ${total}, of which ${free} are free; no other machine is started for a pool that names it.${room < planned ? ` \`npx engine-room up\` waits for ${planned}.` : ""}`,
      "Enlarge the reservation (aws ec2 modify-capacity-reservation), or write fewer `nodes.max`.",
    ),
  ];
}

/** A quota of EC2 in vCPUs. */
interface Quota {
  readonly code: string;
  /** As AWS names it. */
  readonly name: string;
  readonly isSpot: boolean;
  /** Instance types that count against it. */
  readonly types: RegExp;
}

const G_AND_VT = /^(g|vt)[a-z]*\d/;
const STANDARD = /^([acdhmrtz]|i(?!nf))(?!l\d|rn\d|pc\d|ac\d)[a-z]*\d/;
const STANDARD_NAME = "Standard (A, C, D, H, I, M, R, T, Z)";

/**
 * Of the families that the catalogue has machines of. Spot has a row of its own for p5.
 * https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
 */
const VCPU_QUOTAS: readonly Quota[] = (
  [
    ["L-DB2E81BA", "Running On-Demand G and VT instances", false, G_AND_VT],
    ["L-417A185B", "Running On-Demand P instances", false, /^p\d/],
    ["L-1216C47A", `Running On-Demand ${STANDARD_NAME} instances`, false, STANDARD],
    ["L-3819A6DF", "All G and VT Spot Instance Requests", true, G_AND_VT],
    ["L-C4BD4855", "All P5 Spot Instance Requests", true, /^p5/],
    ["L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", true, /^p[234]/],
    ["L-34B43A08", `All ${STANDARD_NAME} Spot Instance Requests`, true, STANDARD],
  ] as const
).map(([code, name, isSpot, types]) => ({ code, name, isSpot, types }));

/** The quota that a machine counts against; undefined: this project knows none for its family. */
function quotaOf({ instanceType, isSpot }: Pick<MachineNeed, "instanceType" | "isSpot">): Quota | undefined {
  return VCPU_QUOTAS.find((quota) => quota.isSpot === isSpot && quota.types.test(instanceType));
}

interface QuotaReading {
  /** By quota code. */
  readonly quotas: ReadonlyMap<string, Answer<number>>;
  /** vCPUs of running machines that are not the stack's. */
  readonly others: Answer<
    readonly { readonly instanceType: string; readonly isSpot: boolean; readonly vcpus: number }[]
  >;
  readonly region: string;
}

/** @param running - All machines of the account in the region. */
export async function quotaFindings(
  { context }: AwsTarget,
  needs: readonly MachineNeed[],
  running: Answer<readonly Machine[]>,
): Promise<readonly Finding[]> {
  const { region, stack, name } = context;
  const isOwn = ({ tags }: Machine) => tags.get(STACK_TAG) === stack || tags.get("eks:cluster-name") === name;
  const quotas = [...new Set(needs.flatMap((need) => quotaOf(need) ?? []))];
  const [values, others] = await Promise.all([
    Promise.all(quotas.map(async ({ code }) => [code, await quotaValue(region, code)] as const)),
    running.kind === "answer"
      ? withVcpus(
          region,
          running.value.filter((one) => !isOwn(one)),
        )
      : running,
  ]);
  return vcpuFindings(needs, { quotas: new Map(values), others, region });
}

/** The account's own value, or AWS's default where it was never changed. */
async function quotaValue(region: string, QuotaCode: string): Promise<Answer<number>> {
  const input = { ServiceCode: "ec2", QuotaCode };
  const own = await ask("servicequotas:GetServiceQuota", region, input);
  const answer =
    own.kind === "absent" ? await ask("servicequotas:GetAWSDefaultServiceQuota", region, input) : own;
  return mapAnswer(answer, ({ Quota }) => Quota?.Value ?? 0);
}

async function withVcpus(region: string, machines: readonly Machine[]): Promise<QuotaReading["others"]> {
  const types = [...new Set(machines.map(({ type }) => type))];
  if (types.length === 0) return { kind: "answer", value: [] };
  // A filter, and no list of types: one that the region lacks would be an error for all.
  const input = { Filters: [{ Name: "instance-type", Values: types }] };
  return mapAnswer(await ask("ec2:DescribeInstanceTypes", region, input), ({ InstanceTypes = [] }) =>
    machines.map(({ type: instanceType, isSpot }) => {
      const found = InstanceTypes.find(({ InstanceType }) => InstanceType === instanceType);
      return { instanceType, isSpot, vcpus: found?.VCpuInfo?.DefaultVCpus ?? 0 };
    }),
  );
}

/** A finding for each quota that is too small, with the number of vCPUs that are missing. Pure. */
export function vcpuFindings(needs: readonly MachineNeed[], reading: QuotaReading): readonly Finding[] {
  return [
    ...needs
      .filter((need) => quotaOf(need) === undefined)
      .map(({ pool, instanceType }) =>
        warning(
          "quotas",
          `Whether a quota lets the pool ${pool} start is not known.`,
          `${instanceType} is of a family whose quota code this project does not have.`,
          `Look at the quotas of EC2 in ${reading.region} (https://console.aws.amazon.com/servicequotas/home/services/ec2/quotas).`,
        ),
      ),
    ...unanswered("quotas", reading.others, "vCPUs of running machines count as none"),
    ...VCPU_QUOTAS.flatMap((quota) => quotaFinding(quota, needs, reading)),
  ];
}

function quotaFinding(
  quota: Quota,
  needs: readonly MachineNeed[],
  { quotas, others, region }: QuotaReading,
): readonly Finding[] {
  const { code, name } = quota;
  const own = needs.filter((need) => quotaOf(need) === quota);
  if (own.length === 0) return [];
  const answer = quotas.get(code);
  if (answer?.kind !== "answer")
    return unanswered("quotas", answer, `it is not known how many vCPUs "${name}" (${code}) allows`);
  const sum = (count: (need: MachineNeed) => number) =>
    own.reduce((all, need) => all + need.vcpus * count(need), 0);
  const [most, planned, surge] = [
    sum(({ maxMachines }) => maxMachines),
    sum(({ plannedMachines: count }) => count),
    sum(({ surgeMachines }) => surgeMachines),
  ];
  const running = (others.kind === "answer" ? others.value : [])
    .filter((one) => quotaOf(one) === quota)
    .reduce((all, { vcpus }) => all + vcpus, 0);
  const missing = most + running - answer.value;
  const request = `aws service-quotas request-service-quota-increase --region ${region} --service-code ec2 --quota-code ${code} --desired-value`;
  if (missing <= 0) {
    if (surge === 0 || missing + surge <= 0) return [];
    const surging = own.flatMap(({ pool, instanceType, surgeMachines: count }) =>
      count === 0 ? [] : [`${count} × ${instanceType} of ${pool}`],
    );
    return [
      warning(
        "quotas",
        `The quota ${code} lacks ${missing + surge} vCPUs for an update of the machines.`,
        `"${name}" has ${-missing} left in ${region} once all pools are at their most; EKS may start ${surging.join(", ")} before it ends old ones, together ${surge} vCPUs.`,
        `${request} ${most + running + surge}, before \`cluster.version\` changes.`,
      ),
    ];
  }
  const machines = own.map(
    ({ pool, instanceType, vcpus, maxMachines }) =>
      `${pool} has up to ${maxMachines} × ${instanceType} with ${vcpus} vCPUs`,
  );
  // Else `up` succeeds, and the pool can't grow to the stack file's size.
  const isTooSmall = planned + running > answer.value;
  return [
    (isTooSmall ? problem : warning)(
      "quotas",
      `The quota ${code} lacks ${missing} vCPUs.`,
      `"${name}" allows ${answer.value} vCPUs in ${region}; ${machines.join(", ")}, together ${most}, and ${running === 0 ? "nothing else runs" : `${running} run already`}. ${isTooSmall ? `\`npx engine-room up\` waits for machines with ${planned} vCPUs, and would fail.` : "The last of the machines could not start."}`,
      `${request} ${most + running}, and wait for AWS to agree, or ${isTooSmall ? "fewer or smaller machines" : "fewer `nodes.max`"}.`,
    ),
  ];
}
