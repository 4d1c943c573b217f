/** Stack files of tests, and their plans. */
import { join } from "node:path";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import type { GpuStackSpec, PoolSpec } from "../../../infra/plan/spec.ts";
import type { ClusterPlan } from "../../../infra/plan/stack-plan.ts";
import { projectRoot, readStackFile, stackReference } from "../../../scripts/program/stack-file.ts";
import { poolNodes } from "./nodes.ts";
import type { KubernetesObject } from "./objects.ts";

function planOf(stackFile: string) {
  const { values } = readStackFile(stackReference("tests", stackFile));
  return checkedPlan(fromRuntimeConfig(values)).plan;
}

/** A stack file, resolved; null for a stack without GPUs. @throws ConfigError with the problems of the file. */
export function gpuSpecOf(stackFile: string): GpuStackSpec | null {
  const plan = planOf(stackFile);
  return "spec" in plan ? plan.spec : null;
}

/** Pools of a stack file, resolved; none for a stack without GPUs. @throws ConfigError with the problems of the file. */
export function poolsOf(stackFile: string): readonly PoolSpec[] {
  return gpuSpecOf(stackFile)?.pools ?? [];
}

/** @throws Error if the stack is not in a cluster. */
export function clusterPlanOf(stackFile: string): ClusterPlan {
  const plan = planOf(stackFile);
  if (plan.platform !== "kubernetes") throw new Error(`${stackFile} is not a stack in a cluster.`);
  return plan;
}

/** Nodes on which all of a stack has room, as its owner labels them. */
export function nodesOf(stackFile: string): KubernetesObject[] {
  const plan = clusterPlanOf(stackFile);
  if (plan.tier === "cpu")
    return machinesWithoutGpu().flatMap((pool) =>
      poolNodes(pool, { labels: plan.cluster.machines.nodeSelector }),
    );
  return plan.spec.pools.flatMap((pool) => {
    const { nodeSelector = {}, gpuResource = null } = plan.cluster.pools[pool.name] ?? {};
    return poolNodes(pool, { labels: nodeSelector, ...(gpuResource === null ? {} : { gpuResource }) });
  });
}

function machinesWithoutGpu(): readonly PoolSpec[] {
  return poolsOf(join(projectRoot, "Pulumi.onprem.yaml")).filter(({ gpu }) => gpu === null);
}
