/** What a stack's rules record of its plan: Prometheus then knows when an engine, an image or the price changed. */
import type { recordedMetrics } from "../../catalogue/cluster-metrics.ts";
import type { GpuCost } from "../../cost/types.ts";
import type { ClusterPlan } from "../cluster-plan.ts";
import type { Labels } from "../pod-types.ts";
import type { WatchedStack } from "./scope.ts";
import type { RecordedPlan } from "./types.ts";

/** Digits that the names of Jobs and the labels of pods have, too. */
const KEY_DIGITS = 12;

/** Constant series, whose labels say what is planned. */
export function recorded({ stack, plan, images }: WatchedStack): readonly RecordedPlan[] {
  const common = { stack, namespace: plan.cluster.namespace.name };
  const row = (record: keyof typeof recordedMetrics, value: number, labels: Labels): RecordedPlan => ({
    record,
    expression: `vector(${value})`,
    labels: { ...common, ...labels },
  });
  return [
    ...servedModels(plan).map((labels) => row("engine_room_model_info", 1, labels)),
    ...images.map(({ name, reference }) => row("engine_room_image_info", 1, { image: name, reference })),
    // Machines of a cluster without pools have no price.
    ...(plan.tier === "cpu"
      ? []
      : prices(plan.cost).map(({ usd, labels }) => row("engine_room_hourly_usd", usd, labels))),
  ];
}

/** None where nothing has a price, which is not a price of 0; marked where it is a lower bound. */
function prices({
  hourlyUsd,
  withoutPrice,
}: GpuCost): readonly { readonly usd: number; readonly labels: Labels }[] {
  if (hourlyUsd === null) return [];
  return [{ usd: hourlyUsd, labels: withoutPrice.length === 0 ? {} : { bound: "at_least" } }];
}

function servedModels(plan: ClusterPlan): readonly Labels[] {
  if (plan.tier === "cpu") {
    return plan.models.map(({ name, model }) => ({ model: name, served: model, release: plan.release }));
  }
  return plan.models.map(({ name, spec, engine }) => ({
    model: name,
    served: spec.engine.model,
    engine_key: engine?.key.slice(0, KEY_DIGITS) ?? "none",
    release: plan.release.tag,
    pool: spec.pool,
  }));
}
