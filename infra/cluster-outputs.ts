/** What a stack in a cluster says of itself, which is known before it is up: names of Services do not change. */
import type { ModelOutput, StackOutputs } from "./outputs.ts";
import type { ClusterPlan } from "./plan/kubernetes/cluster-plan.ts";
import type { KubernetesStack } from "./plan/kubernetes/types.ts";

export function clusterOutputs(plan: ClusterPlan, stack: KubernetesStack): StackOutputs {
  const { hourlyUsd, monthlyUsd, buildUsd, pricesAsOf } = plan.cost;
  return {
    endpoints: stack.endpoints,
    models: models(plan),
    release: plan.tier === "cpu" ? plan.release : plan.release.tag,
    engineStore: engineStore(stack),
    cost: { hourlyUsd, monthlyUsd, buildUsd, pricesAsOf },
    notes: stack.notes,
  };
}

function models(plan: ClusterPlan): ModelOutput[] {
  if (plan.tier === "cpu") {
    const { release } = plan;
    return plan.models.map(({ name, model }) => ({
      name,
      model,
      release,
      engineKey: null,
      nodePool: "cluster",
    }));
  }
  return plan.models.map(({ name, spec, engine }) => ({
    name,
    model: spec.engine.model,
    release: plan.release.tag,
    engineKey: engine?.key ?? null,
    nodePool: spec.pool,
  }));
}

function engineStore({ namespace, store }: KubernetesStack): string {
  return store === null ? "image" : `claim ${namespace.name}/${store.claim}`;
}
