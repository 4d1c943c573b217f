/** How engines are divided among GPUs, and their sizes: of visual engines, and estimates for memory, disks and machines, in GiB. */
import {
  type Architecture,
  calibrationOf,
  type EngineLimits,
  type LanguageModel,
  type Quantization,
  type Runtime,
} from "../catalogue/types.ts";
import { visionTypes } from "../catalogue/vision-types.ts";
import type { EnginePlan } from "../container-spec-schemas.ts";
import type { EngineSpec } from "../spec.ts";
import { GIB } from "../units.ts";

/** float16 and bfloat16 alike. */
const DTYPE_BYTES = 2;

/** Weights that share one scale when quantized to 4 bits, and the bytes of the scale. AWQ on four GPUs has groups of 64. */
const INT4_GROUP = 128;
const AWQ_GROUP = 64;
const INT4_SCALE_BYTES = 2;

/** Bytes of one quantized weight, scales included. */
const WEIGHT_BYTES: Readonly<Record<Quantization, number>> = {
  none: DTYPE_BYTES,
  int8: 1,
  fp8: 1,
  int4: 0.5 + INT4_SCALE_BYTES / INT4_GROUP,
  int8_sq: 1,
  int4_awq: 0.5 + INT4_SCALE_BYTES / AWQ_GROUP,
};

const STORED_BYTES: Readonly<Record<LanguageModel["source"]["storedDtype"], number>> = {
  float32: 4,
  float16: 2,
  bfloat16: 2,
};

/**
 * Host memory of trtllm-build beside the weights. NVIDIA/TensorRT-LLM's GPT example logs a peak of 6600 MiB for
 * gpt2-medium, whose checkpoint of 0.66 GiB is held twice: loaded, and serialized in the engine.
 */
const BUILD_BASE_GIB = 5.1;

/** Python, PyTorch and the converter; an assumption. */
const CONVERT_BASE_GIB = 2;

/**
 * Whether attention heads can be divided: each rank gets whole heads; key and value heads are split, or each is copied to the
 * same number of ranks. NVIDIA/TensorRT-LLM tensorrt_llm/mapping.py and examples/models/core/llama/README.md.
 */
export function dividesHeads(
  tensorParallel: number,
  { heads, kvHeads }: Pick<Architecture, "heads" | "kvHeads">,
): boolean {
  return heads % tensorParallel === 0 && (kvHeads % tensorParallel === 0 || tensorParallel % kvHeads === 0);
}

interface EngineSize {
  /** Language model's engine, all ranks: parts that several of them hold count several times. */
  readonly llmGiB: number;
  /** The rank that holds most. */
  readonly llmPerRankGiB: number;
  /** Size of all layers, which all ranks share evenly. */
  readonly layersGiB: number;
  /** Visual engine, which only rank 0 has. 0 for a text model. */
  readonly visionGiB: number;
  /** On the disk of the store. */
  readonly totalGiB: number;
}

type SizedSpec = Pick<EngineSpec, "row" | "quantization" | "tensorParallel" | "pipelineParallel">;

/**
 * Size of an engine on disk, and of its weights on GPUs. Embedding, output head and a visual engine are never quantized.
 *
 * The first pipeline stage has the embedding and the last one the head. Tensor parallelism splits layers and head. The converters
 * copy the whole embedding to each rank (`--use_parallel_embedding` is off); the quantizer's checkpoints and the PyTorch
 * backend (tensorrt_llm/_torch/modules/embedding.py) split it. A table of positions counts as head, and the second copy of a head
 * that is tied to the embedding is not counted: up to 0.1 GiB of gpt2-medium, 0.24 GiB of OPT-2.7B. NVIDIA/TensorRT-LLM
 * tensorrt_llm/models/llama/convert.py, models/gpt/convert.py and examples/opt/convert_checkpoint.py.
 *
 * @param runtime - Runtime that loads the weights; the PyTorch backend has no engine on disk.
 */
