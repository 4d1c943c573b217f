/**
 * Memory of one process group on a GPU, term by term. `test/infra/plan/fit/memory-fit.test.ts` compares the fitted coefficients
 * with the measurements. The memory guide is https://nvidia.github.io/TensorRT-LLM/reference/memory.html
 */

import { counted } from "../../problems.ts";
import { textRow, visionRow } from "../catalogue/encoders.ts";
import { compareVersions } from "../catalogue/releases.ts";
import { visionTypeOf } from "../catalogue/vision-types.ts";
import { DEFAULT_MAX_NUM_TOKENS } from "../engine/build-steps.ts";
import { engineBytesGiB, visualNumbers } from "../engine/engine-size.ts";

import type { EncodersSpec, EngineSpec, ModelSpec, ServingSpec } from "../spec.ts";
import { GIB, grouped, round3 } from "../units.ts";

export interface MemoryTerm {
  /** Name of the model or encoder in the stack. */
  readonly tenant: string;
  readonly what:
    | "weights"
    | "visionEncoder"
    | "visionActivations"
    | "activations"
    | "kvCache"
    | "crossKvCache"
    | "memoryPool"
    | "cudaContext";
  /** `before` TensorRT-LLM measures the free memory for its KV `cache`, or at `anyTime` by another process or model. */
  readonly when: "before" | "anyTime" | "cache";
  readonly gib: number;
  /** `6,738,415,616 parameters × 2 bytes ÷ 1 GPU` */
  readonly arithmetic: string;
  /** How far the true number may be from `gib`, either way. */
  readonly uncertaintyGiB: number;
}

type Term = Omit<MemoryTerm, "tenant">;

/** A term, rounded before terms are added, so that the sum is that of the shown numbers. */
function term(
  what: Term["what"],
  when: Term["when"],
  gib: number,
  errorShare: number,
  arithmetic: string,
): Term {
  return { what, when, gib: round3(gib), arithmetic, uncertaintyGiB: round3(gib * errorShare) };
}

/** One process group on a GPU: a rank of a language model, or the encoders. */
export interface GpuTenant {
  /** Name of the model in the stack, or `encoders`. */
  readonly name: string;
  /** null for the encoders. */
  readonly model: ModelSpec | null;
  /** Rank 0 runs Triton's frontend and the visual engine; the others only their part of the language model. */
  readonly leader: boolean;
  readonly terms: readonly MemoryTerm[];
  /** `maxTokensInPagedKvCache` as memory of one rank; null if the stack sets none, and for encoders. */
  readonly cacheCeilingGiB: number | null;
}

export function rankTenant(model: ModelSpec, leader: boolean): GpuTenant {
  const { engine, serving } = model;
  const visual = visualNumbers(engine.row, engine.limits);
  const cache = kvCache(model, visual?.maxEncoderInputTokens ?? 0);
  // The PyTorch backend loads the visual half in its own process, on every rank.
  const hasVisualEngine = serving.runtime === "engine";
  const terms = [
    weights(model),
    ...buffers(engine),
    ...cache.terms,
    memoryPool("before", leader && hasVisualEngine ? visual?.cudaMemoryPoolBytes : undefined),
    ...contexts(model),
    ...(visual !== null && (leader || !hasVisualEngine)
      ? visualTerms(engine, hasVisualEngine, visual.visionMaxBatchSize)
      : []),
  ].map((bare) => ({ ...bare, tenant: serving.name }));
  const cacheCeilingGiB = cache.ceilingGiB === null ? null : round3(cache.ceilingGiB);
  return { name: serving.name, model, leader, terms, cacheCeilingGiB };
}

/** Engines hold little but weights: 15,320 MiB loaded for 15,317 MiB of weights (github.com/michaelnny/llama3_inference, README). */
const ENGINE_ERROR_SHARE = 0.02;

