/** The numbers of a visual half, from one place: build, repository and requests take them from here. */
import type { EngineLimits, LanguageModel, VisionTower } from "../catalogue/types.ts";
import type { VisualNumbers } from "./types.ts";

/** What tensorrtllm_backend's docs/multimodal.md gives `--multimodal_gpu0_cuda_mem_pool_bytes`. */
const DOCUMENTED_POOL_BYTES = 300_000_000;

/** Room in the pool over the bytes of one full batch; an assumption, no document names a figure. */
const POOL_HEADROOM = 1.25;

const POOL_STEP_BYTES = 100_000_000;

/** Visual features are handed on in float16 or bfloat16. */
const FEATURE_BYTES = 2;

/**
 * Derives the visual numbers of an engine; null for a text model.
 *
 * `max_multimodal_len = max_batch_size × features of an image × images of a request` and the visual engine's
 * `max_batch_size = max_batch_size × runs of an image × images of a request` are the formulae of NVIDIA/TensorRT-LLM
 * examples/models/core/multimodal/README.md; where images are cut in tiles or a video in frames, the model's bound for a
 * whole request replaces features times images. Cross attention has no prompt table: its positions count as encoder
 * input. Triton's preprocessing divides these numbers back, so they must not be rounded.
 */
export function visualNumbers(
  row: Pick<LanguageModel, "architecture" | "vision">,
  limits: Pick<EngineLimits, "maxBatchSize" | "maxImagesPerRequest">,
): VisualNumbers | null {
  if (row.vision === undefined) return null;
  const tokensPerRequest = requestTokens(row.vision, limits.maxImagesPerRequest);
  const crosses = row.vision.attention === "cross";
  const leastPoolBytes = FEATURE_BYTES * tokensPerRequest * row.architecture.hiddenSize * limits.maxBatchSize;
  return {
    maxMultimodalTokens: crosses ? 0 : limits.maxBatchSize * tokensPerRequest,
    maxEncoderInputTokens: crosses ? tokensPerRequest : 0,
    visionMaxBatchSize: limits.maxBatchSize * row.vision.runsPerImage * limits.maxImagesPerRequest,
    tokensPerRequest,
    cudaMemoryPoolBytes: Math.max(
      DOCUMENTED_POOL_BYTES,
      Math.ceil((POOL_HEADROOM * leastPoolBytes) / POOL_STEP_BYTES) * POOL_STEP_BYTES,
    ),
  };
}

function requestTokens(vision: VisionTower, images: number): number {
  return vision.tokensPerRequest ?? vision.tokensPerImage * images;
}
