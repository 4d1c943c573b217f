/**
 * Node groups of a stack's cluster on EKS: their sizes at `up`, `sleep` and `wake`. Pulumi gives a node group its size once: an
 * update of one of the three numbers sends all three (`expandNodegroupScalingConfig` of terraform-provider-aws), and the number
 * of running machines is the autoscaler's.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AwsContext, POOL_LABEL, SYSTEM_POOL } from "../../infra/plan/aws/context.ts";
import { documentText } from "../../infra/plan/aws/data-files.ts";
import { type NodePoolPlan, nodePoolPlans } from "../../infra/plan/aws/eks-cluster.ts";
import { isInstalled } from "../../infra/plan/catalogue/aws.ts";
import { count } from "../../infra/plan/checks/words.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { UserError } from "../errors.ts";
import { textTable } from "../plan/text-table.ts";
import { ask, until } from "./session.ts";

/** EKS changes the numbers within seconds, without the machines. */
const POLL_SECONDS = 3;
const LONGEST_UPDATE_SECONDS = 600;

/** EKS changes nothing of these any more: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html */
const LOST = ["CREATE_FAILED", "DELETING", "DELETE_FAILED"];

/** EKS refuses a change of these. It takes one of a group that is DEGRADED (issue 2326 of aws/containers-roadmap). */
const BUSY = ["CREATING", "UPDATING"];

/**
 * Lets every kubectl that this process starts ask the stack's cluster, until the process ends. The user's kubeconfig stays as
 * it is.
 *
 * @throws UserError where the account has no such cluster, or does not answer.
 */
