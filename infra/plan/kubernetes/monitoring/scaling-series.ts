/** Series by which the number of a model's servers is chosen. */
import type { ModelPlan } from "../../gpu-stack.ts";
import { type Matches, series } from "./promql.ts";
import { of, servicesWith, type WatchedStack } from "./scope.ts";

interface ScalingSeries {
  /** Of the trigger. */
  readonly name: "waiting-requests" | "pending-requests";
  /** A selector: one value for each server of the model. */
  readonly selector: string;
}

/**
 * What waits for a model: in TensorRT-LLM's batch manager where the release says so, and in Triton's queue, which of a
 * decoupled model with a batch manager is always empty.
 */
export function scalingSeries(
  watched: WatchedStack,
  { name, repository }: ModelPlan,
): readonly ScalingSeries[] {
  const at: Matches = of(watched, name);
  const reportsWaiting = servicesWith(watched, "nv_trt_llm_request_metrics", "waiting").includes(name);
  return [
    ...(reportsWaiting
      ? [
          {
            name: "waiting-requests" as const,
            selector: series("nv_trt_llm_request_metrics", { ...at, request_type: "waiting" }),
          },
        ]
      : []),
    {
      name: "pending-requests",
      selector: series("nv_inference_pending_request_count", { ...at, model: repository.clientModel }),
    },
  ];
}