function weights({ engine, serving }: ModelSpec): Term {
  const { tensorParallel, pipelineParallel, quantization, dtype, row } = engine;
  const { llmPerRankGiB, llmGiB, layersGiB } = engineBytesGiB(engine, serving.runtime);
  const format = quantization === "none" ? dtype : quantization;
  const ranks = tensorParallel * pipelineParallel;
  const share =
    ranks === 1
      ? `${llmGiB.toFixed(2)} GiB`
      : `${layersGiB.toFixed(2)} GiB of layers ÷ ${ranks} GPUs + ${(llmPerRankGiB - layersGiB / ranks).toFixed(2)} GiB of embedding and output head`;
  const parameters = grouped(row.architecture.parameters);
  const arithmetic = `${parameters} parameters in ${format}: ${share}`;
  return term("weights", "before", llmPerRankGiB, ENGINE_ERROR_SHARE, arithmetic);
}

/** Tokens that one step of an engine can hold. */
export function maxTokensPerStep({ limits, release }: EngineSpec): number {
  if (limits.maxNumTokens !== undefined) return limits.maxNumTokens;
  const longestPrompts = limits.maxBatchSize * limits.maxBeamWidth * limits.maxInputTokens;
  return compareVersions(release.tensorRtLlm, "0.11") >= 0 ? DEFAULT_MAX_NUM_TOKENS : longestPrompts;
}

interface StepShape {
  readonly tokens: number;
  readonly hiddenSize: number;
  readonly sequences: number;
  readonly vocabularySize: number;
}

/**
 * Activations: `18 × tokens of a step × hidden size × 2 bytes`, the logits of a step, and 32 MiB of workspace.
 * "Activation size will be close to max number of input tokens × some constant factor" (the memory guide); the factor fits
 * - Llama-3-8B bf16, 12,288 tokens, batch 64: 1,811,942,912 bytes (github.com/michaelnny/llama3_inference, README);
 * - Llama-2-7b fp8, 8,192 tokens: 1,134 MiB (the memory guide);
 * - Qwen2.5-0.5B int8, 8,192 tokens, batch 2,048: 773.51 MiB, and 512 tokens, batch 1: 43.26 MiB
 *   (https://github.com/NVIDIA/TensorRT-LLM/issues/1188).
 * The rule is 3 to 14 % above these. It does not divide by ranks: tensor parallelism shrinks only some of the tensors. For visual
 * engines and encoders nothing is published, and the factor is inferred.
 */
const ACTIVATION_FACTOR = 18;
const WORKSPACE_BYTES = 32 * 2 ** 20;
const INFERRED_ERROR_SHARE = 0.5;

export function activationBytes({ tokens, hiddenSize, sequences, vocabularySize }: StepShape): number {
  const layers = ACTIVATION_FACTOR * tokens * hiddenSize * 2;
  return layers + sequences * vocabularySize * 2 + WORKSPACE_BYTES;
}

/**
 * Runtime buffers and decoder: bytes for each element of `batch × beams × vocabulary`.
 * - Llama-2-7b: 43.29 + 180.30 MiB (the memory guide; 28.6 bytes if its batch is the then default of 256);
 * - Qwen2.5-0.5B, batch 2,048, vocabulary 151,936: 2.66 + 5.76 GiB, 29.1 bytes (issue 1188);
 * - Llama-2-7b, batch 4,096, 0.12: 1.14 + 4.35 GiB, 45 bytes (trtllm-bench's README of that time).
 */
const DECODER_BYTES = 32;

export function decoderBytes({
  sequences,
  vocabularySize,
}: Pick<StepShape, "sequences" | "vocabularySize">): number {
  return sequences * vocabularySize * DECODER_BYTES;
}

/**
 * Workspace of the plugin for a mixture of experts: inputs and outputs of each token's experts, and three times their inner width,
 * which tensor parallelism divides; getWorkspaceBufferSizes of cpp/tensorrt_llm/kernels/mixtureOfExperts/moe_kernels.cu of
 * NVIDIA/TensorRT-LLM at v0.10.0. TensorRT may lay it over other activations: together they are an upper bound.
 */
