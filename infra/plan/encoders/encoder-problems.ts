/** What makes encoders impossible, from configuration alone. */
import { type Problem, showValue } from "../../problems.ts";
import type { Gpu } from "../catalogue/types.ts";
import type { EncodersSpec } from "../spec.ts";

/** Format that a GPU must compute for a precision; fp32 runs everywhere. */
const FORMATS = { fp32: null, fp16: "float16", int8: "int8" } as const;

/**
 * Combinations of device, precision and GPU that can't be built; none for those that {@link encoderPlan} takes.
 *
 * @param gpu GPU of the pool that runs them; null for a pool without.
 */
export function encoderProblems(spec: EncodersSpec, gpu: Gpu | null): readonly Problem[] {
  const problems: Problem[] = [];
  if (!Number.isSafeInteger(spec.maxBatchSize) || spec.maxBatchSize < 1) {
    problems.push({
      path: "encoders.maxBatchSize",
      value: showValue(spec.maxBatchSize),
      reason: "The largest batch must be a whole number of at least 1.",
      fix: "Write 32, or leave it out.",
    });
  }
  if (spec.device === "cpu" && spec.precision !== "fp32") {
    problems.push({
      path: "encoders.precision",
      value: showValue(spec.precision),
      reason: "On a CPU the encoders are float32 graphs; fp16 and int8 exist as TensorRT plans alone.",
      fix: "Write fp32, or device: gpu.",
    });
  }
  if (spec.device === "gpu" && gpu === null) {
    problems.push({
      path: "encoders.pool",
      value: showValue(spec.pool),
      reason: "The encoders are to run on a GPU, and the machines of this pool have none.",
      fix: "Name a pool with GPUs, or write device: cpu.",
    });
  }
  const format = FORMATS[spec.precision];
  if (spec.device === "gpu" && gpu !== null && format !== null && !gpu.formats.includes(format)) {
    problems.push({
      path: "encoders.precision",
      value: showValue(spec.precision),
      reason: `${gpu.name} (compute capability ${gpu.computeCapability}) does not compute ${format}.`,
      fix: "Write fp32, or name a pool with another GPU.",
    });
  }
  return problems;
}
