/** What every platform's stack says of itself: the part that its plan knows, before anything is up. */
import type { DeployedStack, ModelOutput, StackOutputs } from "./outputs.ts";
import type { KubernetesStack } from "./plan/kubernetes/kubernetes-stack.ts";
import type { ClusterPlan, StackPlan } from "./plan/stack-plan.ts";

/** What only the platform knows; some of it perhaps not before `up`. */
type ServedOutputs = Pick<DeployedStack, "endpoints" | "engineStore" | "notes">;

/**
 * Machines of a model as the platform names them, by the pool of the stack file.
 *
 * @param pool - null in stacks on CPUs, which have no pools.
 */
type NodePoolName = (pool: string | null) => string;

/** @returns The whole contract; what `served` has as a promise or an output stays one. */
export function planOutputs<Served extends ServedOutputs>(
  plan: StackPlan,
  nodePool: NodePoolName,
  served: Served,
): Pick<StackOutputs, "models" | "release" | "cost"> & Served {
  // The cost of GPUs has its lines as well, which are no part of the contract.
  const { hourlyUsd, monthlyUsd, withoutPrice, buildUsd, pricesAsOf } = plan.cost;
  return {
    ...served,
    models: models(plan, nodePool),
    release: plan.tier === "cpu" ? plan.release : plan.release.tag,
    cost: { hourlyUsd, monthlyUsd, withoutPrice, buildUsd, pricesAsOf },
  };
}

/** Outputs of a stack in a cluster, which are known before `up`: names of Services do not change. */
export function clusterOutputs(
  plan: ClusterPlan,
  { endpoints, notes, namespace, store }: KubernetesStack,
): StackOutputs {
  const engineStore = store === null ? "image" : `claim ${namespace.name}/${store.claim}`;
  return planOutputs(plan, (pool) => pool ?? "cluster", { endpoints, engineStore, notes });
}

function models(plan: StackPlan, nodePool: NodePoolName): ModelOutput[] {
  if (plan.tier === "cpu") {
    const { release } = plan;
    return plan.models.map(({ name, model }) => ({
      name,
      model,
      release,
      engineKey: null,
      nodePool: nodePool(null),
    }));
  }
  return plan.models.map(({ name, spec, engine }) => ({
    name,
    model: spec.engine.model,
    release: plan.release.tag,
    engineKey: engine?.key ?? null,
    nodePool: nodePool(spec.pool),
  }));
}