function expertBuffers({ row, tensorParallel }: EngineSpec, tokens: number): readonly Term[] {
  const { experts, hiddenSize } = row.architecture;
  if (experts === undefined) return [];
  const { perToken, width } = experts;
  const bytes = tokens * perToken * (2 * hiddenSize + (3 * width) / tensorParallel) * 2;
  const inner = `(2 × ${grouped(hiddenSize)} + 3 × ${grouped(width)} ÷ ${tensorParallel})`;
  return [
    term(
      "activations",
      "before",
      bytes / GIB,
      INFERRED_ERROR_SHARE,
      `experts: ${grouped(tokens)} tokens × ${counted(perToken, "expert")} × ${inner} × 2 bytes`,
    ),
  ];
}

/** Activations, and the buffers of runtime and decoder. */
function buffers(engine: EngineSpec): readonly Term[] {
  const { hiddenSize, vocabularySize } = engine.row.architecture;
  const tokens = maxTokensPerStep(engine);
  const sequences = engine.limits.maxBatchSize * engine.limits.maxBeamWidth;
  const shape = { tokens, hiddenSize, sequences, vocabularySize };
  const logits = `${sequences === 1 ? "1 sequence" : `${grouped(sequences)} sequences`} × ${grouped(vocabularySize)} logits`;
  const layers = `${ACTIVATION_FACTOR} × ${grouped(tokens)} tokens × ${grouped(hiddenSize)} × 2 bytes`;
  const decoder = `decoder and runtime buffers: ${logits} × ${DECODER_BYTES} bytes`;
  return [
    ...expertBuffers(engine, tokens),
    term(
      "activations",
      "before",
      activationBytes(shape) / GIB,
      0.25,
      `${layers} + ${logits} × 2 bytes + 32 MiB`,
    ),
    term("activations", "before", decoderBytes(shape) / GIB, 0.5, decoder),
  ];
}

/**
 * Part of the KV cache that is kept for cross attention (`cross_kv_cache_fraction`), if a model has it: the value of the
 * multimodal guide and of TensorRT-LLM's own `run.py`.
 * https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/docs/multimodal.md
 */
const CROSS_KV_CACHE_FRACTION = 0.5;

/** {@link CROSS_KV_CACHE_FRACTION}, or the stack file's valid value; a check refuses others. */
export function crossKvCacheFraction({ parameters }: Pick<ServingSpec, "parameters">): number {
  const own = Number(parameters?.cross_kv_cache_fraction);
  return own > 0 && own < 1 ? own : CROSS_KV_CACHE_FRACTION;
}

/**
 * Tokens of one block of the paged cache. Releases differ (64 since 0.10, 32 in 0.20); the larger one rounds a sequence up
 * further. https://nvidia.github.io/TensorRT-LLM/release-notes.html
 */
const TOKENS_PER_BLOCK = 64;

/** Keys and values are kept in 16 bits; an fp8 cache would take half, and no recipe asks for one. */
const BYTES_PER_VALUE = 2;

/**
 * KV cache for `concurrentRequests` sequences of the greatest length, each beam of its own, on the rank with the largest share
 * of layers and heads. With cross attention the cache is a pool of fixed shares, and may be larger than its two uses together.
 *
 * @param encoderTokens positions that a request's images take in cross attention; 0 without.
 */
