/**
 * Node groups of a stack's cluster on EKS: their sizes at `up`, `sleep` and `wake`. Pulumi gives a node group its size once: an
 * update of one of the three numbers sends all three (`expandNodegroupScalingConfig` of terraform-provider-aws), and how many
 * machines run is not Pulumi's to know.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type AwsContext, POOL_LABEL, SYSTEM_POOL } from "../../infra/plan/aws/context.ts";
import { documentText } from "../../infra/plan/aws/data-files.ts";
import { type NodePoolPlan, nodePoolPlans } from "../../infra/plan/aws/eks-cluster.ts";
import { isInstalled } from "../../infra/plan/catalogue/aws.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { UserError } from "../errors.ts";
import { textTable } from "../plan/text-table.ts";
import { type Answer, ask, required } from "./session.ts";

/** A change of numbers takes EKS seconds, without the machines. */
const POLL_SECONDS = 3;
const LONGEST_UPDATE_SECONDS = 600;

/** EKS changes nothing of these any more: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html */
const LOST = ["CREATE_FAILED", "DELETING", "DELETE_FAILED"];

/** While it is so, EKS refuses a change. It takes one of a group that is DEGRADED (issue 2326 of aws/containers-roadmap). */
const BUSY = ["CREATING", "UPDATING"];

/**
 * Lets every kubectl that this process starts ask the stack's cluster, until the process ends. The user's kubeconfig stays as
 * it is.
 *
 * @throws UserError where the account has no such cluster, or does not say.
 */
export async function useStackCluster({ region, name, stack }: AwsContext): Promise<void> {
  const { cluster } = required(
    await ask("eks:DescribeCluster", region, { name }),
    missingCluster({ region, name, stack }),
  );
  const folder = mkdtempSync(join(tmpdir(), "engine-room-kubeconfig-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "config");
  const endpoint = cluster?.endpoint ?? "";
  const certificateAuthority = cluster?.certificateAuthority?.data ?? "";
  writeFileSync(file, documentText("kubeconfig", { region, name, endpoint, certificateAuthority }), {
    mode: 0o600,
  });
  process.env.KUBECONFIG = file;
}

function missingCluster({ region, name, stack }: Pick<AwsContext, "region" | "name" | "stack">): string {
  return `There is no cluster ${name} in ${region}; \`npx engine-room up --stack ${stack}\` makes it.`;
}

/** A managed node group, whose name EKS gets from Pulumi with a random end. */
export interface NodeGroupReading {
  readonly name: string;
  /** `ACTIVE`, `CREATING`, `UPDATING`, `DEGRADED`, `DELETING`, `CREATE_FAILED`, `DELETE_FAILED`. */
  readonly status: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly instanceTypes: readonly string[];
  readonly min: number;
  readonly max: number;
  readonly desired: number;
}

/** Those of a cluster, without one that is deleted meanwhile; `absent` where there is no such cluster. */
async function nodeGroups(region: string, cluster: string): Promise<Answer<readonly NodeGroupReading[]>> {
  const list = await ask("eks:ListNodegroups", region, { clusterName: cluster });
  if (list.kind !== "answer") return list;
  const answers = await Promise.all(
    (list.value.nodegroups ?? []).map((nodegroupName) =>
      ask("eks:DescribeNodegroup", region, { clusterName: cluster, nodegroupName }).then(
        (answer) => [nodegroupName, answer] as const,
      ),
    ),
  );
  const groups: NodeGroupReading[] = [];
  for (const [name, answer] of answers) {
    if (answer.kind === "absent") continue;
    if (answer.kind !== "answer") return answer;
    const { status = "", labels = {}, instanceTypes = [], scalingConfig = {} } = answer.value.nodegroup ?? {};
    const { minSize: min = 0, maxSize: max = 0, desiredSize: desired = 0 } = scalingConfig;
    groups.push({ name, status, labels, instanceTypes, min, max, desired });
  }
  return { kind: "answer", value: groups };
}

/** What EKS is told of a node group's size. */
interface NodeGroupSize {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Absent: as many machines as there are, which the autoscaler may be changing at this moment. */
  readonly desired?: number;
}

/** @returns Id of the update, which continues when EKS has answered. @throws UserError where EKS refuses. */
async function resize(
  { region, name: clusterName }: AwsContext,
  pool: string,
  { name: nodegroupName, min: minSize, max: maxSize, desired }: NodeGroupSize,
): Promise<string> {
  const scalingConfig = { minSize, maxSize, ...(desired === undefined ? {} : { desiredSize: desired }) };
  const input = { clusterName, nodegroupName, scalingConfig };
  const answer = await ask("eks:UpdateNodegroupConfig", region, input);
  return required(answer, `The node group ${nodegroupName} of the pool ${pool} is gone.`).update?.id ?? "";
}

/** What a group lacks to have the plan's size, with as many machines as it has where these are within it; null: nothing. Pure. */
export function plannedSize(
  { minSize: min, maxSize: max }: Pick<NodePoolPlan["nodeGroup"]["scalingConfig"], "minSize" | "maxSize">,
  group: Pick<NodeGroupReading, "name" | "min" | "max" | "desired">,
): NodeGroupSize | null {
  const desired = Math.min(Math.max(group.desired, min), max);
  if (group.min === min && group.max === max && group.desired === desired) return null;
  return { name: group.name, min, max, ...(desired === group.desired ? {} : { desired }) };
}

/**
 * Gives each existing pool the size of the stack file, one that sleeps too, and waits until EKS has it. A node group of another
 * instance type is Pulumi's to replace: machines of it would start, or lack, for nothing.
 *
 * @returns A line for each changed pool and for each group that takes no change; none where there is no cluster yet.
 * @throws UserError where EKS refuses, or is still busy with a group after {@link LONGEST_UPDATE_SECONDS}.
 */
export async function sizePools(
  plan: EksPlan,
  context: AwsContext,
  pollSeconds = POLL_SECONDS,
): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const { pool, group } of await settledGroups(plan, context, pollSeconds)) {
    if (LOST.includes(group.status)) {
      lines.push(`Pool ${pool.name}: its node group ${group.name} is ${group.status}, and takes no size`);
      continue;
    }
    const size = plannedSize(pool.nodeGroup.scalingConfig, group);
    if (size === null) continue;
    const update = await resize(context, pool.name, size);
    await updateEnd(context, group.name, update, pollSeconds);
    lines.push(`Pool ${pool.name}: ${sizeWords(group)} before, ${sizeWords({ ...group, ...size })} now`);
  }
  return lines;
}