export function engineBytesGiB(spec: SizedSpec, runtime: Runtime = "engine"): EngineSize {
  const { tensorParallel, pipelineParallel, quantization } = spec;
  const { parameters, embeddingParameters, vocabularySize, hiddenSize } = spec.row.architecture;
  const vocabulary = Math.min(vocabularySize * hiddenSize, embeddingParameters);
  const layersGiB = ((parameters - embeddingParameters) * WEIGHT_BYTES[quantization]) / GIB;
  const copies = calibrationOf(quantization) !== null || runtime === "llmapi" ? 1 : tensorParallel;
  const embeddingGiB = (vocabulary * DTYPE_BYTES * copies) / GIB;
  const headGiB = ((embeddingParameters - vocabulary) * DTYPE_BYTES) / GIB;
  const endsGiB = pipelineParallel === 1 ? embeddingGiB + headGiB : Math.max(embeddingGiB, headGiB);
  const llmGiB = layersGiB + embeddingGiB + headGiB;
  const visionGiB = ((spec.row.vision?.parameters ?? 0) * DTYPE_BYTES) / GIB;
  return {
    llmGiB,
    llmPerRankGiB: layersGiB / (tensorParallel * pipelineParallel) + endsGiB / tensorParallel,
    layersGiB,
    visionGiB,
    totalGiB: llmGiB + visionGiB,
  };
}

/** Scratch space of the converted checkpoint: the language model's weights as the engine has them. */
export function checkpointGiB(spec: SizedSpec): number {
  return engineBytesGiB(spec).llmGiB;
}

/** The weights as they are stored at their source, in memory all at once. */
export function loadedWeightsGiB(row: LanguageModel): number {
  const parameters = row.architecture.parameters + (row.vision?.parameters ?? 0);
  return (parameters * STORED_BYTES[row.source.storedDtype]) / GIB;
}

/** Host memory of a build: converting holds the stored weights and the checkpoint, building the checkpoint and the engine. */
export function hostMemoryGiB(spec: SizedSpec): number {
  const checkpoint = checkpointGiB(spec);
  return Math.max(
    CONVERT_BASE_GIB + loadedWeightsGiB(spec.row) + checkpoint,
    BUILD_BASE_GIB + 2 * checkpoint,
  );
}

/** `--multimodal_gpu0_cuda_mem_pool_bytes` of tensorrtllm_backend's docs/multimodal.md. */
const DOCUMENTED_POOL_BYTES = 300_000_000;

/** Room in the pool over the bytes of one full batch; an assumption, no document names a figure. */
const POOL_HEADROOM = 1.25;

const POOL_STEP_BYTES = 100_000_000;

/**
 * Visual numbers of an engine; null for a text model. Formulae of NVIDIA/TensorRT-LLM
 * examples/models/core/multimodal/README.md; if images are cut in tiles or a video in frames, the model's bound for a
 * whole request replaces features times images. Cross attention has no prompt table: its positions count as encoder
 * input. Triton's preprocessing divides these numbers back, so they must not be rounded.
 */
export function visualNumbers(
  { vision, architecture }: Pick<LanguageModel, "architecture" | "vision">,
  { maxBatchSize, maxImagesPerRequest }: Pick<EngineLimits, "maxBatchSize" | "maxImagesPerRequest">,
): EnginePlan["visual"] {
  if (vision === undefined) return null;
  const tokensPerRequest = vision.tokensPerRequest ?? vision.tokensPerImage * maxImagesPerRequest;
  const imagesInTiles = visionTypes[vision.modelType].severalAreTiles ? 1 : maxImagesPerRequest;
  const crosses = vision.attention === "cross";
  const batchBytes = DTYPE_BYTES * tokensPerRequest * architecture.hiddenSize * maxBatchSize;
  return {
    maxMultimodalTokens: crosses ? 0 : maxBatchSize * tokensPerRequest,
    maxEncoderInputTokens: crosses ? tokensPerRequest : 0,
    visionMaxBatchSize: maxBatchSize * vision.runsPerImage * imagesInTiles,
    tokensPerRequest,
    cudaMemoryPoolBytes: Math.max(
      DOCUMENTED_POOL_BYTES,
      Math.ceil((POOL_HEADROOM * batchBytes) / POOL_STEP_BYTES) * POOL_STEP_BYTES,
    ),
  };
}
