/** How the engine of a model is bounded and built, and how Triton serves it. */
import { z } from "zod";
import { formattedText, formMessage, section, storePath } from "./common.ts";

export const tokens = z.int().min(1).max(1_048_576);

/** Largest requests that the engine accepts; what is absent comes from the model's row of the catalogue. */
export const limits = z.strictObject({
  /** Requests that the engine computes in one step. */
  maxBatchSize: z.int().min(1).max(2048),
  /** Longest prompt, tokens of images included. */
  maxInputTokens: tokens,
  /** Longest answer. */
  maxOutputTokens: tokens,
  /** Largest number of beams of a request; 1: no beam search. */
  maxBeamWidth: z.int().min(1).max(64),
  /** Largest number of images of a request; 0 for text models. */
  maxImagesPerRequest: z.int().min(0).max(64),
  /** Tokens of all requests in one step; absent: the default of TensorRT-LLM's release. */
  maxNumTokens: tokens.optional(),
});

const FLAG_VALUE = [
  "a number, true for a flag without value, a text without spaces that begins with no dash, or a list of these texts and numbers",
  "enable or [attn_q, attn_v]",
] as const;
const flagWords = [z.number(), formattedText(/^[^\s-]\S{0,199}$/, ...FLAG_VALUE)] as const;

/** Flags by name; infra/plan/checks/engine-flags.ts knows which ones a program has. */
const flags = z
  .record(
    formattedText(/^[a-z][a-z0-9_-]*$/, "the name of a flag, without the dashes before it", "use_fused_mlp"),
    z.union(
      [
        z.literal(true),
        ...flagWords,
        z
          .array(z.union(flagWords, formMessage(...FLAG_VALUE)))
          .min(1)
          .max(100),
      ],
      formMessage(...FLAG_VALUE),
    ),
  )
  .optional();

/** How the engine is built, beyond the other keys; another flag is another engine. */
export const engine = z
  .strictObject({
    /** Flags of your own for TensorRT-LLM's programs, such as `builder: { use_fused_mlp: enable }`; `true`: a flag without value; a list: a flag with several. */
    extraFlags: z
      .strictObject({
        /** For convert_checkpoint.py; with `quantization` `fp8`, `int8_sq` and `int4_awq` for quantize.py. */
        converter: flags,
        /** For trtllm-build. */
        builder: flags,
        /** For the builder of the visual engine. */
        vision: flags,
      })
      .optional(),
    /** Texts that `fp8`, `int8_sq` and `int4_awq` are calibrated with; absent: those of NVIDIA's examples. */
    calibration: z
      .strictObject({
        /** Data set of the hub that quantize.py knows; absent: cnn_dailymail. */
        dataset: formattedText(
          /^(pileval|([\w.-]+\/)?[\w.-]*cnn_dailymail[\w.-]*)$/,
          "a data set that quantize.py knows: pileval, cnn_dailymail, or one of the hub with that in its name",
          "abisee/cnn_dailymail",
        ).optional(),
        /** Your own data set in place of one of the hub, with a split `train` and a column `text`, such as a file `train.jsonl`. */
        folder: z
          .strictObject({
            /** Folder in the engine store. */
            path: storePath("a folder", "/store/calibration/support"),
            /** Your label for its content; engines are rebuilt when it changes. */
            revision: z.string().min(1).max(100),
          })
          .optional(),
        /** Number of texts; absent: 512, or 32 with `int4_awq`. */
        samples: z.int().min(1).max(100_000).optional(),
      })
      .optional(),
  })
  .optional();

const PARAMETER_VALUE = [
  "a number, true, false, or a text without quotes, backslashes and dollar signs",
  "max_utilization",
] as const;

/** How Triton serves the model; nothing here rebuilds an engine. */
export const triton = section({
  /** Triton's backend for the engine: in C++ or in Python. */
  backend: z.enum(["tensorrtllm", "python"]).default("tensorrtllm"),
  /** Triton's batch; absent: the engine's. */
  maxBatchSize: z.int().min(1).max(2048).optional(),
  /** Copies of preprocessing and of postprocessing. */
  instanceCount: z.int().min(1).max(64).default(1),
  /** Instances of tensorrt_llm_bls, Triton's model that calls the others of the ensemble from Python: requests that it handles at a time. Absent: `maxBatchSize`. */
  blsInstanceCount: z.int().min(1).max(2048).optional(),
  /** Answers token by token (the decoupled transaction policy); absent: if the repository can. */
  streaming: z.boolean().optional(),
  /** Sends all tokens so far to postprocessing, which keeps the spaces of SentencePiece models when streaming through BLS. */
  accumulateTokens: z.boolean().default(false),
  /** Whether the answer leaves out the prompt. */
  excludeInputInOutput: z.boolean().default(true),
  /** Absent: on for text models if the release has it on, off for models with images. Up to 25.04 it needs another engine. */
  kvCacheReuse: z.boolean().optional(),
  /** Reads long prompts in parts. Up to 25.04 it needs another engine. */
  chunkedContext: z.boolean().default(false),
  /** How long a request may wait for others to join its batch. */
  maxQueueDelayMicroseconds: z.int().min(0).max(10_000_000).default(0),
  /** Most requests that wait in Triton; more are refused. 0: no limit. */
  maxQueueSize: z.int().min(0).max(100_000).default(0),
  /** How the engine joins requests; `inflight_fused_batching` computes prompts and answers in the same step. */
  batchingStrategy: z
    .enum(["inflight_fused_batching", "inflight_batching"])
    .default("inflight_fused_batching"),
  /** Share of the GPU's free memory for the KV cache. Absent: computed by the plan from all models on the GPU. */
  kvCacheFreeGpuMemoryFraction: z.number().gt(0).lt(1).optional(),
  /** Most tokens in the KV cache; absent: as many as its share of memory holds. */
  maxTokensInPagedKvCache: tokens.optional(),
  /** Most tokens that attention looks back on; absent: the whole sequence. */
  maxAttentionWindowTokens: tokens.optional(),
  /** Placeholders of the release's config.pbtxt templates that no other key sets, such as `batch_scheduler_policy: max_utilization`. */
  parameters: z
    .record(
      formattedText(/^[a-z][a-z0-9_]*$/, "the name of a placeholder", "batch_scheduler_policy"),
      z.union(
        [z.boolean(), z.number(), formattedText(/^[^\s"\\$][^"\\$\p{Cc}]{0,199}$/u, ...PARAMETER_VALUE)],
        formMessage(...PARAMETER_VALUE),
      ),
    )
    .optional(),
  /**
   * Folder whose files take the place of the release's templates, relative to the project's: `tensorrt_llm/config.pbtxt`, with
   * the release's placeholders, or `postprocessing/1/model.py`. Packages of its `requirements.txt`, with versions and hashes, are installed
   * in the image by pip, without their dependencies.
   */
  templates: formattedText(/^\S{1,300}$/, "the path of a folder without spaces", "templates/chat").optional(),
});
