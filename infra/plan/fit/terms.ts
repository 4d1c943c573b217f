/**
 * What one process group keeps on a GPU, term by term. Every rule names its source; where the coefficients were fitted,
 * the measurements are listed, and `test/infra/plan/fit/memory-fit.test.ts` compares them.
 */
import type { VisionTower } from "../catalogue/types.ts";
import { DEFAULT_MAX_NUM_TOKENS } from "../engine/build-steps.ts";
import { engineBytesGiB } from "../engine/engine-size.ts";
import { compareVersions } from "../engine/release.ts";
import { visualNumbers } from "../engine/vision-types.ts";
import type { EngineSpec, ModelSpec } from "../spec.ts";
import { GIB } from "../units.ts";
import { encoderTerms } from "./encoder-terms.ts";
import { type KvCachePromise, kvCachePromise } from "./kv-cache.ts";
import { grouped, round3 } from "./numbers.ts";
import type { GpuTenant } from "./placement.ts";
import type { MemoryTerm } from "./types.ts";

/** A term with its error, and when it is there. */
export interface SizedTerm extends MemoryTerm {
  readonly uncertaintyGiB: number;
  readonly source: string;
  /**
   * `before`: loaded by the time TensorRT-LLM measures the free memory for its KV cache. `anyTime`: by another process or
   * model of the server, in no fixed order. `cache`: the KV cache itself.
   */
  readonly when: "before" | "anyTime" | "cache";
}

export interface TenantNeed {
  readonly terms: readonly SizedTerm[];
  /** null for encoders. */
  readonly kvCache: KvCachePromise | null;
}

const MEMORY_GUIDE = "https://nvidia.github.io/TensorRT-LLM/reference/memory.html";

/** Engines hold little but weights: 15,320 MiB loaded for 15,317 MiB of weights (michaelnny/llama3_inference, README). */
const WEIGHTS_ERROR = 0.02;

/**
 * Activations: `18 × tokens of a step × hidden size × 2 bytes`, the logits of a step, and 32 MiB of workspace.
 * "Activation size will be close to max number of input tokens × some constant factor" (the memory guide); the factor fits
 * - Llama-3-8B bf16, 12,288 tokens, batch 64: 1,811,942,912 bytes (github.com/michaelnny/llama3_inference, README);
 * - Llama-2-7b fp8, 8,192 tokens: 1,134 MiB (the memory guide);
 * - Qwen2.5-0.5B int8, 8,192 tokens, batch 2,048: 773.51 MiB, and 512 tokens, batch 1: 43.26 MiB
 *   (https://github.com/NVIDIA/TensorRT-LLM/issues/1188).
 * The rule is 3 to 14 % above these. It does not divide by ranks: tensor parallelism shrinks only some of the tensors.
 */
const ACTIVATION_FACTOR = 18;
const WORKSPACE_BYTES = 32 * 2 ** 20;
const ACTIVATION_ERROR = 0.25;

/**
 * Runtime buffers and decoder: bytes for each element of `batch × beams × vocabulary`.
 * - Llama-2-7b: 43.29 + 180.30 MiB (the memory guide; 28.6 bytes if its batch is the then default of 256);
 * - Qwen2.5-0.5B, batch 2,048, vocabulary 151,936: 2.66 + 5.76 GiB, 29.1 bytes (issue 1188);
 * - Llama-2-7b, batch 4,096, 0.12: 1.14 + 4.35 GiB, 45 bytes (trtllm-bench's README of that time).
 */
const DECODER_BYTES = 32;
const DECODER_ERROR = 0.5;

/**
 * CUDA context, kernels and libraries of a process that runs an engine: total less available less the engine's own parts
 * is 0.77 GiB in the memory guide's log.
 */
const SERVER_CONTEXT_GIB = 0.75;
const SERVER_CONTEXT_ERROR_GIB = 0.25;

/** The same for a Python stub with its own context: "each trtllm seems to allocate 500MB", up to 590 MiB in nvidia-smi. */
const STUB_CONTEXT_GIB = 0.55;
const STUB_CONTEXT_ERROR_GIB = 0.2;
const STUB_SOURCE = "https://github.com/NVIDIA/TensorRT-LLM/issues/3058";

/** Triton's own pool on a GPU where `--cuda-memory-pool-byte-size` says nothing: 67,108,864 bytes in its log. */
const DEFAULT_POOL_BYTES = 64 * 2 ** 20;
const DEFAULT_POOL_SOURCE = "https://github.com/NVIDIA/TensorRT-LLM/issues/2233";

/**
 * Patches and width of one run of each visual engine, from the configuration of the tower that its models share; the
 * language model may see fewer tokens of them. null: exactly `tokensPerImage`, the four tiles of an image in one run.
 */
const VISUAL_RUNS: Readonly<
  Record<VisionTower["modelType"], { readonly tokens: number | null; readonly width: number }>
