/**
 * What one process group keeps on a GPU, term by term. Every rule names its source; where the coefficients were fitted,
 * the measurements are listed, and `test/infra/plan/fit/memory-fit.test.ts` compares them.
 */
import type { VisionTower } from "../catalogue/types.ts";
import { DEFAULT_MAX_NUM_TOKENS } from "../engine/build-steps.ts";
import { engineBytesGiB } from "../engine/engine-size.ts";
import { compareVersions } from "../engine/release.ts";
import { visionTypes, visualNumbers } from "../engine/vision-types.ts";
import type { EngineSpec, ModelSpec } from "../spec.ts";
import { GIB, grouped, round3 } from "../units.ts";
import { encoderTerms } from "./encoder-terms.ts";
import { kvCacheTerms } from "./kv-cache.ts";
import type { GpuTenant } from "./placement.ts";
import type { SizedTerm } from "./types.ts";

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

/** No measurement of visual engines is published; the factor is the language models'. */
const VISUAL_ACTIVATION_ERROR = 0.5;

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
 * is 0.77 GiB in the memory guide's log. A Python stub: "each trtllm seems to allocate 500MB", up to 590 MiB in nvidia-smi.
 */
const SERVER_CONTEXT_GIB = 0.75;
const SERVER_CONTEXT_ERROR_GIB = 0.25;
const STUB_CONTEXT_GIB = 0.55;
const STUB_CONTEXT_ERROR_GIB = 0.2;

/** Triton's own pool on a GPU where `--cuda-memory-pool-byte-size` says nothing: 67,108,864 bytes in its log. */
const DEFAULT_POOL_BYTES = 64 * 2 ** 20;

/** What a tenant needs; the terms are rounded before they are added, so that the sum is that of the shown numbers. */
export interface TenantNeed {
  readonly terms: readonly SizedTerm[];
  /** `maxTokensInPagedKvCache` as memory of one rank; null where the stack sets none, and for encoders. */
  readonly cacheCeilingGiB: number | null;
}

export function tenantNeed(tenant: GpuTenant): TenantNeed {
  const { terms, cacheCeilingGiB } =
    tenant.kind === "rank"
      ? rankNeed(tenant.model, tenant.leader)
      : { terms: encoderTerms(tenant.encoders), cacheCeilingGiB: null };
  return {
    terms: terms.map(({ what, gib, arithmetic, uncertaintyGiB, source, when }) => ({
      tenant: tenant.name,
      what,
      gib: round3(gib),
      arithmetic,
      uncertaintyGiB: round3(uncertaintyGiB),
      source,
      when,
    })),
    cacheCeilingGiB,
  };
}

type Term = Omit<SizedTerm, "tenant">;

function rankNeed(
  model: ModelSpec,
  leader: boolean,
): { readonly terms: readonly Term[]; readonly cacheCeilingGiB: number | null } {
  const { row, limits } = model.engine;
  const visual = visualNumbers(row, limits);
  const cache = kvCacheTerms(model, visual?.maxEncoderInputTokens ?? 0);
  return {
    cacheCeilingGiB: cache.ceilingGiB,
    terms: [
      weights(model),
      ...buffers(model.engine),
      ...cache.terms,
      memoryPool(leader ? visual?.cudaMemoryPoolBytes : undefined),
      ...contexts(model, leader),
      ...(leader && row.vision !== undefined && visual !== null
        ? visualTerms(model.engine, row.vision, visual.visionMaxBatchSize)
        : []),
    ],
  };
}

function weights({ engine, serving }: ModelSpec): Term {
  const { tensorParallel, pipelineParallel, quantization, dtype, row } = engine;
  const { llmPerRankGiB, llmGiB, layersGiB } = engineBytesGiB(engine, serving.runtime);
  const format = quantization === "none" ? dtype : quantization;
  const ranks = tensorParallel * pipelineParallel;
  const share =
    ranks === 1
      ? `${llmGiB.toFixed(2)} GiB`
      : `${layersGiB.toFixed(2)} GiB of layers ÷ ${ranks} GPUs + ${(llmPerRankGiB - layersGiB / ranks).toFixed(2)} GiB of embedding and output head`;
  return {
    what: "weights",
    gib: llmPerRankGiB,
    arithmetic: `${grouped(row.architecture.parameters)} parameters in ${format}: ${share}`,
    uncertaintyGiB: llmPerRankGiB * WEIGHTS_ERROR,
    source: "https://github.com/michaelnny/llama3_inference",
    when: "before",
  };
}

