/** Whether AWS lets the machines of a stack start: zones that offer their types, reservations, and quotas of vCPUs. */
import { STACK_TAG, SYSTEM_POOL } from "../../infra/plan/aws/context.ts";
import { eksClusterPlan, type NodePoolPlan, nodePoolPlans } from "../../infra/plan/aws/eks-cluster.ts";
import { systemPool } from "../../infra/plan/aws/machines.ts";
import { instanceZone } from "../../infra/plan/aws/network.ts";
import { machineTypes } from "../../infra/plan/catalogue/machines.ts";
import { instanceTypes, plannedNodes } from "../../infra/plan/cost/pool-price.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { buildsOf } from "../../infra/plan/pool-space.ts";
import { type Machine, runningMachines } from "../aws/machine.ts";
import { ask } from "../aws/session.ts";
import type { AwsTarget } from "../program/targets.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** Machines of one pool. */
export interface MachineNeed {
  readonly pool: string;
  readonly instanceType: string;
  /** Further types, which are started if the first type is not available. */
  readonly otherInstanceTypes?: readonly string[];
  readonly isSpot: boolean;
  /** Whether the machines are those of a Capacity Block. */
  readonly isBlock?: boolean;
  /** vCPUs of a machine of the largest type. */
  readonly vcpus: number;
  /** Machines that `up` waits for: without one of these it fails. */
  readonly plannedMachines: number;
  readonly maxMachines: number;
}

/** Machines of the stack file, and those of EKS's controllers. Pure. */
export function machineNeeds({ plan, context }: AwsTarget): readonly MachineNeed[] {
  if (plan.compute === "ec2")
    return plan.spec.pools.flatMap(({ name: pool, instanceType, machine: { vcpus }, capacity }) => {
      const isSpot = capacity === "spot";
      return instanceType === null
        ? []
        : [{ pool, instanceType, vcpus, isSpot, plannedMachines: 1, maxMachines: 1 }];
    });
  return eksClusterPlan(plan, context).pools.map((pool) => {
    const { name, nodeGroup } = pool;
    const own = plan.spec.pools.find((one) => one.name === name);
    const [instanceType = "", ...others] = own === undefined ? [systemPool.instanceType] : instanceTypes(own);
    const vcpus = [
      own?.machine.vcpus ?? machineTypes[instanceType]?.vcpus ?? 0,
      ...others.map((type) => machineTypes[type]?.vcpus ?? 0),
    ];
    return {
      ...{ pool: name, instanceType },
      ...(others.length > 0 ? { otherInstanceTypes: others } : {}),
      isSpot: nodeGroup.capacityType === "SPOT",
      ...(nodeGroup.capacityType === "CAPACITY_BLOCK" ? { isBlock: true } : {}),
      vcpus: Math.max(...vcpus),
      plannedMachines: plannedMachines(plan, pool),
      maxMachines: nodeGroup.scalingConfig.maxSize,
    };
  });
}

/** Machines of a node group that `up` waits for: the serving machines, and a machine for builds. */
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

function startedTypes({ instanceType, otherInstanceTypes = [] }: MachineNeed): readonly string[] {
  return [instanceType, ...otherInstanceTypes];
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
  const types = [...new Set(needs.flatMap(startedTypes))];
  const offered = await ask("ec2:DescribeInstanceTypeOfferings", region, {
    LocationType: "availability-zone",
    Filters: [{ Name: "instance-type", Values: types }],
  });
  const { InstanceTypeOfferings = [] } = offered ?? {};
  const wanted = needs.flatMap((need) =>
    startedTypes(need).map((instanceType) => ({ pool: need.pool, instanceType })),
  );
  return wanted.flatMap(({ pool, instanceType }) => {
    const zones = InstanceTypeOfferings.flatMap(({ InstanceType, Location = "" }) =>
      InstanceType === instanceType ? [Location] : [],
    ).toSorted();
    const lacking = poolZones(target, pool).filter((zone) => !zones.includes(`${region}${zone}`));
    if (lacking.length === 0) return [];
    // The stack file has no setting for the zones of the controllers' pool.
    const key = target.plan.compute === "eks" ? "zones" : "zone";
    const own = pool === SYSTEM_POOL ? "" : `, and as \`${key}\` of the pool ${pool}`;
    return [
      problem(
        "offerings",
        `The pool ${pool} finds no ${instanceType} in ${lacking.map((zone) => `${region}${zone}`).join(", ")}.`,
        zones.length === 0
          ? `No zone of ${region} offers the type to this account.`
          : `Only ${zones.join(", ")} of ${region} offer it to this account; EKS makes no node group with a subnet in a zone without it.`,
        zones.length === 0
          ? "Take another region or another instance type."
          : `Have only zones of these in \`network\`${own}, or take another instance type.`,
      ),
    ];
  });
}

