/** Plans of stacks in a cluster. */
import type { ClusterCpuPlan } from "../cpu-stack.ts";
import type { ClusterGpuPlan } from "../gpu-stack.ts";

export type ClusterPlan = ClusterGpuPlan | ClusterCpuPlan;