function kvCache(
  { engine, serving }: ModelSpec,
  encoderTokens: number,
): { readonly terms: readonly Term[]; readonly ceilingGiB: number | null } {
  const { limits, row, tensorParallel, pipelineParallel } = engine;
  const { layers, kvLayers = layers, kvHeads, headDimension } = row.architecture;
  const { concurrentRequests: requests, maxAttentionWindowTokens, maxTokensInPagedKvCache: most } = serving;
  // Fewer key-value heads than ranks are duplicated.
  const heads = Math.max(1, Math.ceil(kvHeads / tensorParallel));
  const bytesPerToken = (count: number) =>
    2 * Math.ceil(count / pipelineParallel) * heads * headDimension * BYTES_PER_VALUE;
  const sequence = Math.min(
    limits.maxInputTokens + limits.maxOutputTokens,
    maxAttentionWindowTokens ?? Infinity,
  );
  const inBlocks = Math.ceil(sequence / TOKENS_PER_BLOCK) * TOKENS_PER_BLOCK;
  const wanted = requests * limits.maxBeamWidth * inBlocks;
  const tokens = Math.min(wanted, most ?? Infinity);
  const perToken = bytesPerToken(kvLayers);
  const selfGiB = (tokens * perToken) / GIB;
  const ceilingGiB = most === undefined ? null : (most * perToken) / GIB;
  const beams = limits.maxBeamWidth > 1 ? ` × ${limits.maxBeamWidth} beams` : "";
  const uses =
    tokens < wanted
      ? `maxTokensInPagedKvCache ${grouped(tokens)} tokens`
      : `${counted(requests, "request")}${beams} × ${grouped(inBlocks)} tokens`;
  const selfUse = `${uses} × ${grouped(perToken)} bytes`;
  if (encoderTokens === 0) return { terms: [term("kvCache", "cache", selfGiB, 0, selfUse)], ceilingGiB };

  const crossShare = crossKvCacheFraction(serving);
  const selfShare = 1 - crossShare;
  const crossPerToken = bytesPerToken(layers - kvLayers);
  const crossGiB = (requests * encoderTokens * crossPerToken) / GIB;
  const crossUse = `${counted(requests, "request")} × ${grouped(encoderTokens)} encoder positions × ${grouped(crossPerToken)} bytes`;
  const poolGiB = Math.max(selfGiB / selfShare, crossGiB / crossShare);
  const part = (what: Term["what"], use: string, share: number) =>
    term(what, "cache", poolGiB * share, 0, `${use}; ${share} of a pool that holds both uses`);
  return {
    terms: [part("kvCache", selfUse, selfShare), part("crossKvCache", crossUse, crossShare)],
    ceilingGiB: ceilingGiB === null ? null : ceilingGiB / selfShare,
  };
}

/**
 * Triton's own pool on a GPU: 67,108,864 bytes in its log if `--cuda-memory-pool-byte-size` says nothing.
 * https://github.com/NVIDIA/TensorRT-LLM/issues/2233
 */
function memoryPool(when: Term["when"], bytes?: number): Term {
  const arithmetic =
    bytes === undefined
      ? "Triton's default of 67,108,864 bytes"
      : `--multimodal_gpu0_cuda_mem_pool_bytes ${grouped(bytes)}`;
  return term("memoryPool", when, (bytes ?? 64 * 2 ** 20) / GIB, 0, arithmetic);
}

/**
 * CUDA context, kernels and libraries of a process that runs an engine: total less available less the engine's own parts is
 * 0.77 GiB in the memory guide's log.
 */
const SERVER_CONTEXT_GIB = 0.75;

/**
 * A process without TensorRT-LLM's kernels, such as a Python stub: "each trtllm seems to allocate 500MB", up to 590 MiB in
 * nvidia-smi (https://github.com/NVIDIA/TensorRT-LLM/issues/3058).
 */
const STUB_CONTEXT_GIB = 0.55;

/** CUDA contexts of one rank; a Python or PyTorch runtime is a process beside the server on every rank. */
function contexts({ serving: { flavour, tritonBackend } }: ModelSpec): readonly Term[] {
  const arithmetic = "tritonserver: CUDA context, kernels and libraries";
  const server = term("cudaContext", "before", SERVER_CONTEXT_GIB, 0.25 / SERVER_CONTEXT_GIB, arithmetic);
  const runsInStub = flavour === "gpt" || flavour === "llmapi" || tritonBackend === "python";
  return runsInStub ? [server, stubContext("before", stubOf("language model"))] : [server];
}

