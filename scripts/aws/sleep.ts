/** Machines of a stack that go away while it sleeps, and come back. Store, databases and addresses stay. */

import { type AwsContext, POOL_LABEL, SYSTEM_POOL } from "../../infra/plan/aws/context.ts";
import { nodePoolPlans } from "../../infra/plan/aws/eks-cluster.ts";
import { isInstalled } from "../../infra/plan/catalogue/aws.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { textTable } from "../plan/text-table.ts";
import { stackMachines, stopMachines } from "./ec2.ts";
import { type NodeGroupReading, type NodeGroupSize, nodeGroups, resizeNodeGroup } from "./eks.ts";
import { ASLEEP, startAsleep } from "./machine-start.ts";
import { isLost, plannedSize } from "./pool-sizes.ts";
import { required } from "./session.ts";

type Direction = "sleep" | "wake";

/** A row of the table, and what EKS is told; null: all is so already, or there is nothing to tell it. */
export interface PoolChange {
  readonly pool: string;
  /** Least number of machines from now on; null: there is no node group. */
  readonly least: number | null;
  readonly change: NodeGroupSize | null;
  readonly note: string;
}

/**
 * Asleep, a pool has no least number of machines: the autoscaler takes away those that nobody needs, which the gateway's and
 * the databases' are not. Without autoscaler the pools with GPUs go to zero at once, where no encoders run. Pure.
 */
export function poolChanges(
  plan: EksPlan,
  groups: readonly NodeGroupReading[],
  direction: Direction,
): readonly PoolChange[] {
  const isScaled = isInstalled("cluster-autoscaler", plan.config.cluster.charts);
  // What takes machines away and brings them back runs in a pool of its own, which stays.
  const pools = nodePoolPlans(plan).filter(({ name }) => name !== SYSTEM_POOL);
  return pools.map(({ name: pool, nodeGroup }): PoolChange => {
    const { scalingConfig } = nodeGroup;
    const group = groups.find((one) => one.labels[POOL_LABEL] === pool && !isLost(one));
    if (group === undefined)
      return { pool, least: null, change: null, note: "has no node group; `npx engine-room up` makes it" };
    if (direction === "wake") {
      const change = plannedSize(scalingConfig, group);
      const note =
        change === null
          ? "is awake already"
          : `at least ${scalingConfig.minSize}; more come when pods want them`;
      return { pool, least: scalingConfig.minSize, change, note };
    }
    const { name, max } = group;
    const servesModels = servesModelsAlone(plan, pool);
    const empties = !isScaled && servesModels;
    const isAsleep = group.min === 0 && !(empties && group.desired > 0);
    return {
      pool,
      least: 0,
      change: isAsleep ? null : { name, min: 0, max, ...(empties ? { desired: 0 } : {}) },
      note: sleepNote(group.desired, { isScaled, servesModels, isAsleep }),
    };
  });
}

/**
 * What becomes of the machines that a pool has: they cost money until they are gone, whatever its least number is. The
 * autoscaler's own default is 10 minutes (--scale-down-unneeded-time), as long as it waits after it has made a machine.
 */
function sleepNote(
  machines: number,
  {
    isScaled,
    servesModels,
    isAsleep,
  }: { readonly isScaled: boolean; readonly servesModels: boolean; readonly isAsleep: boolean },
): string {
  if (machines === 0) return isAsleep ? "sleeps already" : "no machine runs";
  const now = machines === 1 ? "1 machine runs" : `${machines} machines run`;
  if (!isScaled)
    return servesModels
      ? `${machines === 1 ? "1 machine ends" : `${machines} machines end`} now`
      : `${now} on: other pods are there, and no autoscaler knows which machine is free`;
  return servesModels
    ? `${now} still; the autoscaler ends ${machines === 1 ? "it" : "them"} about 10 minutes after the last server there`
    : `${now} still; the autoscaler ends what the gateway, the databases and other pods leave free for about 10 minutes`;
}

/** No other pod tolerates the taint of machines with GPUs. */
function servesModelsAlone({ spec }: EksPlan, pool: string): boolean {
  const gpu = spec.pools.find(({ name }) => name === pool)?.gpu ?? null;
  return gpu !== null && spec.encoders?.pool !== pool;
}

/** Tells EKS. @returns What to print. @throws UserError where it refuses. */
export async function changePools(plan: EksPlan, context: AwsContext, direction: Direction): Promise<string> {
  const { region, name: cluster, stack } = context;
  const groups = required(
    await nodeGroups(region, cluster),
    `There is no cluster ${cluster} in ${region}; \`npx engine-room up --stack ${stack}\` makes it.`,
  );
  const changes = poolChanges(plan, groups, direction);
  for (const { change, pool } of changes)
    if (change !== null)
      required(await resizeNodeGroup(region, cluster, change), `The node group of ${pool} is gone.`);
  const rows = changes.map(({ pool, least, note }) => [pool, least === null ? "-" : String(least), note]);
  const columns = [{ title: "POOL" }, { title: "LEAST", align: "right" }, { title: "" }] as const;
  return `${textTable(columns, rows, { indent: 0 }).join("\n")}\n`;
}

/** Stops or starts the machine of a stack on EC2. @returns What to print. @throws UserError where AWS refuses. */
export async function changeMachine(
  context: AwsContext,
  direction: Direction,
  pollSeconds?: number,
): Promise<string> {
  const { region, stack } = context;
  const absent = `The machine of ${stack} is gone; \`npx engine-room up --stack ${stack}\` makes it.`;
  const machines = required(await stackMachines(region, stack, [...AWAKE, ...ASLEEP]), absent);
  if (machines.length === 0)
    return `No machine of it is there; \`npx engine-room up --stack ${stack}\` makes what is missing.\n`;
  const isSleep = direction === "sleep";
  const changed = machines.filter(({ state }) => (isSleep ? AWAKE : ASLEEP).includes(state));
  const ids = changed.map(({ id }) => id);
  if (ids.length === 0) {
    const all = machines.map(({ id }) => id).join(", ");
    return isSleep
      ? `${all} sleeps already; \`npx engine-room wake --stack ${stack}\` starts it.\n`
      : `${all} is awake already; \`npx engine-room status --stack ${stack}\` says how it is.\n`;
  }
  if (isSleep) required(await stopMachines(region, ids), absent);
  else await startAsleep(context, changed, pollSeconds);
  return isSleep
    ? `${ids.join(", ")} stops. Its disks, the engine store and the load balancer stay, and cost what they cost; \`npx engine-room wake --stack ${stack}\` starts it.\n`
    : `${ids.join(", ")} starts; its services come with it, and models once they are loaded.\n`;
}

const AWAKE: readonly string[] = ["pending", "running"];
