/** One served model of a stack on GPUs, and models that a stack adds to the catalogue. */
import { z } from "zod";
import {
  DTYPES,
  FLAVOURS,
  GOLDEN_PICTURE_NAMES,
  QUANTIZATIONS,
  RECIPES,
  RUNTIMES,
  VISION_TYPES,
} from "../plan/catalogue/types.ts";
import { absolutePath, formattedText, formMessage, resourceName } from "./common.ts";

const tokens = z.int().min(1).max(1_048_576);

/** Largest requests that the engine accepts; what is absent comes from the model's row of the catalogue. */
const limits = z
  .strictObject({
    maxBatchSize: z.int().min(1).max(2048).optional(),
    maxInputTokens: tokens.optional(),
    maxOutputTokens: tokens.optional(),
    maxBeamWidth: z.int().min(1).max(64).optional(),
    maxImagesPerRequest: z.int().min(0).max(64).optional(),
    /** Tokens of all requests in one step; absent: the default of TensorRT-LLM's release. */
    maxNumTokens: tokens.optional(),
  })
  .prefault({});

const revision = formattedText(
  /^[0-9a-f]{40}$/,
  "must be a commit, 40 lower-case hexadecimal digits",
  "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
);

/** Where weights come from, instead of the catalogue's own source. Credentials are set once, under `hub`. */
const weights = z.discriminatedUnion("from", [
  z.strictObject({
    from: z.literal("hub"),
    repository: z.string().min(1).max(200).optional(),
    revision: revision.optional(),
  }),
  z.strictObject({
    from: z.literal("modelscope"),
    repository: z.string().min(1).max(200).optional(),
    /** Branch, tag or commit on ModelScope. */
    revision: z.string().min(1).max(100).default("master"),
  }),
  z.strictObject({
    from: z.literal("s3"),
    uri: formattedText(
      /^s3:\/\/[a-z0-9.-]{3,63}\/\S+$/,
      "must be s3://BUCKET/PREFIX",
      "s3://models/llama-2-7b",
    ),
    /** A word for the content of the prefix; engines are rebuilt when it changes. */
    revision: z.string().min(1).max(100),
  }),
  z.strictObject({
    from: z.literal("folder"),
    path: absolutePath("/data/llama-2-7b"),
    /** A word for the content of the folder; engines are rebuilt when it changes. */
    revision: z.string().min(1).max(100),
  }),
]);

/** How Triton serves the model; nothing here rebuilds an engine. */
const triton = z
  .strictObject({
    backend: z.enum(["tensorrtllm", "python"]).default("tensorrtllm"),
    /** Triton's batch; absent: the engine's. */
    maxBatchSize: z.int().min(1).max(2048).optional(),
    /** Copies of preprocessing and of postprocessing. */
    instanceCount: z.int().min(1).max(64).default(1),
    /** Requests that go through tensorrt_llm_bls at the same time; absent: `maxBatchSize`. */
    blsInstanceCount: z.int().min(1).max(2048).optional(),
    /** Answers token by token (the decoupled transaction policy); absent: where the repository can. */
    streaming: z.boolean().optional(),
    accumulateTokens: z.boolean().default(false),
    excludeInputInOutput: z.boolean().default(true),
    /** Absent: on for text models where the release has it on, off for models with images. Up to 25.04 it needs another engine. */
    kvCacheReuse: z.boolean().optional(),
    /** Reads long prompts in parts. Up to 25.04 it needs another engine. */
    chunkedContext: z.boolean().default(false),
    maxQueueDelayMicroseconds: z.int().min(0).max(10_000_000).default(0),
    maxQueueSize: z.int().min(0).max(100_000).default(0),
    batchingStrategy: z
      .enum(["inflight_fused_batching", "inflight_batching"])
      .default("inflight_fused_batching"),
    /** Absent: derived from what lands on the GPU. */
    kvCacheFreeGpuMemoryFraction: z.number().gt(0).lt(1).optional(),
    maxTokensInPagedKvCache: tokens.optional(),
    maxAttentionWindowTokens: tokens.optional(),
  })
  .prefault({});