export async function useStackCluster(context: AwsContext): Promise<void> {
  const { region, name } = context;
  const cluster = (await ask("eks:DescribeCluster", region, { name }))?.cluster;
  if (cluster === undefined) throw missingCluster(context);
  const folder = mkdtempSync(join(tmpdir(), "engine-room-kubeconfig-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "config");
  const endpoint = cluster.endpoint ?? "";
  const certificateAuthority = cluster.certificateAuthority?.data ?? "";
  writeFileSync(file, documentText("kubeconfig", { region, name, endpoint, certificateAuthority }), {
    mode: 0o600,
  });
  process.env.KUBECONFIG = file;
}

function missingCluster({ region, name, stack }: AwsContext): UserError {
  return new UserError(
    `There is no cluster ${name} in ${region}; \`npx engine-room up --stack ${stack}\` makes it.`,
  );
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

/** Node groups of a cluster, without those that are deleted meanwhile; undefined: there is no such cluster. */
async function nodeGroups(
  region: string,
  clusterName: string,
): Promise<readonly NodeGroupReading[] | undefined> {
  const list = await ask("eks:ListNodegroups", region, { clusterName });
  if (list === undefined) return undefined;
  const groups = (list.nodegroups ?? []).map(async (name) => {
    const answer = await ask("eks:DescribeNodegroup", region, { clusterName, nodegroupName: name });
    if (answer?.nodegroup === undefined) return [];
    const { status = "", labels = {}, instanceTypes = [], scalingConfig = {} } = answer.nodegroup;
    const { minSize: min = 0, maxSize: max = 0, desiredSize: desired = 0 } = scalingConfig;
    return [{ name, status, labels, instanceTypes, min, max, desired }];
  });
  return (await Promise.all(groups)).flat();
}

/** A change of a node group's size. */
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
  { name: nodegroupName, min: minSize, max: maxSize, desired }: NodeGroupSize,
): Promise<string | undefined> {
  const scalingConfig = { minSize, maxSize, ...(desired === undefined ? {} : { desiredSize: desired }) };
  const input = { clusterName, nodegroupName, scalingConfig };
  return (await ask("eks:UpdateNodegroupConfig", region, input))?.update?.id;
}

/** The plan's size with as many machines as the group has, where these are within it; null: it has that size. Pure. */
export function plannedSize(
  { minSize: min, maxSize: max }: Pick<NodePoolPlan["nodeGroup"]["scalingConfig"], "minSize" | "maxSize">,
  group: Pick<NodeGroupReading, "name" | "min" | "max" | "desired">,
): NodeGroupSize | null {
  const desired = Math.min(Math.max(group.desired, min), max);
  if (group.min === min && group.max === max && group.desired === desired) return null;
  return { name: group.name, min, max, ...(desired === group.desired ? {} : { desired }) };
}

/**
 * Gives each existing pool the size of the stack file, a sleeping one too, and waits until EKS has it. A node group of another
 * instance type is Pulumi's to replace: its machines would start for nothing.
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
    const size = plannedSize(pool.nodeGroup.scalingConfig, group);
    if (LOST.includes(group.status))
      lines.push(`Pool ${pool.name}: its node group ${group.name} is ${group.status}, and takes no size`);
    else if (size !== null) {
      await updateEnd(context, group.name, await resize(context, size), pollSeconds);
      lines.push(`Pool ${pool.name}: ${sizeWords(group)} before, ${sizeWords({ ...group, ...size })} now`);
    }
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
  let busy: NodeGroupReading | undefined;
  const settled = await until(LONGEST_UPDATE_SECONDS, pollSeconds, async () => {
    const all = (await nodeGroups(region, cluster)) ?? [];
    const groups = nodePoolPlans(plan).flatMap((pool) =>
      all
        .filter(({ labels }) => labels[POOL_LABEL] === pool.name)
        .filter(({ instanceTypes }) => instanceTypes.join() === pool.nodeGroup.instanceTypes.join())
        .map((group) => ({ pool, group })),
    );
    busy = groups.find(
      ({ pool, group }) =>
        BUSY.includes(group.status) && plannedSize(pool.nodeGroup.scalingConfig, group) !== null,
    )?.group;
    return busy === undefined ? groups : undefined;
  });
  if (settled !== undefined) return settled;
  throw new UserError(
    `The node group ${busy?.name} is still ${busy?.status} after ${LONGEST_UPDATE_SECONDS} s, and takes no change until then; run \`npx engine-room up\` to resume when it is ACTIVE.`,
  );
}

/** EKS takes one update of a group at a time, and Pulumi's may come next. */
async function updateEnd(
  { region, name }: AwsContext,
  nodegroupName: string,
  updateId: string | undefined,
  pollSeconds: number,
): Promise<void> {
  const update = await until(LONGEST_UPDATE_SECONDS, pollSeconds, async () => {
    const answer = await ask("eks:DescribeUpdate", region, { name, nodegroupName, updateId });
    return answer?.update?.status === "InProgress" ? undefined : answer?.update;
  });
  if (update?.status === "Successful") return;
  const errors = (update?.errors ?? []).map(
    ({ errorCode, errorMessage }) => `: ${errorCode}: ${errorMessage}`,
  );
  throw new UserError(
    `EKS did not give the node group ${nodegroupName} its new size (${update?.status ?? `InProgress after ${LONGEST_UPDATE_SECONDS} s`}${errors.join("")}); run \`npx engine-room up\` to resume.`,
  );
}

type Direction = "sleep" | "wake";

interface PoolChange {
  readonly pool: string;
  /** Least number of machines from now on; null: there is no node group. */
  readonly least: number | null;
  /** null: unchanged. */
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
  // The autoscaler runs in a pool of its own, which stays.
  const pools = nodePoolPlans(plan).filter(({ name }) => name !== SYSTEM_POOL);
  return pools.map(({ name: pool, nodeGroup: { scalingConfig } }): PoolChange => {
    const group = groups.find(({ labels, status }) => labels[POOL_LABEL] === pool && !LOST.includes(status));
    if (group === undefined)
      return { pool, least: null, change: null, note: "has no node group; `npx engine-room up` makes it" };
    if (direction === "wake") {
      const least = scalingConfig.minSize;
      const change = plannedSize(scalingConfig, group);
      const note = change === null ? "is awake already" : `at least ${least}; more start when pods need them`;
      return { pool, least, change, note };
    }
    const { name, max, desired } = group;
    const empties = !isScaled && servesModelsAlone(plan, pool);
    const isAsleep = group.min === 0 && !(empties && desired > 0);
    const change = isAsleep ? null : { name, min: 0, max, ...(empties ? { desired: 0 } : {}) };
    return { pool, least: 0, change, note: sleepNote(desired, isScaled, empties) };
  });
}

/**
 * Machines cost money until they have ended. The autoscaler's default is 10 minutes (--scale-down-unneeded-time).
 *
 * @param empties - Whether all machines end at once.
 */
function sleepNote(machines: number, isScaled: boolean, empties: boolean): string {
  if (machines === 0) return "no machine runs";
  const all = count(machines, "machine");
  if (isScaled) return `${all} until the autoscaler ends what no pod used for about 10 minutes`;
  return empties ? `${all} ended now` : `${all} kept: other pods run there, and there is no autoscaler`;
}

/** No other pod tolerates the taint of machines with GPUs. */
function servesModelsAlone({ spec }: EksPlan, pool: string): boolean {
  const gpu = spec.pools.find(({ name }) => name === pool)?.gpu ?? null;
  return gpu !== null && spec.encoders?.pool !== pool;
}

/** Changes the pools. @returns Text for the user. @throws UserError where EKS refuses. */
export async function changePools(plan: EksPlan, context: AwsContext, direction: Direction): Promise<string> {
  const groups = await nodeGroups(context.region, context.name);
  if (groups === undefined) throw missingCluster(context);
  const changes = poolChanges(plan, groups, direction);
  for (const { change } of changes) if (change !== null) await resize(context, change);
  const rows = changes.map(({ pool, least, note }) => [pool, least === null ? "-" : String(least), note]);
  const columns = ["POOL", ">LEAST", ""];
  return `${textTable(columns, rows, { indent: 0 }).join("\n")}\n`;
}
