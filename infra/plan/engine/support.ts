/** Whether a release can build an engine at all. */
import type { EngineSpec } from "../spec.ts";
import { recipeTables } from "./recipes/index.ts";
import { compareVersions } from "./version.ts";

/**
 * Why no recipe builds this engine on this release, as a sentence; null where one does. It looks at recipes only: what
 * the GPU computes and what fits it are other questions.
 */
export function unsupportedReason(
  spec: Pick<EngineSpec, "model" | "row" | "release" | "quantization">,
): string | null {
  const { model, row, release } = spec;
  const named = `release ${release.tag} (TensorRT-LLM ${release.tensorRtLlm})`;
  if (release.recipes === null) return `${named} builds no TensorRT engines`;
  const table = recipeTables[release.recipes];
  if (spec.quantization === "fp8") {
    if (table.quantizer === null) return `${named} has no verified recipe for fp8`;
  } else if (table.converters[row.recipe] === null) {
    return `${named} has no converter for ${model} (recipe ${row.recipe})`;
  }
  if (row.vision === undefined) return null;
  const since = table.visual?.since[row.vision.modelType] ?? null;
  if (since === null) {
    return `${named} has no verified recipe for the visual engine of ${model} (model type ${row.vision.modelType})`;
  }
  return compareVersions(release.tensorRtLlm, since) < 0
    ? `the visual engine of ${model} is documented from TensorRT-LLM ${since} on, and ${named} is older`
    : null;
}
