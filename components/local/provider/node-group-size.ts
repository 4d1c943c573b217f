/**
 * `local:index:NodeGroupSize`: least and most machines of a managed node group of EKS. Amazon's provider sends the number of machines
 * that run with each of the two (`expandNodegroupScalingConfig` of terraform-provider-aws), and the autoscaler has changed that
 * number since: machines that serve would end. https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { EKSClient, Nodegroup } from "@aws-sdk/client-eks";
import { z } from "zod";
import { type HandlerContext, resourceHandler } from "./contract.ts";

/** A change of numbers takes EKS seconds, without the machines. */
const POLL_MILLISECONDS = 3000;
const LONGEST_WAIT_MILLISECONDS = 600_000;
const REQUEST_TIMEOUT_MILLISECONDS = 15_000;

/** EKS no longer changes these. */
export const LOST_GROUPS = ["CREATE_FAILED", "DELETING", "DELETE_FAILED"];

/** EKS refuses a change in these states. It accepts a change of a DEGRADED group (issue 2326 of aws/containers-roadmap). */
const BUSY_GROUPS = ["CREATING", "UPDATING"];

const ARN = /^arn:[a-z-]+:eks:([a-z0-9-]+):\d{12}:nodegroup\/([^/]+)\/([^/]+)\/[^/]+$/;

export const nodeGroupSizeInputs = z.strictObject({
  /** ARN of the node group. EKS gives each new group another ARN, even with the same name. */
  nodeGroupArn: z.string().regex(ARN, "must be the ARN of a node group of EKS"),
  /** Least number of machines. */
  min: z.int().min(0),
  /** Largest number of machines. */
  max: z.int().min(1),
});

type Size = z.infer<typeof nodeGroupSizeInputs>;

export const nodeGroupSize = nodeGroupSizeHandler(POLL_MILLISECONDS);

/** @param pollMilliseconds - Time between two requests to EKS. */
export function nodeGroupSizeHandler(pollMilliseconds: number) {
  return resourceHandler<Size, Size>({
    schema: nodeGroupSizeInputs,
    replaceOn: ["nodeGroupArn"],
    idOf: ({ nodeGroupArn }) => nodeGroupArn,
    async bring(size, _olds, context) {
      await resize(size, context, pollMilliseconds);
      return size;
    },
    /** `npx engine-room sleep` changes the least number: a refresh sees that, and the next `up` changes it back. */
    async find(size) {
      const group = await describe(await connected(size.nodeGroupArn), size.nodeGroupArn);
      const { minSize: min = 0, maxSize: max = 0 } = group?.scalingConfig ?? {};
      return group && { ...size, min, max };
    },
    // It goes with the group.
    remove: async () => undefined,
  });
}

/** Returns the change to a size, which keeps the number of machines if it is in range; null for no change. Pure. */
export function sizeChange(
  { min: minSize, max: maxSize }: Pick<Size, "min" | "max">,
  { minSize: oldMin, maxSize: oldMax, desiredSize = 0 }: NonNullable<Nodegroup["scalingConfig"]>,
) {
  const desired = Math.min(Math.max(desiredSize, minSize), maxSize);
  if (oldMin === minSize && oldMax === maxSize && desiredSize === desired) return null;
  // Without a number of machines EKS keeps as many as there are, which the autoscaler may be changing at this moment.
  return { minSize, maxSize, ...(desired === desiredSize ? {} : { desiredSize: desired }) };
}

interface Connection {
  readonly eks: EKSClient;
  readonly sdk: typeof import("@aws-sdk/client-eks");
  readonly group: { readonly clusterName: string; readonly nodegroupName: string };
}

/** With the credentials of the environment. */
async function connected(arn: string): Promise<Connection> {
  const [, region = "", clusterName = "", nodegroupName = ""] = ARN.exec(arn) ?? [];
  const sdk = await import("@aws-sdk/client-eks");
  const requestHandler = { requestTimeout: REQUEST_TIMEOUT_MILLISECONDS, throwOnRequestTimeout: true };
  return { sdk, eks: new sdk.EKSClient({ region, requestHandler }), group: { clusterName, nodegroupName } };
}

/** Undefined if the account of the credentials has no such group. */
async function describe({ eks, sdk, group }: Connection, arn: string): Promise<Nodegroup | undefined> {
  try {
    const { nodegroup } = await eks.send(new sdk.DescribeNodegroupCommand(group));
    return nodegroup?.nodegroupArn === arn ? nodegroup : undefined;
  } catch (error) {
    if ((error as Error).name === "ResourceNotFoundException") return undefined;
    throw error;
  }
}

/** @throws Error if EKS refuses, has no such group, or is still busy with it after {@link LONGEST_WAIT_MILLISECONDS}. */
async function resize(
  size: Size,
  { report, signal }: HandlerContext,
  pollMilliseconds: number,
): Promise<void> {
  const connection = await connected(size.nodeGroupArn);
  const { eks, sdk, group } = connection;
  const name = `The node group ${group.nodegroupName}`;
  const deadline = Date.now() + LONGEST_WAIT_MILLISECONDS;
  const wait = async (state: string) => {
    if (Date.now() > deadline)
      throw new Error(`${name} is still ${state}, and can't be resized until then. Run \`up\` again later.`);
    await sleep(pollMilliseconds, undefined, signal && { signal });
  };
  while (true) {
    const { status = "", scalingConfig = {} } = (await describe(connection, size.nodeGroupArn)) ?? {};
    if (status === "" || LOST_GROUPS.includes(status))
      throw new Error(`${name} is ${status || "gone"}, and can't be resized.`);
    const change = sizeChange(size, scalingConfig);
    if (change === null) return;
    if (BUSY_GROUPS.includes(status)) {
      await wait(status);
      continue;
    }
    report(`${scalingConfig.minSize} to ${scalingConfig.maxSize} machines become ${size.min} to ${size.max}`);
    const { update } = await eks.send(
      new sdk.UpdateNodegroupConfigCommand({ ...group, scalingConfig: change }),
    );
    await updateEnd(update?.id);
    return;
  }

  /** EKS accepts one update of a group at a time, and another may follow. */
  async function updateEnd(updateId: string | undefined): Promise<void> {
    const { clusterName, nodegroupName } = group;
    while (true) {
      const question = new sdk.DescribeUpdateCommand({ name: clusterName, nodegroupName, updateId });
      const { status, errors = [] } = (await eks.send(question)).update ?? {};
      if (status === "Successful") return;
      const reasons = errors.map(({ errorCode, errorMessage }) => `${errorCode}: ${errorMessage}`);
      if (status !== "InProgress")
        throw new Error(`${name} did not get its size (${status}): ${reasons.join("; ")}.`);
      await wait("UPDATING");
    }
  }
}
