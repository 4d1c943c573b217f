/** How attention heads are spread over the GPUs of tensor parallelism. */
import type { Architecture } from "../catalogue/types.ts";

/**
 * Each rank gets whole heads; key and value heads are split, or each is copied to the same number of ranks.
 * NVIDIA/TensorRT-LLM tensorrt_llm/mapping.py and examples/models/core/llama/README.md.
 */
export function dividesHeads(
  tensorParallel: number,
  { heads, kvHeads }: Pick<Architecture, "heads" | "kvHeads">,
): boolean {
  return heads % tensorParallel === 0 && (kvHeads % tensorParallel === 0 || tensorParallel % kvHeads === 0);
}
