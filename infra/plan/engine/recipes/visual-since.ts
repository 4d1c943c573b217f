import type { VisualRecipe } from "./types.ts";

/** `since` of a range whose documents show every visual model from one TensorRT-LLM on. */
export function allVisualModelsSince(version: string): VisualRecipe["since"] {
  return { llava: version, blip2: version, vila: version, llava_onevision: version, mllama: version };
}