export const gpuModel = z.strictObject({
  /** Name in the stack: endpoints, metrics and Kubernetes objects carry it. */
  name: resourceName,
  /** Row of the catalogue, or of `catalogue.models` of this file. */
  model: z.string().min(1).max(100),
  runtime: z.enum(RUNTIMES).default("engine"),
  /** Kind of model repository; absent: the first of the catalogue that can serve the model so on this release. */
  flavour: z.enum(FLAVOURS).optional(),
  dtype: z.enum(DTYPES).optional(),
  quantization: z.enum(QUANTIZATIONS).default("none"),
  tensorParallel: z.int().min(1).max(16).default(1),
  pipelineParallel: z.int().min(1).max(16).default(1),
  limits,
  weights: weights.optional(),
  triton,
  /** Requests that must be answered at the same time, each at full length: KV cache is planned for them. Absent: the batch. */
  concurrentRequests: z.int().min(1).max(2048).optional(),
  replicas: z.int().min(1).max(64).default(1),
  /** Pool that serves it; absent: the only pool with GPUs. */
  pool: resourceName.optional(),
  /** Pool that builds its engine; absent: the pool that serves. */
  buildPool: resourceName.optional(),
  /** GPU numbers of the host (`docker`). */
  gpuIndices: z.array(z.int().min(0).max(15)).min(1).max(16).optional(),
  /** A reason here accepts the verdict "does not fit". */
  memoryFit: z.strictObject({ accept: z.string().min(10).max(200) }).optional(),
});

/** A row that a stack adds to the catalogue: the same shape as infra/plan/catalogue/types.ts, and the same meaning. */
const count = z.int().min(1);
export const customModel = z.strictObject({
  title: z.string().min(1).max(100),
  source: z.strictObject({
    repository: z.string().min(1).max(200),
    revision: revision.nullable().default(null),
    gated: z.boolean().default(false),
    license: z.string().min(1).max(100),
    modelScope: z.string().min(1).max(200).optional(),
    include: z.array(z.string().min(1)).min(1).default(["*.safetensors", "*.json", "tokenizer*"]),
    exclude: z.array(z.string().min(1)).optional(),
    downloadGB: z.number().positive(),
    storedDtype: z.enum(["float32", "float16", "bfloat16"]).default("float16"),
  }),
  recipe: z.enum(RECIPES),
  converterModelType: z.string().min(1).max(40).optional(),
  architecture: z.strictObject({
    parameters: count,
    embeddingParameters: count,
    layers: count,
    kvLayers: count.optional(),
    heads: count,
    kvHeads: count,
    headDimension: count,
    hiddenSize: count,
    vocabularySize: count,
  }),
  vision: z
    .strictObject({
      modelType: z.enum(VISION_TYPES),
      parameters: count,
      attention: z.enum(["prompt", "cross"]),
      tokensPerImage: count,
      tokensPerRequest: count.optional(),
      runsPerImage: count.default(1),
      maxImagesPerRequest: count.default(1),
      video: z.boolean().default(false),
      needsHubFolder: z.boolean().default(false),
      requirements: z.string().min(1).optional(),
      codeRepository: z
        .strictObject({
          url: z.url(formMessage("must be a URL", "https://github.com/NVlabs/VILA.git")),
          commit: revision.nullable(),
        })
        .optional(),
    })
    .optional(),
  dtype: z.enum(DTYPES).default("float16"),
  quantizations: z.array(z.enum(QUANTIZATIONS)).min(1).default(["none"]),
  pipelineParallel: z.boolean().default(false),
  trainedContextTokens: tokens,
  limits: z.strictObject({
    maxBatchSize: z.int().min(1).max(2048),
    maxInputTokens: tokens,
    maxOutputTokens: tokens,
    maxBeamWidth: z.int().min(1).max(64).default(1),
    maxImagesPerRequest: z.int().min(0).max(64).default(0),
    maxNumTokens: tokens.optional(),
  }),
  flavours: z.array(z.enum(FLAVOURS)).min(1).default(["inflight_batcher_llm"]),
  runtimes: z.array(z.enum(RUNTIMES)).min(1).default(["engine"]),
  tokenizer: z.strictObject({
    endId: z.int().min(0),
    padId: z.int().min(0),
    addsBeginToken: z.boolean().default(true),
  }),
  chat: z
    .strictObject({ template: z.string().min(1), stopWords: z.array(z.string()).default([]) })
    .optional(),
  imagePrompt: z.string().min(1).optional(),
  golden: z.strictObject({
    prompt: z.string().min(1),
    image: z.enum(GOLDEN_PICTURE_NAMES).optional(),
    maxTokens: z.int().min(1).max(512).default(30),
    answerContains: z.array(z.string().min(1)).min(1),
  }),
  sources: z.array(z.string().min(1)).default(["the stack file"]),
});

export type GpuModelConfig = Readonly<z.infer<typeof gpuModel>>;
