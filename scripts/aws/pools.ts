/** Node groups of a stack's cluster on EKS: their sizes at `sleep` and `wake`. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LOST_GROUPS, sizeChange } from "../../components/local/provider/node-group-size.ts";
import { type AwsContext, POOL_LABEL, SYSTEM_POOL } from "../../infra/plan/aws/context.ts";
import { documentText } from "../../infra/plan/aws/data-files.ts";
import { nodePoolPlans } from "../../infra/plan/aws/eks-cluster.ts";
import { isInstalled } from "../../infra/plan/catalogue/aws.ts";
import { count } from "../../infra/plan/checks/words.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { UserError } from "../errors.ts";
import { textTable } from "../plan/text-table.ts";
import { unreachedReason } from "./api-access.ts";
import { ask } from "./session.ts";

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
  // kubectl would say it after a minute, and not why.
  const reason = await unreachedReason(cluster);
  if (reason !== undefined) process.stderr.write(`${reason}\n`);
}

/** Whether the account has the cluster of a stack. */
export async function hasStackCluster({ region, name }: AwsContext): Promise<boolean> {
  return (await ask("eks:DescribeCluster", region, { name }))?.cluster !== undefined;
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
type NodeGroupChange = NonNullable<ReturnType<typeof sizeChange>> & { readonly name: string };

/** @throws UserError where EKS refuses, or has no such node group any more. */
async function resize(
  { region, stack, name: clusterName }: AwsContext,
  { name: nodegroupName, ...scalingConfig }: NodeGroupChange,
): Promise<void> {
  const input = { clusterName, nodegroupName, scalingConfig };
  const answer = await ask("eks:UpdateNodegroupConfig", region, input);
  if (answer === undefined)
    throw new UserError(
      `The cluster ${clusterName} has no node group ${nodegroupName} any more; \`npx engine-room up --stack ${stack}\` makes what is missing.`,
    );
}

type Direction = "sleep" | "wake";

interface PoolChange {
  readonly pool: string;
  /** Least number of machines from now on; null: there is no node group. */
  readonly least: number | null;
  /** null: unchanged. */
  readonly change: NodeGroupChange | null;
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
  return pools.map(({ name: pool, size }): PoolChange => {
    const group = groups.find(
      ({ labels, status }) => labels[POOL_LABEL] === pool && !LOST_GROUPS.includes(status),
    );
    if (group === undefined)
      return { pool, least: null, change: null, note: "has no node group; `npx engine-room up` makes it" };
    const { name, min, max, desired } = group;
    if (direction === "wake") {
      const least = size.min;
      const lacking = sizeChange(size, { minSize: min, maxSize: max, desiredSize: desired });
      const change = lacking && { name, ...lacking };
      const note = change === null ? "is awake already" : `at least ${least}; more start when pods need them`;
      return { pool, least, change, note };
    }
    const empties = !isScaled && servesModelsAlone(plan, pool);
    const isAsleep = min === 0 && !(empties && desired > 0);
    const change = isAsleep
      ? null
      : { name, minSize: 0, maxSize: max, ...(empties ? { desiredSize: 0 } : {}) };
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
