/** Node groups of a stack's cluster on EKS: their sizes at `sleep` and `wake`. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LOST_GROUPS, sizeChange } from "../../components/local/provider/node-group-size.ts";
import { type AwsContext, POOL_LABEL, poolSelector, SYSTEM_POOL } from "../../infra/plan/aws/context.ts";
import { documentText } from "../../infra/plan/aws/data-files.ts";
import { nodePoolPlans } from "../../infra/plan/aws/eks-cluster.ts";
import { SYSTEM_NAMESPACE } from "../../infra/plan/aws/roles.ts";
import { installedCharts, sleepsWithoutMachines } from "../../infra/plan/catalogue/aws.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { counted } from "../../infra/problems.ts";
import { type ClusterProbe, kubectlItems, kubectlText } from "../cluster/kubectl.ts";
import { UserError } from "../errors.ts";
import { textTable } from "../plan/text-table.ts";
import { unreachedReason } from "./api-access.ts";
import { ask, until } from "./session.ts";

/**
 * Lets every kubectl that this process starts ask the stack's cluster, until the process ends. The user's kubeconfig stays as
 * it is.
 *
 * @throws UserError if the account has no such cluster, or does not answer.
 */
export async function useStackCluster(context: AwsContext): Promise<void> {
  const { region, cluster: name } = context;
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
  // kubectl would fail after a minute, without the reason.
  const reason = await unreachedReason(cluster);
  if (reason !== undefined) process.stderr.write(`${reason}\n`);
}

/** Whether the account has the cluster of a stack. */
export async function hasStackCluster({ region, cluster: name }: AwsContext): Promise<boolean> {
  return (await ask("eks:DescribeCluster", region, { name }))?.cluster !== undefined;
}

function missingCluster({ region, cluster, stack }: AwsContext): UserError {
  return new UserError(
    `There is no cluster ${cluster} in ${region}; \`npx engine-room up --stack ${stack}\` creates it, unless \`cluster.existing\` names one.`,
  );
}

/** A managed node group, whose name EKS gets from Pulumi with a random end. */
export interface NodeGroupReading {
  readonly name: string;
  /** `ACTIVE`, `CREATING`, `UPDATING`, `DEGRADED`, `DELETING`, `CREATE_FAILED`, `DELETE_FAILED`. */
  readonly status: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly instanceTypes: readonly string[];
  /** Release of the machine image: `1.36.0-20260915`. */
  readonly release: string;
  readonly min: number;
  readonly max: number;
  readonly desired: number;
}

/** Node groups of a cluster, without those deleted meanwhile; undefined without the cluster. */
export async function nodeGroups(context: AwsContext): Promise<readonly NodeGroupReading[] | undefined> {
  const { region } = context;
  const cluster = { clusterName: context.cluster };
  const list = await ask("eks:ListNodegroups", region, cluster);
  if (list === undefined) return undefined;
  const groups = (list.nodegroups ?? []).map(async (name) => {
    const answer = await ask("eks:DescribeNodegroup", region, { ...cluster, nodegroupName: name });
    if (answer?.nodegroup === undefined) return [];
    const { status = "", labels = {}, instanceTypes = [], scalingConfig = {} } = answer.nodegroup;
    const { releaseVersion: release = "" } = answer.nodegroup;
    const { minSize: min = 0, maxSize: max = 0, desiredSize: desired = 0 } = scalingConfig;
    return [{ name, status, labels, instanceTypes, release, min, max, desired }];
  });
  return (await Promise.all(groups)).flat();
}

/** A change of a node group's size. */
type NodeGroupChange = NonNullable<ReturnType<typeof sizeChange>> & { readonly name: string };