function sizeWords({ min, max, desired }: Pick<NodeGroupReading, "min" | "max" | "desired">): string {
  return `${min} to ${max} machines with ${desired} wanted`;
}

interface PoolGroup {
  readonly pool: NodePoolPlan;
  readonly group: NodeGroupReading;
}

/** Node groups of pools that stay what they are, once EKS is busy with none that lacks its size. */
async function settledGroups(
  plan: EksPlan,
  { region, name: cluster }: AwsContext,
  pollSeconds: number,
): Promise<readonly PoolGroup[]> {
  const deadline = Date.now() + LONGEST_UPDATE_SECONDS * 1000;
  while (true) {
    const found = await nodeGroups(region, cluster);
    if (found.kind === "absent") return [];
    const all = required(found, "");
    const groups = nodePoolPlans(plan).flatMap((pool) =>
      all
        .filter(({ labels }) => labels[POOL_LABEL] === pool.name)
        .filter(({ instanceTypes }) => instanceTypes.join() === pool.nodeGroup.instanceTypes.join())
        .map((group) => ({ pool, group })),
    );
    const busy = groups.find(
      ({ pool, group }) =>
        BUSY.includes(group.status) && plannedSize(pool.nodeGroup.scalingConfig, group) !== null,
    );
    if (busy === undefined) return groups;
    if (Date.now() > deadline)
      throw new UserError(
        `The node group ${busy.group.name} is still ${busy.group.status} after ${LONGEST_UPDATE_SECONDS} s, and takes no change until then; run \`npx engine-room up\` to resume when it is ACTIVE.`,
      );
    await sleep(pollSeconds * 1000);
  }
}

/** EKS takes one update of a group at a time, and Pulumi's may come next. */
async function updateEnd(
  { region, name }: AwsContext,
  nodegroupName: string,
  updateId: string,
  pollSeconds: number,
): Promise<void> {
  const deadline = Date.now() + LONGEST_UPDATE_SECONDS * 1000;
  while (true) {
    const answer = await ask("eks:DescribeUpdate", region, { name, nodegroupName, updateId });
    const { update } = required(answer, `The update ${updateId} of the node group ${nodegroupName} is gone.`);
    if (update?.status === "Successful") return;
    const errors =
      update?.errors?.map(({ errorCode, errorMessage }) => `${errorCode}: ${errorMessage}`) ?? [];
    if (update?.status !== "InProgress")
      throw new UserError(
        `EKS has not given the node group ${nodegroupName} its new size (${update?.status}): ${errors.join("; ")}.`,
      );
    if (Date.now() > deadline)
      throw new UserError(
        `EKS has not given the node group ${nodegroupName} its new size after ${LONGEST_UPDATE_SECONDS} s; run \`npx engine-room up\` to resume when it has.`,
      );
    await sleep(pollSeconds * 1000);
  }
}