> = {
  // https://huggingface.co/openai/clip-vit-large-patch14-336/blob/main/config.json
  llava: { tokens: 577, width: 1024 },
  // https://huggingface.co/Salesforce/blip2-opt-2.7b/blob/main/config.json
  blip2: { tokens: 257, width: 1408 },
  // https://huggingface.co/google/siglip-so400m-patch14-384/blob/main/config.json, also for OneVision
  vila: { tokens: 729, width: 1152 },
  llava_onevision: { tokens: 729, width: 1152 },
  // https://huggingface.co/meta-llama/Llama-3.2-11B-Vision/blob/main/config.json
  mllama: { tokens: null, width: 1280 },
};
/** Nobody publishes activations of these engines; the factor is the language models'. */
const VISUAL_ACTIVATION_ERROR = 0.5;

/** Terms of one tenant of a GPU. */
export function tenantNeed(tenant: GpuTenant): TenantNeed {
  return tenant.kind === "encoders"
    ? { terms: encoderTerms(tenant.encoders).map(rounded), kvCache: null }
    : rankNeed(tenant.model, tenant.leader);
}

/** Terms are rounded before they are added, so that the sum is that of what people see. */
function rounded(term: SizedTerm): SizedTerm {
  return { ...term, gib: round3(term.gib), uncertaintyGiB: round3(term.uncertaintyGiB) };
}

function rankNeed(model: ModelSpec, leader: boolean): TenantNeed {
  const { vision } = model.engine.row;
  const visual = vision === undefined ? null : visualNumbers(model.engine.row, model.engine.limits);
  const kvCache = kvCachePromise(model, visual?.maxEncoderInputTokens ?? 0);
  const terms = [
    weights(model),
    activations(model),
    decoderBuffers(model),
    ...kvCacheTerms(model, kvCache),
    memoryPool(model, leader ? (visual?.cudaMemoryPoolBytes ?? null) : null),
    ...contexts(model, leader),
  ];
  if (leader && vision !== undefined && visual !== null) {
    terms.push(...visualTerms(model, vision, visual.visionMaxBatchSize));
  }
  return { terms: terms.map(rounded), kvCache };
}

function weights(model: ModelSpec): SizedTerm {
  const { tensorParallel, pipelineParallel, quantization, dtype, row } = model.engine;
  const { llmPerRankGiB, llmGiB, layersGiB } = engineBytesGiB(model.engine, model.serving.runtime);
  const format = quantization === "none" ? dtype : quantization;
  const ranks = tensorParallel * pipelineParallel;
  const share =
    ranks === 1
      ? `${llmGiB.toFixed(2)} GiB`
      : `${layersGiB.toFixed(2)} GiB of layers ÷ ${ranks} GPUs + ${(llmPerRankGiB - layersGiB / ranks).toFixed(2)} GiB of embedding and output head`;
  return {
    tenant: model.serving.name,
    what: "weights",
    gib: llmPerRankGiB,
    arithmetic: `${grouped(row.architecture.parameters)} parameters in ${format}: ${share}`,
    uncertaintyGiB: llmPerRankGiB * WEIGHTS_ERROR,
    source: "https://github.com/michaelnny/llama3_inference",
    when: "before",
  };
}

/** Tokens that one step of an engine can hold. */
export function maxTokensPerStep(engine: EngineSpec): number {
  const { limits } = engine;
  if (limits.maxNumTokens !== undefined) return limits.maxNumTokens;
  const longestPrompts = limits.maxBatchSize * limits.maxBeamWidth * limits.maxInputTokens;
  return compareVersions(engine.release.tensorRtLlm, "0.11") >= 0 ? DEFAULT_MAX_NUM_TOKENS : longestPrompts;
}

/** Bytes of an engine's activations; see {@link ACTIVATION_FACTOR}. */
export function activationBytes(shape: {
  readonly tokens: number;
  readonly hiddenSize: number;
  readonly sequences: number;
  readonly vocabularySize: number;
}): number {
  const layers = ACTIVATION_FACTOR * shape.tokens * shape.hiddenSize * 2;
  return layers + shape.sequences * shape.vocabularySize * 2 + WORKSPACE_BYTES;
}

/** Bytes of runtime buffers and decoder; see {@link DECODER_BYTES}. */
export function decoderBytes(shape: { readonly sequences: number; readonly vocabularySize: number }): number {
  return shape.sequences * shape.vocabularySize * DECODER_BYTES;
}

function activations(model: ModelSpec): SizedTerm {
  const { limits, row } = model.engine;
  const { hiddenSize, vocabularySize } = row.architecture;
  const tokens = maxTokensPerStep(model.engine);
  const sequences = limits.maxBatchSize * limits.maxBeamWidth;
  const gib = activationBytes({ tokens, hiddenSize, sequences, vocabularySize }) / GIB;
  return {
    tenant: model.serving.name,
    what: "activations",
    gib,
    arithmetic: `${ACTIVATION_FACTOR} × ${grouped(tokens)} tokens × ${grouped(hiddenSize)} × 2 bytes + ${grouped(sequences)} sequences × ${grouped(vocabularySize)} logits × 2 bytes + 32 MiB`,
    uncertaintyGiB: gib * ACTIVATION_ERROR,
    source: `${MEMORY_GUIDE}; factor fitted to published logs`,
    when: "before",
  };
}