function stubContext(when: Term["when"], arithmetic: string): Term {
  return term("cudaContext", when, STUB_CONTEXT_GIB, 0.2 / STUB_CONTEXT_GIB, arithmetic);
}

function stubOf(what: string): string {
  return `Python stub of the ${what}: a process of its own with a CUDA context`;
}

/** https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/docs/multimodal.md */
function visualTerms(engine: EngineSpec, hasVisualEngine: boolean, maxBatchSize: number): readonly Term[] {
  const { vision } = engine.row;
  const type = visionTypeOf(engine.row);
  if (vision === undefined || type === undefined) return [];
  // The PyTorch backend computes the pictures of the prompts that a step reads.
  const inStep = Math.ceil(maxTokensPerStep(engine) / vision.tokensPerImage);
  const runs = hasVisualEngine ? maxBatchSize : Math.min(maxBatchSize, inStep);
  const { width, patches, patchesPerToken = 1 } = type;
  const inRun = patches ?? vision.tokensPerImage * patchesPerToken;
  const activationsGiB = (ACTIVATION_FACTOR * runs * inRun * width * 2) / GIB;
  return [
    ...(hasVisualEngine ? [stubContext("anyTime", stubOf("visual engine"))] : []),
    term(
      "visionEncoder",
      hasVisualEngine ? "anyTime" : "before",
      engineBytesGiB(engine).visionGiB,
      ENGINE_ERROR_SHARE,
      `${grouped(vision.parameters)} parameters × 2 bytes, on ${hasVisualEngine ? "rank 0 only" : "each rank"}`,
    ),
    term(
      "visionActivations",
      "anyTime",
      activationsGiB,
      INFERRED_ERROR_SHARE,
      `${ACTIVATION_FACTOR} × ${counted(runs, "run")} × ${grouped(inRun)} patches × ${grouped(width)} × 2 bytes`,
    ),
  ];
}

/**
 * Bytes of an encoder's weight and of its activation, and the error of the weights: an int8 plan keeps embeddings and layer
 * normalisation in 16 bits, and computes some layers so.
 */
const ENCODER_PRECISIONS = {
  fp32: { weightBytes: 4, activationBytes: 4, errorShare: 0.05 },
  fp16: { weightBytes: 2, activationBytes: 2, errorShare: 0.05 },
  int8: { weightBytes: 1, activationBytes: 2, errorShare: 0.5 },
} as const;

/** `vision_encoder`, `text_encoder` and `clip_text` in one Triton. */
export function encodersTenant(spec: EncodersSpec): GpuTenant {
  const name = "encoders";
  const { vision, text: clipText } = visionRow(spec);
  const { text } = textRow(spec);
  const { weightBytes, activationBytes: bytes, errorShare } = ENCODER_PRECISIONS[spec.precision];
  const towers = [
    { tower: "vision_encoder", tokens: vision.tokens, row: vision },
    { tower: "text_encoder", tokens: text.maxTokens, row: text },
    { tower: "clip_text", tokens: clipText.maxTokens, row: clipText },
  ];
  const terms = [
    ...towers.flatMap(({ tower, tokens, row: { parameters, width } }) => [
      term(
        "weights",
        "anyTime",
        (parameters * weightBytes) / GIB,
        errorShare,
        `${tower}: ${grouped(parameters)} parameters × ${counted(weightBytes, "byte")} (${spec.precision})`,
      ),
      term(
        "activations",
        "anyTime",
        (ACTIVATION_FACTOR * spec.maxBatchSize * tokens * width * bytes) / GIB,
        INFERRED_ERROR_SHARE,
        `${tower}: ${ACTIVATION_FACTOR} × batch ${spec.maxBatchSize} × ${tokens} tokens × ${width} × ${bytes} bytes`,
      ),
    ]),
    memoryPool("anyTime"),
    stubContext("anyTime", "tritonserver: CUDA context and libraries"),
  ].map((bare) => ({ ...bare, tenant: name }));
  return { name, model: null, leader: true, terms, cacheCeilingGiB: null };
}
