/**
 * Memory of one process group on a GPU, term by term. `test/infra/plan/fit/memory-fit.test.ts` compares the fitted coefficients
 * with the measurements.
 */

import { textEncoders, visionEncoders } from "../catalogue/encoders.ts";
import { compareVersions } from "../catalogue/releases.ts";
import { visionTypes } from "../catalogue/vision-types.ts";
import { DEFAULT_MAX_NUM_TOKENS } from "../engine/build-steps.ts";
import { engineBytesGiB, visualNumbers } from "../engine/engine-size.ts";
import type { EncodersSpec, EngineSpec, ModelSpec } from "../spec.ts";
import { GIB, grouped, round3 } from "../units.ts";
import { kvCacheTerms } from "./kv-cache.ts";
import type { GpuTenant } from "./placement.ts";
import type { SizedTerm } from "./types.ts";

type Term = Omit<SizedTerm, "tenant">;

/** Common facts of the terms of a kind; the error is a share of the term or a number of GiB. */
type TermRule = Pick<Term, "what" | "source" | "when"> &
  ({ readonly errorShare: number } | { readonly errorGiB: number });

const MEMORY_GUIDE = "https://nvidia.github.io/TensorRT-LLM/reference/memory.html";

const RULES = {
  /** Engines hold little but weights: 15,320 MiB loaded for 15,317 MiB of weights (michaelnny/llama3_inference, README). */
  weights: {
    what: "weights",
    errorShare: 0.02,
    source: "https://github.com/michaelnny/llama3_inference",
    when: "before",
  },
  /** {@link ACTIVATION_FACTOR} */
  activations: {
    what: "activations",
    errorShare: 0.25,
    source: `${MEMORY_GUIDE}; factor fitted to published logs`,
    when: "before",
  },
  /** {@link DECODER_BYTES} */
  decoder: {
    what: "activations",
    errorShare: 0.5,
    source: `${MEMORY_GUIDE}; bytes fitted to published logs`,
    when: "before",
  },
  memoryPool: {
    what: "memoryPool",
    errorGiB: 0,
    source: "https://github.com/NVIDIA/TensorRT-LLM/issues/2233",
    when: "before",
  },
  serverContext: { what: "cudaContext", errorGiB: 0.25, source: MEMORY_GUIDE, when: "before" },
  stubContext: {
    what: "cudaContext",
    errorGiB: 0.2,
    source: "https://github.com/NVIDIA/TensorRT-LLM/issues/3058",
    when: "before",
  },
  visionEngine: {
    what: "visionEngine",
    errorShare: 0.02,
    source: "https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/docs/multimodal.md",
    when: "anyTime",
  },
  visionActivations: {
    what: "visionActivations",
    errorShare: 0.5,
    source: "inferred: the language models' factor on the tower's own shape",
    when: "anyTime",
  },
  encoderActivations: {
    what: "activations",
    errorShare: 0.5,
    source: "inferred: the language models' factor on the encoder's own shape",
    when: "anyTime",
  },
} as const satisfies Record<string, TermRule>;

