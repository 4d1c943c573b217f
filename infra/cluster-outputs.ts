/** What a stack in a cluster says of itself, which is known before it is up: names of Services do not change. */
import type { StackOutputs } from "./outputs.ts";
import type { ClusterPlan } from "./plan/kubernetes/cluster-plan.ts";
import type { KubernetesStack } from "./plan/kubernetes/types.ts";
import { planOutputs } from "./plan-outputs.ts";

export function clusterOutputs(plan: ClusterPlan, stack: KubernetesStack): StackOutputs {
  const { endpoints, notes } = stack;
  return planOutputs(plan, (pool) => pool ?? "cluster", {
    endpoints,
    engineStore: engineStore(stack),
    notes,
  });
}

function engineStore({ namespace, store }: KubernetesStack): string {
  return store === null ? "image" : `claim ${namespace.name}/${store.claim}`;
}