/** Reserved machines of pools, against those that AWS holds; null without reservations. */
export async function reservationFindings(
  target: AwsTarget,
  needs: readonly MachineNeed[],
): Promise<readonly Finding[] | null> {
  const named = target.plan.spec.pools.flatMap(({ name, capacityReservationId: id }) => {
    const need = needs.find(({ pool }) => pool === name);
    return id === undefined || need === undefined ? [] : [{ id, need }];
  });
  if (named.length === 0) return null;
  const { region, stack } = target.context;
  const own = (await runningMachines(region)).filter(({ tags }) => tags.get(STACK_TAG) === stack);
  const findings = named.map(async ({ id, need }) => {
    const { pool, instanceType, isBlock = false, plannedMachines: planned, maxMachines: most } = need;
    const input = { CapacityReservationIds: [id] };
    const answer = await ask("ec2:DescribeCapacityReservations", region, input);
    const [held] = answer?.CapacityReservations ?? [];
    const { TotalInstanceCount: total = 0, AvailableInstanceCount: free = 0 } = held ?? {};
    // The stack's own machines of the type may be in the reservation.
    const room = Math.min(total, free + own.filter(({ type }) => type === instanceType).length);
    const zones = poolZones(target, pool).map((zone) => `${region}${zone}`);
    const zone = held?.AvailabilityZone ?? "";
    const wrong: readonly (readonly [isWrong: boolean, what: string])[] = [
      [held === undefined, `is not in ${region}`],
      // Machines of a Capacity Block have their own kind of start.
      [
        (held?.ReservationType === "capacity-block") !== isBlock,
        isBlock ? "is not a Capacity Block" : "is a Capacity Block, and the pool has capacity: onDemand",
      ],
      [
        held?.State !== "active",
        `is ${held?.State}, not active${isBlock ? `, from ${day(held?.StartDate)} to ${day(held?.EndDate)}` : ""}`,
      ],
      [held?.InstanceType !== instanceType, `holds ${held?.InstanceType}`],
      [!zones.includes(zone), `is in ${zone}`],
      [room < most, `has room for ${room} of ${most} machines`],
    ];
    const what = wrong.find(([isWrong]) => isWrong)?.[1];
    if (what === undefined && isBlock)
      return [
        warning(
          "reservations",
          `The Capacity Block ${id} of the pool ${pool} ends at ${day(held?.EndDate)}.`,
          "EKS terminates its machines 40 minutes before the end, and models of the pool are unavailable from then on.",
          "Buy the next block before, and write its id as `capacityReservationId`; or move the models to another pool.",
        ),
      ];
    if (what === undefined) return [];
    // With less room than the largest size, but enough for `up`, the pool can't grow.
    const report = held !== undefined && what.startsWith("has room") && room >= planned ? warning : problem;
    return [
      report(
        "reservations",
        `The capacity reservation ${id} of the pool ${pool} ${what}.`,
        `The pool requests up to ${most} × ${instanceType} in ${zones.join(", ")}, and \`npx engine-room up\` waits for ${planned}; no other machine is started for a pool that names a reservation.`,
        "Correct `capacityReservationId`, the instance type, the zones or `nodes.max` of the pool, or enlarge the reservation (aws ec2 modify-capacity-reservation).",
      ),
    ];
  });
  return (await Promise.all(findings)).flat();
}