/** @throws UserError if EKS refuses, or has no such node group any more. */
async function resize(
  context: AwsContext,
  { name: nodegroupName, ...scalingConfig }: NodeGroupChange,
): Promise<void> {
  const { region, stack } = context;
  const input = { clusterName: context.cluster, nodegroupName, scalingConfig };
  const answer = await ask("eks:UpdateNodegroupConfig", region, input);
  if (answer === undefined)
    throw new UserError(
      `The cluster ${input.clusterName} has no node group ${nodegroupName} any more; \`npx engine-room up --stack ${stack}\` creates the missing resources.`,
    );
}

type Direction = "sleep" | "wake";

interface PoolChange {
  readonly pool: string;
  /** Least number of machines from now on; null without a node group. */
  readonly least: number | null;
  /** null when unchanged. */
  readonly change: NodeGroupChange | null;
  readonly note: string;
}

/**
 * A sleeping cluster has no machine: EKS drains each of them for 15 minutes at most, whatever disruption budgets say
 * (https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html), and disks of claims remain. Pods wait until machines are
 * back. If an autoscaler other than the stack's would start machines again, pools have no least number of machines, the controllers'
 * pool is unchanged, and that autoscaler ends idle machines. Pure.
 *
 * @param only - Names of pools; absent: all.
 */
export function poolChanges(
  plan: EksPlan,
  groups: readonly NodeGroupReading[],
  direction: Direction,
  only?: readonly string[],
): readonly PoolChange[] {
  const isWhole = sleepsWithoutMachines(plan.config.cluster);
  const pools = nodePoolPlans(plan).filter(
    ({ name }) => (isWhole || name !== SYSTEM_POOL) && (only?.includes(name) ?? true),
  );
  // Controllers detach disks and move pods' addresses: their pool is last in the plan's order to sleep, and first to wake.
  const inOrder = direction === "wake" ? pools : pools.toReversed();
  return inOrder.map(({ name: pool, size }): PoolChange => {
    const wanted = Object.entries(poolSelector(plan.config, pool));
    const group = groups.find(
      ({ labels, status }) =>
        wanted.every(([label, value]) => labels[label] === value) && !LOST_GROUPS.includes(status),
    );
    if (group === undefined)
      return { pool, least: null, change: null, note: "has no node group; `npx engine-room up` creates it" };
    const { name, min, max, desired } = group;
    if (direction === "wake") {
      const least = size.min;
      const lacking = sizeChange(size, { minSize: min, maxSize: max, desiredSize: desired });
      const change = lacking && { name, ...lacking };
      const note = change === null ? "is awake already" : `at least ${least}; more start when pods need them`;
      return { pool, least, change, note };
    }
    const isAsleep = min === 0 && !(isWhole && desired > 0);
    const change = isAsleep
      ? null
      : { name, minSize: 0, maxSize: max, ...(isWhole ? { desiredSize: 0 } : {}) };
    return { pool, least: 0, change, note: sleepNote(desired, isWhole) };
  });
}

/** Machines cost money until they have ended. The autoscaler's default is 10 minutes (--scale-down-unneeded-time). */
function sleepNote(machines: number, isWhole: boolean): string {
  if (machines === 0) return "no machine runs";
  const all = counted(machines, "machine");
  return isWhole
    ? `${all} end${machines === 1 ? "s" : ""} within 15 minutes`
    : `${all} until the autoscaler ends what no pod used for about 10 minutes`;
}

/** Changes the pools. @returns Text for the user. @throws UserError if EKS refuses. */
export async function changePools(plan: EksPlan, context: AwsContext, direction: Direction): Promise<string> {
  const groups = await nodeGroups(context);
  if (groups === undefined) throw missingCluster(context);
  const changes = poolChanges(plan, groups, direction);
  await resizeAll(context, changes);
  const rows = changes.map(({ pool, least, note }) => [pool, least === null ? "-" : String(least), note]);
  const columns = ["POOL", ">LEAST", ""];
  return `${textTable(columns, rows, { indent: 0 }).join("\n")}\n`;
}

async function resizeAll(context: AwsContext, changes: readonly PoolChange[]): Promise<void> {
  for (const { change } of changes) if (change !== null) await resize(context, change);
}