/** Tokens that one step of an engine can hold. */
export function maxTokensPerStep({ limits, release }: EngineSpec): number {
  if (limits.maxNumTokens !== undefined) return limits.maxNumTokens;
  const longestPrompts = limits.maxBatchSize * limits.maxBeamWidth * limits.maxInputTokens;
  return compareVersions(release.tensorRtLlm, "0.11") >= 0 ? DEFAULT_MAX_NUM_TOKENS : longestPrompts;
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

/** Activations, and the buffers of runtime and decoder. */
function buffers(engine: EngineSpec): readonly Term[] {
  const { hiddenSize, vocabularySize } = engine.row.architecture;
  const tokens = maxTokensPerStep(engine);
  const sequences = engine.limits.maxBatchSize * engine.limits.maxBeamWidth;
  const logits = `${grouped(sequences)} sequences × ${grouped(vocabularySize)} logits`;
  const activationGiB = activationBytes({ tokens, hiddenSize, sequences, vocabularySize }) / GIB;
  const decoderGiB = decoderBytes({ sequences, vocabularySize }) / GIB;
  return [
    {
      what: "activations",
      gib: activationGiB,
      arithmetic: `${ACTIVATION_FACTOR} × ${grouped(tokens)} tokens × ${grouped(hiddenSize)} × 2 bytes + ${logits} × 2 bytes + 32 MiB`,
      uncertaintyGiB: activationGiB * ACTIVATION_ERROR,
      source: `${MEMORY_GUIDE}; factor fitted to published logs`,
      when: "before",
    },
    {
      what: "activations",
      gib: decoderGiB,
      arithmetic: `decoder and runtime buffers: ${logits} × ${DECODER_BYTES} bytes`,
      uncertaintyGiB: decoderGiB * DECODER_ERROR,
      source: `${MEMORY_GUIDE}; bytes fitted to published logs`,
      when: "before",
    },
  ];
}

function memoryPool(bytes: number | undefined): Term {
  return {
    what: "memoryPool",
    gib: (bytes ?? DEFAULT_POOL_BYTES) / GIB,
    arithmetic:
      bytes === undefined
        ? "Triton's default of 67,108,864 bytes"
        : `--multimodal_gpu0_cuda_mem_pool_bytes ${grouped(bytes)}`,
    uncertaintyGiB: 0,
    source: "https://github.com/NVIDIA/TensorRT-LLM/issues/2233",
    when: "before",
  };
}

/**
 * CUDA contexts of one rank: the server's own, and one for each Python stub that uses the GPU. The visual engine's stub is
 * there on rank 0 only; a Python or PyTorch runtime is a process beside the server on every rank.
 */
function contexts({ engine, serving }: ModelSpec, leader: boolean): readonly Term[] {
  const stub = (of: string, when: Term["when"]): Term => ({
    what: "cudaContext",
    gib: STUB_CONTEXT_GIB,
    arithmetic: `Python stub of the ${of}: a process of its own with a CUDA context`,
    uncertaintyGiB: STUB_CONTEXT_ERROR_GIB,
    source: "https://github.com/NVIDIA/TensorRT-LLM/issues/3058",
    when,
  });
  const { flavour, tritonBackend } = serving;
  const runsInStub = flavour === "gpt" || flavour === "llmapi" || tritonBackend === "python";
  return [
    {
      what: "cudaContext",
      gib: SERVER_CONTEXT_GIB,
      arithmetic: "tritonserver: CUDA context, kernels and libraries",
      uncertaintyGiB: SERVER_CONTEXT_ERROR_GIB,
      source: MEMORY_GUIDE,
      when: "before",
    },
    ...(runsInStub ? [stub("language model", "before")] : []),
    ...(leader && engine.row.vision !== undefined ? [stub("visual engine", "anyTime")] : []),
  ];
}

function visualTerms(engine: EngineSpec, vision: VisionTower, maxBatchSize: number): readonly Term[] {
  const { visionGiB } = engineBytesGiB(engine);
  const { width, patches } = visionTypes[vision.modelType];
  const tokens = patches ?? vision.tokensPerImage;
  const activationGiB = (ACTIVATION_FACTOR * maxBatchSize * tokens * width * 2) / GIB;
  return [
    {
      what: "visionEngine",
      gib: visionGiB,
      arithmetic: `${grouped(vision.parameters)} parameters × 2 bytes, on rank 0 only`,
      uncertaintyGiB: visionGiB * WEIGHTS_ERROR,
      source: "https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/docs/multimodal.md",
      when: "anyTime",
    },
    {
      what: "visionActivations",
      gib: activationGiB,
      arithmetic: `${ACTIVATION_FACTOR} × ${maxBatchSize} runs × ${grouped(tokens)} patches × ${grouped(width)} × 2 bytes`,
      uncertaintyGiB: activationGiB * VISUAL_ACTIVATION_ERROR,
      source: "inferred: the language models' factor on the tower's own shape",
      when: "anyTime",
    },
  ];
}