function decoderBuffers(model: ModelSpec): SizedTerm {
  const { limits, row } = model.engine;
  const { vocabularySize } = row.architecture;
  const sequences = limits.maxBatchSize * limits.maxBeamWidth;
  const gib = decoderBytes({ sequences, vocabularySize }) / GIB;
  return {
    tenant: model.serving.name,
    what: "activations",
    gib,
    arithmetic: `decoder and runtime buffers: ${grouped(sequences)} sequences × ${grouped(vocabularySize)} logits × ${DECODER_BYTES} bytes`,
    uncertaintyGiB: gib * DECODER_ERROR,
    source: `${MEMORY_GUIDE}; bytes fitted to published logs`,
    when: "before",
  };
}

function kvCacheTerms(model: ModelSpec, promise: KvCachePromise): readonly SizedTerm[] {
  const common = {
    tenant: model.serving.name,
    uncertaintyGiB: 0,
    source: MEMORY_GUIDE,
    when: "cache",
  } as const;
  const self: SizedTerm = {
    ...common,
    what: "kvCache",
    gib: promise.selfGiB,
    arithmetic: promise.selfArithmetic,
  };
  if (promise.crossGiB === 0) return [self];
  return [
    self,
    { ...common, what: "crossKvCache", gib: promise.crossGiB, arithmetic: promise.crossArithmetic },
  ];
}

function memoryPool(model: ModelSpec, bytes: number | null): SizedTerm {
  return {
    tenant: model.serving.name,
    what: "memoryPool",
    gib: (bytes ?? DEFAULT_POOL_BYTES) / GIB,
    arithmetic:
      bytes === null
        ? "Triton's default of 67,108,864 bytes"
        : `--multimodal_gpu0_cuda_mem_pool_bytes ${grouped(bytes)}`,
    uncertaintyGiB: 0,
    source: DEFAULT_POOL_SOURCE,
    when: "before",
  };
}

/**
 * CUDA contexts of one rank: the server's own, and one for each Python stub that uses the GPU. The visual engine's stub is
 * there on rank 0 only; a Python or PyTorch runtime is a process beside the server on every rank.
 */
function contexts(model: ModelSpec, leader: boolean): readonly SizedTerm[] {
  const { flavour, tritonBackend } = model.serving;
  const server: SizedTerm = {
    tenant: model.serving.name,
    what: "cudaContext",
    gib: SERVER_CONTEXT_GIB,
    arithmetic: "tritonserver: CUDA context, kernels and libraries",
    uncertaintyGiB: SERVER_CONTEXT_ERROR_GIB,
    source: MEMORY_GUIDE,
    when: "before",
  };
  const stub = (what: string, when: SizedTerm["when"]): SizedTerm => ({
    ...server,
    gib: STUB_CONTEXT_GIB,
    arithmetic: `${what}: a process of its own with a CUDA context`,
    uncertaintyGiB: STUB_CONTEXT_ERROR_GIB,
    source: STUB_SOURCE,
    when,
  });
  const runsInStub = flavour === "gpt" || flavour === "llmapi" || tritonBackend === "python";
  return [
    server,
    ...(runsInStub ? [stub("Python stub of the language model", "before")] : []),
    ...(leader && model.engine.row.vision !== undefined
      ? [stub("Python stub of the visual engine", "anyTime")]
      : []),
  ];
}

function visualTerms(model: ModelSpec, vision: VisionTower, maxBatchSize: number): readonly SizedTerm[] {
  const { visionGiB } = engineBytesGiB(model.engine);
  const run = VISUAL_RUNS[vision.modelType];
  const tokens = run.tokens ?? vision.tokensPerImage;
  const { width } = run;
  const activationGiB = (ACTIVATION_FACTOR * maxBatchSize * tokens * width * 2) / GIB;
  return [
    {
      tenant: model.serving.name,
      what: "visionEngine",
      gib: visionGiB,
      arithmetic: `${grouped(vision.parameters)} parameters × 2 bytes, on rank 0 only`,
      uncertaintyGiB: visionGiB * WEIGHTS_ERROR,
      source: "https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/docs/multimodal.md",
      when: "anyTime",
    },
    {
      tenant: model.serving.name,
      what: "visionActivations",
      gib: activationGiB,
      arithmetic: `${ACTIVATION_FACTOR} × ${maxBatchSize} runs × ${grouped(tokens)} patches × ${grouped(width)} × 2 bytes`,
      uncertaintyGiB: activationGiB * VISUAL_ACTIVATION_ERROR,
      source: "inferred: the language models' factor on the tower's own shape",
      when: "anyTime",
    },
  ];
}
