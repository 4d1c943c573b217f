/** What of a stack is watched, and by which labels its series are found. */
import { type tensorRtLlmMetrics, tensorRtLlmSeries } from "../../catalogue/metrics.ts";
import type { ClusterGpuPlan, ModelPlan } from "../../gpu-stack.ts";
import type { ClusterPlan } from "../cluster-plan.ts";
import type { AutoscalerPlan } from "../operations-types.ts";
import type { BuildPlan, ClusterImage, DatabasePlan, ServerPlan, StorePlan } from "../types.ts";
import type { Matches } from "./promql.ts";

/** The parts of a stack's plan that monitoring looks at. */
export interface WatchedStack {
  readonly stack: string;
  readonly plan: ClusterPlan;
  readonly models: readonly ServerPlan[];
  readonly encoders: ServerPlan | null;
  readonly gateway: ServerPlan;
  readonly databases: readonly DatabasePlan[];
  readonly builds: readonly BuildPlan[];
  /** null: nothing is built. */
  readonly store: StorePlan | null;
  readonly images: readonly ClusterImage[];
  readonly autoscalers: readonly AutoscalerPlan[];
}

/** Of series that Prometheus reads of a stack's Services; Triton's own label `model` is the name in its repository. */
export function of({ plan }: WatchedStack, services?: string | readonly string[]): Matches {
  return {
    namespace: plan.cluster.namespace.name,
    ...(services === undefined ? {} : { service: services }),
  };
}

/** Names of the Services of all Tritons. */
export function tritonServices({ models, encoders }: WatchedStack): readonly string[] {
  return [...models, ...(encoders === null ? [] : [encoders])].map(({ service }) => service.name);
}

type Family = keyof typeof tensorRtLlmMetrics;

/** Names of Services whose release reports a series of TensorRT-LLM's batch manager. */
export function servicesWith({ plan }: WatchedStack, family: Family, value: string): readonly string[] {
  if (plan.tier === "cpu") return [];
  return plan.models.filter((model) => hasSeries(plan, model, family, value)).map(({ name }) => name);
}

/** Names of models that may rightly have no server. */
export function sleepers({ autoscalers }: WatchedStack): readonly string[] {
  return autoscalers.filter(({ replicas }) => replicas.min === 0).map(({ deployment }) => deployment);
}

function hasSeries({ release }: ClusterGpuPlan, { spec }: ModelPlan, family: Family, value: string): boolean {
  return tensorRtLlmSeries(spec.serving, release.tag).some(
    ({ name, labels }) => name === family && Object.values(labels).includes(value),
  );
}

/** Names of claims: of the engine store, and of the stack's own databases. */
export function claims({ store, databases }: WatchedStack): readonly string[] {
  return [
    ...(store === null ? [] : [store.claim]),
    ...databases.map(({ name, claim }) => `${claim.name}-${name}-0`),
  ];
}