function day(date: Date | undefined): string {
  return date?.toISOString() ?? "an unknown time";
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
 * Quotas of the instance families in the catalogue. Spot has a separate row for p5.
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

/** The quota for a machine; undefined for a family that is not in the table. */
function quotaOf({ instanceType, isSpot }: Pick<MachineNeed, "instanceType" | "isSpot">): Quota | undefined {
  return VCPU_QUOTAS.find((quota) => quota.isSpot === isSpot && quota.types.test(instanceType));
}

/** A running machine that is not the stack's. */
type OtherMachine = Pick<Machine, "type" | "isSpot" | "vcpus">;

/** @param running - All machines of the account in the region. */
export async function quotaFindings(
  { context }: AwsTarget,
  needs: readonly MachineNeed[],
  running: readonly Machine[],
): Promise<readonly Finding[]> {
  const { region, stack, name } = context;
  const others = running.filter(
    ({ tags }) => tags.get(STACK_TAG) !== stack && tags.get("eks:cluster-name") !== name,
  );
  // A Capacity Block includes its machines.
  const bought = needs.filter(({ isBlock }) => isBlock !== true);
  const codes = [...new Set(bought.flatMap((need) => quotaOf(need)?.code ?? []))];
  const values = codes.map(async (code) => [code, await quotaValue(region, code)] as const);
  return vcpuFindings(bought, { quotas: new Map(await Promise.all(values)), others, region });
}

/** The account's own value, or AWS's default if it was never changed. */
async function quotaValue(region: string, QuotaCode: string): Promise<number> {
  const input = { ServiceCode: "ec2", QuotaCode };
  const answer =
    (await ask("servicequotas:GetServiceQuota", region, input)) ??
    (await ask("servicequotas:GetAWSDefaultServiceQuota", region, input));
  return answer?.Quota?.Value ?? 0;
}

interface QuotaReading {
  /** vCPUs by quota code. */
  readonly quotas: ReadonlyMap<string, number>;
  readonly others: readonly OtherMachine[];
  readonly region: string;
}

/** A finding for each quota that is too small, with the number of missing vCPUs. Pure. */
export function vcpuFindings(
  needs: readonly MachineNeed[],
  { quotas, others, region }: QuotaReading,
): readonly Finding[] {
  const unknown = needs.filter((need) => quotaOf(need) === undefined);
  return [
    ...unknown.map(({ pool, instanceType }) =>
      warning(
        "quotas",
        `Whether a quota lets the pool ${pool} start is not known.`,
        `${instanceType} is of a family whose quota code this project does not have.`,
        `Look at the quotas of EC2 in ${region} (https://console.aws.amazon.com/servicequotas/home/services/ec2/quotas).`,
      ),
    ),
    ...VCPU_QUOTAS.flatMap((quota) => {
      const own = needs.filter((need) => quotaOf(need) === quota);
      const value = quotas.get(quota.code);
      if (own.length === 0 || value === undefined) return [];
      const sum = (count: (need: MachineNeed) => number) =>
        own.reduce((all, need) => all + need.vcpus * count(need), 0);
      const most = sum(({ maxMachines }) => maxMachines);
      const planned = sum(({ plannedMachines }) => plannedMachines);
      const running = others
        .filter(({ type, isSpot }) => quotaOf({ instanceType: type, isSpot }) === quota)
        .reduce((all, { vcpus }) => all + vcpus, 0);
      const missing = most + running - value;
      if (missing <= 0) return [];
      const machines = own.map(
        (need) =>
          `${need.pool} has up to ${need.maxMachines} × ${startedTypes(need).join(" or ")} with ${need.vcpus} vCPUs`,
      );
      // With enough for `up`, the pool can't grow to the stack file's size.
      const isTooSmall = planned + running > value;
      return [
        (isTooSmall ? problem : warning)(
          "quotas",
          `The quota ${quota.code} lacks ${missing} vCPUs.`,
          `"${quota.name}" allows ${value} vCPUs in ${region}; ${machines.join(", ")}, together ${most}, and ${running} are in use. ${isTooSmall ? `\`npx engine-room up\` waits for machines with ${planned} vCPUs, and would fail.` : "The last of the machines could not start."}`,
          `aws service-quotas request-service-quota-increase --region ${region} --service-code ec2 --quota-code ${quota.code} --desired-value ${most + running}, and wait for AWS to agree, or ${isTooSmall ? "fewer or smaller machines" : "fewer `nodes.max`"}.`,
        ),
      ];
    }),
  ];
}
