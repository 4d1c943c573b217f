/** A stack in a cluster, as its file plans it. */
import { pulledImages } from "../../infra/image-inputs.ts";
import { type KubernetesStack, kubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ClusterPlan } from "../../infra/plan/stack-plan.ts";
import type { Problem } from "../../infra/problems.ts";
import { readPlan } from "./docker-target.ts";
import type { StackReference } from "./stack-file.ts";

export interface ClusterTarget {
  /** Name of the stack. */
  readonly name: string;
  readonly plan: ClusterPlan;
  readonly stack: KubernetesStack;
  /** Images that no cluster can pull yet. */
  readonly imageProblems: readonly Problem[];
}

/** The target of a stack in a cluster. @throws ConfigError with all problems of its file. */
export function readClusterTarget(stack: StackReference): ClusterTarget {
  const plan = readPlan(stack);
  if (!("cluster" in plan)) throw new Error(`The stack ${stack.name} is on the platform ${plan.platform}.`);
  return clusterTarget(plan, stack.name);
}

/** What a stack in a cluster runs; nothing is contacted. */
export function clusterTarget(plan: ClusterPlan, name: string): ClusterTarget {
  const { images, problems } = pulledImages(plan);
  return { name, plan, stack: kubernetesStack(plan, { stack: name, images }), imageProblems: problems };
}
