/** How long servers take to start, from the start of the container on: its image is there by then. */
import type { ModelPlan } from "./gpu-stack.ts";

/** Estimates of copy and load are right within a factor of two; the rest is for the start of the container itself. */
const START_ESTIMATES = 2;
const START_BASE_SECONDS = 60;

/** Three small graphs, and warm-up. */
export const ENCODERS_START_SECONDS = 120;

/** Most that a model's Triton takes until it is ready. */
export function startSeconds({ coldStart }: Pick<ModelPlan, "coldStart">): number {
  const estimated = coldStart.steps
    .filter(({ what }) => what === "engineCopy" || what === "load")
    .reduce((sum, { seconds }) => sum + seconds, 0);
  return START_BASE_SECONDS + START_ESTIMATES * estimated;
}