/** A term, rounded before terms are added, so that the sum is that of the shown numbers. */
function term(rule: TermRule, gib: number, arithmetic: string): Term {
  const { what, source, when } = rule;
  const uncertaintyGiB = "errorGiB" in rule ? rule.errorGiB : gib * rule.errorShare;
  return { what, gib: round3(gib), arithmetic, uncertaintyGiB: round3(uncertaintyGiB), source, when };
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

/**
 * Runtime buffers and decoder: bytes for each element of `batch × beams × vocabulary`.
 * - Llama-2-7b: 43.29 + 180.30 MiB (the memory guide; 28.6 bytes if its batch is the then default of 256);
 * - Qwen2.5-0.5B, batch 2,048, vocabulary 151,936: 2.66 + 5.76 GiB, 29.1 bytes (issue 1188);
 * - Llama-2-7b, batch 4,096, 0.12: 1.14 + 4.35 GiB, 45 bytes (trtllm-bench's README of that time).
 */
const DECODER_BYTES = 32;

/**
 * CUDA context, kernels and libraries of a process that runs an engine: total less available less the engine's own parts
 * is 0.77 GiB in the memory guide's log. A process without TensorRT-LLM's kernels, such as a Python stub: "each trtllm seems to
 * allocate 500MB", up to 590 MiB in nvidia-smi.
 */
const SERVER_CONTEXT_GIB = 0.75;
const STUB_CONTEXT_GIB = 0.55;

export interface TenantNeed {
  readonly terms: readonly SizedTerm[];
  /** `maxTokensInPagedKvCache` as memory of one rank; null where the stack sets none, and for encoders. */
  readonly cacheCeilingGiB: number | null;
}

export function tenantNeed(tenant: GpuTenant): TenantNeed {
  const named = (terms: readonly Term[]) => terms.map((bare) => ({ ...bare, tenant: tenant.name }));
  if (tenant.kind === "encoders") {
    return { terms: named(encoderTerms(tenant.encoders)), cacheCeilingGiB: null };
  }
  const { model, leader } = tenant;
  const visual = visualNumbers(model.engine.row, model.engine.limits);
  const cache = kvCacheTerms(model, visual?.maxEncoderInputTokens ?? 0);
  return {
    terms: named([
      weights(model),
      ...buffers(model.engine),
      ...cache.terms,
      memoryPool(leader ? visual?.cudaMemoryPoolBytes : undefined),
      ...contexts(model),
      // Rank 0 has the visual engine and its Python stub.
      ...(leader && visual !== null ? visualTerms(model.engine, visual.visionMaxBatchSize) : []),
    ]),
    cacheCeilingGiB: cache.ceilingGiB,
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
  const parameters = grouped(row.architecture.parameters);
  return term(RULES.weights, llmPerRankGiB, `${parameters} parameters in ${format}: ${share}`);
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
  const shape = { tokens, hiddenSize, sequences, vocabularySize };
  const logits = `${grouped(sequences)} sequences × ${grouped(vocabularySize)} logits`;
  return [
    term(
      RULES.activations,
      activationBytes(shape) / GIB,
      `${ACTIVATION_FACTOR} × ${grouped(tokens)} tokens × ${grouped(hiddenSize)} × 2 bytes + ${logits} × 2 bytes + 32 MiB`,
    ),
    term(
      RULES.decoder,
      decoderBytes(shape) / GIB,
      `decoder and runtime buffers: ${logits} × ${DECODER_BYTES} bytes`,
    ),
  ];
}

/** CUDA contexts of one rank; a Python or PyTorch runtime is a process beside the server on every rank. */
function contexts({ serving: { flavour, tritonBackend } }: ModelSpec): readonly Term[] {
  const server = term(
    RULES.serverContext,
    SERVER_CONTEXT_GIB,
    "tritonserver: CUDA context, kernels and libraries",
  );
  const runsInStub = flavour === "gpt" || flavour === "llmapi" || tritonBackend === "python";
  return runsInStub ? [server, stub("language model", "before")] : [server];
}

function stub(of: string, when: Term["when"]): Term {
  const arithmetic = `Python stub of the ${of}: a process of its own with a CUDA context`;
  return term({ ...RULES.stubContext, when }, STUB_CONTEXT_GIB, arithmetic);
}

/** Triton's own pool on a GPU: 67,108,864 bytes in its log where `--cuda-memory-pool-byte-size` says nothing. */
function memoryPool(bytes?: number): Term {
  const arithmetic =
    bytes === undefined
      ? "Triton's default of 67,108,864 bytes"
      : `--multimodal_gpu0_cuda_mem_pool_bytes ${grouped(bytes)}`;
  return term(RULES.memoryPool, (bytes ?? 64 * 2 ** 20) / GIB, arithmetic);
}

function visualTerms(engine: EngineSpec, maxBatchSize: number): readonly Term[] {
  const { vision } = engine.row;
  if (vision === undefined) return [];
  const { width, patches } = visionTypes[vision.modelType];
  const tokens = patches ?? vision.tokensPerImage;
  return [
    stub("visual engine", "anyTime"),
    term(
      RULES.visionEngine,
      engineBytesGiB(engine).visionGiB,
      `${grouped(vision.parameters)} parameters × 2 bytes, on rank 0 only`,
    ),
    term(
      RULES.visionActivations,
      (ACTIVATION_FACTOR * maxBatchSize * tokens * width * 2) / GIB,
      `${ACTIVATION_FACTOR} × ${maxBatchSize} runs × ${grouped(tokens)} patches × ${grouped(width)} × 2 bytes`,
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

/** Terms of `vision_encoder`, `text_encoder` and `clip_text` in one Triton. */
function encoderTerms(spec: EncodersSpec): readonly Term[] {
  const { vision, text: clipText, source } = visionEncoders[spec.vision];
  const { text } = textEncoders[spec.text];
  const { weightBytes, activationBytes: bytes, errorShare } = ENCODER_PRECISIONS[spec.precision];
  const towers = [
    { name: "vision_encoder", tokens: vision.tokens, row: vision },
    { name: "text_encoder", tokens: text.maxTokens, row: text },
    { name: "clip_text", tokens: clipText.maxTokens, row: clipText },
  ];
  const when = "anyTime";
  return [
    ...towers.flatMap(({ name, tokens, row: { parameters, width } }) => [
      term(
        { what: "weights", errorShare, source: source.repository, when },
        (parameters * weightBytes) / GIB,
        `${name}: ${grouped(parameters)} parameters × ${weightBytes} bytes (${spec.precision})`,
      ),
      term(
        RULES.encoderActivations,
        (ACTIVATION_FACTOR * spec.maxBatchSize * tokens * width * bytes) / GIB,
        `${name}: ${ACTIVATION_FACTOR} × batch ${spec.maxBatchSize} × ${tokens} tokens × ${width} × ${bytes} bytes`,
      ),
    ]),
    { ...memoryPool(), when },
    term({ ...RULES.stubContext, when }, STUB_CONTEXT_GIB, "tritonserver: CUDA context and libraries"),
  ];
}