/** Whether the stack's cluster has no machine for its controllers; false if there is no cluster. Pure. */
function isAsleep(plan: EksPlan, groups: readonly NodeGroupReading[] | undefined): boolean {
  const [controllers] = poolChanges(plan, groups ?? [], "wake", [SYSTEM_POOL]);
  return controllers?.change?.desiredSize !== undefined;
}

/** Whether the cluster sleeps without machines, as `npx engine-room sleep` leaves it. */
export async function sleepsNow(plan: EksPlan, context: AwsContext): Promise<boolean> {
  return isAsleep(plan, await nodeGroups(context));
}

/**
 * Starts machines of a cluster that sleeps, and waits for its controllers, which create and delete disks and addresses behind the load
 * balancer.
 *
 * @param probe - Called when the cluster is known to exist.
 * @param only - Names of pools; absent: all, and the autoscaler.
 * @returns A sentence for each started pool.
 */
export async function wakeBefore(
  plan: EksPlan,
  context: AwsContext,
  probe: () => Promise<ClusterProbe>,
  only?: readonly string[],
): Promise<readonly string[]> {
  const groups = await nodeGroups(context);
  if (!isAsleep(plan, groups)) return [];
  const changes = poolChanges(plan, groups ?? [], "wake", only).filter(({ change }) => change !== null);
  await resizeAll(context, changes);
  const cluster = await probe();
  if (only === undefined) await scaleAutoscaler(plan, cluster, 1);
  await awaitControllers(cluster, context.stack);
  return changes.map(({ pool }) => `the pool ${pool} was asleep, and starts`);
}

interface Controller {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly replicas?: number;
    readonly template: { readonly spec: { readonly nodeSelector?: Readonly<Record<string, string>> } };
  };
  readonly status?: { readonly readyReplicas?: number };
}

/** Asleep it would start machines for the pods that wait. An autoscaler that is missing, or not the stack's, is not changed. */
export async function scaleAutoscaler(plan: EksPlan, probe: ClusterProbe, replicas: 0 | 1): Promise<void> {
  if (!installedCharts(plan.config.cluster).includes("cluster-autoscaler")) return;
  const own = ["--namespace", SYSTEM_NAMESPACE];
  // Label of the chart's release: charts/cluster-autoscaler/templates/_helpers.tpl.
  const selector = "app.kubernetes.io/instance=cluster-autoscaler";
  const found = await kubectlItems<Controller>(probe, ["deployments.apps", ...own, "--selector", selector]);
  for (const { metadata, spec } of found)
    if ((spec.replicas ?? 1) !== replicas)
      await kubectlText(probe, [
        "scale",
        "deployments.apps",
        metadata.name,
        ...own,
        `--replicas=${replicas}`,
      ]);
}

/** A machine joins in two or three minutes, and pulls some images. */
const LONGEST_WAIT_SECONDS = 1200;

/** Waits until all Deployments run that belong on the machines of controllers. @throws UserError if they do not in time. */
export async function awaitControllers(probe: ClusterProbe, stack: string, pollSeconds = 5): Promise<void> {
  let missing: readonly string[] = [];
  const ready = await until(LONGEST_WAIT_SECONDS, pollSeconds, async () => {
    const all = await kubectlItems<Controller>(probe, ["deployments.apps", "--all-namespaces"]);
    missing = all
      .filter(({ spec }) => spec.template.spec.nodeSelector?.[POOL_LABEL] === SYSTEM_POOL)
      .filter(({ spec, status }) => (status?.readyReplicas ?? 0) < (spec.replicas ?? 1))
      .map(({ metadata }) => metadata.name);
    return missing.length === 0 || undefined;
  });
  if (ready === undefined)
    throw new UserError(
      `After ${LONGEST_WAIT_SECONDS / 60} minutes controllers of the cluster still don't run: ${missing.join(", ")}. \`npx engine-room status --stack ${stack}\` says more of the stack's own pods, and \`kubectl describe nodes\` of machines.`,
    );
}
