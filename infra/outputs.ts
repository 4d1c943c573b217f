/**
 * Outputs of a stack, the contract of scripts and users: `npx engine-room outputs --json` prints exactly this object, on every
 * platform.
 */
import type * as pulumi from "@pulumi/pulumi";
import type { CostPlan } from "./plan/cost/types.ts";
import type { Endpoints, ServedModel } from "./plan/endpoints.ts";
import type { KubernetesStack } from "./plan/kubernetes/kubernetes-stack.ts";
import type { ClusterPlan, StackPlan } from "./plan/stack-plan.ts";

export interface StackOutputs {
  readonly endpoints: Endpoints;
  readonly models: readonly ServedModel[];
  readonly release: string;
  /** Where weights and engines are kept. */
  readonly engineStore: string;
  readonly cost: CostPlan;
  /** Limits that users have to know, such as "image embeddings carry no meaning". */
  readonly notes: readonly string[];
}

/** Outputs while the stack is being made: some values are known only after `up`, and the others in a preview. */
export type DeployedStack = Omit<
  { readonly [K in keyof StackOutputs]: pulumi.Input<StackOutputs[K]> },
  "endpoints" | "notes"
> & {
  readonly endpoints: pulumi.Input<{ readonly [K in keyof Endpoints]: pulumi.Input<Endpoints[K]> }>;
  readonly notes: pulumi.Input<readonly pulumi.Input<string>[]>;
};

/**
 * The part that the plan knows, before anything is up.
 *
 * @param nodePool Machines of a model as the platform names them, by the pool of the stack file; null in stacks on CPUs,
 *   which have no pools.
 * @param served Values that only the platform knows, some of them only after `up`: promises and outputs are kept.
 */
export function planOutputs<Served extends Pick<DeployedStack, "endpoints" | "engineStore" | "notes">>(
  plan: StackPlan,
  nodePool: (pool: string | null) => string,
  served: Served,
): Pick<StackOutputs, "models" | "release" | "cost"> & Served {
  // Without the lines of a GPU stack's cost, which are not part of the contract.
  const { hourlyUsd, monthlyUsd, withoutPrice, buildUsd, pricesAsOf } = plan.cost;
  const release = plan.tier === "cpu" ? plan.release : plan.release.tag;
  const models =
    plan.tier === "cpu"
      ? plan.models.map(({ name, model }) => ({
          name,
          model,
          release,
          engineKey: null,
          nodePool: nodePool(null),
        }))
      : plan.models.map(({ name, spec, engine }) => ({
          name,
          model: spec.engine.model,
          release,
          engineKey: engine?.key ?? null,
          nodePool: nodePool(spec.pool),
        }));
  return { ...served, models, release, cost: { hourlyUsd, monthlyUsd, withoutPrice, buildUsd, pricesAsOf } };
}

/** Outputs of a stack in a cluster, which are known before `up`: names of Services do not change. */
export function clusterOutputs(
  plan: ClusterPlan,
  { endpoints, notes, namespace, store }: KubernetesStack,
): StackOutputs {
  const engineStore = store === null ? "image" : `claim ${namespace.name}/${store.claim}`;
  return planOutputs(plan, (pool) => pool ?? "cluster", { endpoints, engineStore, notes });
}
