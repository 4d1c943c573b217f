/**
 * Sizes of the pools that are there. Pulumi gives a node group its size once: an update of one of the three numbers sends all
 * three (`expandNodegroupScalingConfig` of terraform-provider-aws), and how many machines run is not Pulumi's to know.
 */
import { POOL_LABEL } from "../../infra/plan/aws/names.ts";
import { nodePoolPlans } from "../../infra/plan/aws/node-pools.ts";
import type { AwsContext, NodePoolPlan } from "../../infra/plan/aws/types.ts";
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
  { min, max }: Pick<NodePoolPlan, "min" | "max">,
  group: NodeGroupReading,
): NodeGroupSize | null {
  const desired = Math.min(Math.max(group.desired, min), max);
  if (group.min === min && group.max === max && group.desired === desired) return null;
  return { name: group.name, min, max, ...(desired === group.desired ? {} : { desired }) };
}

/**
 * Gives each pool that is there the size of the stack file, one that sleeps too, and waits until EKS has it.
 *
 * @returns A line a changed pool; none where there is no cluster yet.
 * @throws UserError where EKS refuses.
 */
export async function sizePools(
  plan: EksPlan,
  { region, name: cluster }: AwsContext,
  pollSeconds = POLL_SECONDS,
): Promise<readonly string[]> {
  const found = await nodeGroups(region, cluster);
  if (found.kind === "absent") return [];
  const groups = required(found, "");
  const lines: string[] = [];
  for (const pool of nodePoolPlans(plan))
    for (const group of groups.filter(({ labels }) => labels[POOL_LABEL] === pool.name)) {
      const size = plannedSize(pool, group);
      if (size === null) continue;
      const gone = `The node group ${group.name} of the pool ${pool.name} is gone.`;
      const update = required(await resizeNodeGroup(region, cluster, size), gone);
      await updateEnd({ region, cluster, group: group.name, update }, pollSeconds);
      lines.push(`Pool ${pool.name}: ${sizeWords(group)} before, ${sizeWords({ ...group, ...size })} now`);
    }
  return lines;
}

function sizeWords({ min, max, desired }: Omit<NodeGroupReading, "name" | "labels">): string {
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
        `EKS still gives the node group ${group} its new size after ${LONGEST_UPDATE_SECONDS} s; \`npm run up\` goes on when it has.`,
      );
    await new Promise((resolve) => setTimeout(resolve, pollSeconds * 1000));
  }
}