type Direction = "sleep" | "wake";

/** A row of the table, and what EKS is told; null: it has that size already, or there is no group. */
interface PoolChange {
  readonly pool: string;
  /** Least number of machines from now on; null: there is no node group. */
  readonly least: number | null;
  readonly change: NodeGroupSize | null;
  readonly note: string;
}

/**
 * Asleep, a pool has no least number of machines: the autoscaler takes away the idle ones, which those of the gateway and the
 * databases are not. Without autoscaler the pools with GPUs go to zero at once, where no encoders run. Pure.
 */
export function poolChanges(
  plan: EksPlan,
  groups: readonly NodeGroupReading[],
  direction: Direction,
): readonly PoolChange[] {
  const isScaled = isInstalled("cluster-autoscaler", plan.config.cluster.charts);
  // What takes machines away and brings them back runs in a pool of its own, which stays.
  const pools = nodePoolPlans(plan).filter(({ name }) => name !== SYSTEM_POOL);
  return pools.map(({ name: pool, nodeGroup: { scalingConfig } }): PoolChange => {
    const group = groups.find((one) => one.labels[POOL_LABEL] === pool && !LOST.includes(one.status));
    if (group === undefined)
      return { pool, least: null, change: null, note: "has no node group; `npx engine-room up` makes it" };
    if (direction === "wake") {
      const least = scalingConfig.minSize;
      const change = plannedSize(scalingConfig, group);
      const note = change === null ? "is awake already" : `at least ${least}; more start when pods need them`;
      return { pool, least, change, note };
    }
    const servesModels = servesModelsAlone(plan, pool);
    const empties = !isScaled && servesModels;
    const isAsleep = group.min === 0 && !(empties && group.desired > 0);
    const { name, max } = group;
    return {
      pool,
      least: 0,
      change: isAsleep ? null : { name, min: 0, max, ...(empties ? { desired: 0 } : {}) },
      note: sleepNote(group.desired, { isScaled, servesModels, isAsleep }),
    };
  });
}

interface SleepingPool {
  readonly isScaled: boolean;
  readonly servesModels: boolean;
  readonly isAsleep: boolean;
}

/**
 * What becomes of a pool's machines: they cost money until they are gone, whatever its least number is. The autoscaler's
 * default is 10 minutes (--scale-down-unneeded-time), as long as it waits after it has made a machine.
 */
function sleepNote(machines: number, { isScaled, servesModels, isAsleep }: SleepingPool): string {
  if (machines === 0) return isAsleep ? "sleeps already" : "no machine runs";
  const [count, runs, ends, it] =
    machines === 1 ? ["1 machine", "runs", "ends", "it"] : [`${machines} machines`, "run", "end", "them"];
  if (!isScaled)
    return servesModels
      ? `${count} ${ends} now`
      : `${count} ${runs} on: other pods are there, and no autoscaler knows which machine is free`;
  return servesModels
    ? `${count} ${runs} still; the autoscaler ends ${it} about 10 minutes after the last server there`
    : `${count} ${runs} still; the autoscaler ends what the gateway, the databases and other pods leave free for about 10 minutes`;
}

/** No other pod tolerates the taint of machines with GPUs. */
function servesModelsAlone({ spec }: EksPlan, pool: string): boolean {
  const gpu = spec.pools.find(({ name }) => name === pool)?.gpu ?? null;
  return gpu !== null && spec.encoders?.pool !== pool;
}

/** Tells EKS. @returns What to print. @throws UserError where it refuses. */
export async function changePools(plan: EksPlan, context: AwsContext, direction: Direction): Promise<string> {
  const groups = required(await nodeGroups(context.region, context.name), missingCluster(context));
  const changes = poolChanges(plan, groups, direction);
  for (const { change, pool } of changes) if (change !== null) await resize(context, pool, change);
  const rows = changes.map(({ pool, least, note }) => [pool, least === null ? "-" : String(least), note]);
  const columns = ["POOL", ">LEAST", ""];
  return `${textTable(columns, rows, { indent: 0 }).join("\n")}\n`;
}
