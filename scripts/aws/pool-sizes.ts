/**
 * Sizes of the pools that are there. Pulumi gives a node group its size once: an update of one of the three numbers sends all
 * three (`expandNodegroupScalingConfig` of terraform-provider-aws), and how many machines run is not Pulumi's to know.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type AwsContext, POOL_LABEL } from "../../infra/plan/aws/context.ts";
import { type NodePoolPlan, nodePoolPlans } from "../../infra/plan/aws/eks-cluster.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { UserError } from "../errors.ts";
import {
  type NodeGroupReading,
  type NodeGroupSize,
  nodeGroups,
  nodeGroupUpdate,
  resizeNodeGroup,
} from "./eks.ts";
import { required } from "./session.ts";

/** A change of numbers takes EKS seconds, without the machines. */
const POLL_SECONDS = 3;
const LONGEST_UPDATE_SECONDS = 600;

/** What a group lacks to have the plan's size, with as many machines as it has where these are within it; null: nothing. Pure. */
export function plannedSize(
  { minSize: min, maxSize: max }: Pick<NodePoolPlan["nodeGroup"]["scalingConfig"], "minSize" | "maxSize">,
  group: Pick<NodeGroupReading, "name" | "min" | "max" | "desired">,
): NodeGroupSize | null {
  const desired = Math.min(Math.max(group.desired, min), max);
  if (group.min === min && group.max === max && group.desired === desired) return null;
  return { name: group.name, min, max, ...(desired === group.desired ? {} : { desired }) };
}

/** EKS changes nothing of these any more: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html */
const LOST = ["CREATE_FAILED", "DELETING", "DELETE_FAILED"];

/** While it is so, EKS refuses a change. It takes one of a group that is DEGRADED (issue 2326 of aws/containers-roadmap). */
const BUSY = ["CREATING", "UPDATING"];

/** Whether a node group is one that no size can be given to any more. */
export function isLost({ status }: Pick<NodeGroupReading, "status">): boolean {
  return LOST.includes(status);
}

/**
 * Gives each pool that is there the size of the stack file, one that sleeps too, and waits until EKS has it. A node group of
 * another instance type is Pulumi's to replace: machines of it would start, or lack, for nothing.
 *
 * @returns A line a changed pool, and one a group that takes no change; none where there is no cluster yet.
 * @throws UserError where EKS refuses, or is still busy with a group after {@link LONGEST_UPDATE_SECONDS}.
 */
export async function sizePools(
  plan: EksPlan,
  { region, name: cluster }: AwsContext,
  pollSeconds = POLL_SECONDS,
): Promise<readonly string[]> {
  const pools = nodePoolPlans(plan);
  const groups = await settledGroups(region, cluster, pools, pollSeconds);
  const lines: string[] = [];
  for (const { pool, group } of groups) {
    if (isLost(group)) {
      lines.push(`Pool ${pool.name}: its node group ${group.name} is ${group.status}, and takes no size`);
      continue;
    }
    const size = plannedSize(pool.nodeGroup.scalingConfig, group);
    if (size === null) continue;
    const gone = `The node group ${group.name} of the pool ${pool.name} is gone.`;
    const update = required(await resizeNodeGroup(region, cluster, size), gone);
    await updateEnd({ region, cluster, group: group.name, update }, pollSeconds);
    lines.push(`Pool ${pool.name}: ${sizeWords(group)} before, ${sizeWords({ ...group, ...size })} now`);
  }
  return lines;
}

interface PoolGroup {
  readonly pool: NodePoolPlan;
  readonly group: NodeGroupReading;
}

/** Node groups of pools that stay what they are, once EKS is busy with none that lacks its size. */
async function settledGroups(
  region: string,
  cluster: string,
  pools: readonly NodePoolPlan[],
  pollSeconds: number,
): Promise<readonly PoolGroup[]> {
  const deadline = Date.now() + LONGEST_UPDATE_SECONDS * 1000;
  while (true) {
    const found = await nodeGroups(region, cluster);
    if (found.kind === "absent") return [];
    const groups = poolGroups(pools, required(found, ""));
    const busy = groups.find(
      ({ pool, group }) =>
        BUSY.includes(group.status) && plannedSize(pool.nodeGroup.scalingConfig, group) !== null,
    );
    if (busy === undefined) return groups;
    if (Date.now() > deadline)
      throw new UserError(
        `The node group ${busy.group.name} is still ${busy.group.status} after ${LONGEST_UPDATE_SECONDS} s, and takes no change until then; \`npx engine-room up\` goes on when it is ACTIVE.`,
      );
    await sleep(pollSeconds * 1000);
  }
}

function poolGroups(
  pools: readonly NodePoolPlan[],
  groups: readonly NodeGroupReading[],
): readonly PoolGroup[] {
  return pools.flatMap((pool) =>
    groups
      .filter(({ labels }) => labels[POOL_LABEL] === pool.name)
      .filter(({ instanceTypes }) => instanceTypes.join() === pool.nodeGroup.instanceTypes.join())
      .map((group) => ({ pool, group })),
  );
}

function sizeWords({ min, max, desired }: Pick<NodeGroupReading, "min" | "max" | "desired">): string {
  return `${min} to ${max} machines with ${desired} wanted`;
}

interface BegunUpdate {
  readonly region: string;
  readonly cluster: string;
  readonly group: string;
  readonly update: string;
}

/** EKS takes one update of a group at a time, and Pulumi's may come next. */
async function updateEnd(
  { region, cluster, group, update }: BegunUpdate,
  pollSeconds: number,
): Promise<void> {
  const deadline = Date.now() + LONGEST_UPDATE_SECONDS * 1000;
  while (true) {
    const { status, words } = required(
      await nodeGroupUpdate(region, cluster, group, update),
      `The update ${update} of the node group ${group} is gone.`,
    );
    if (status === "Successful") return;
    if (status !== "InProgress")
      throw new UserError(`EKS has not given the node group ${group} its new size (${status}): ${words}.`);
    if (Date.now() > deadline)
      throw new UserError(
        `EKS still gives the node group ${group} its new size after ${LONGEST_UPDATE_SECONDS} s; \`npx engine-room up\` goes on when it has.`,
      );
    await sleep(pollSeconds * 1000);
  }
}
