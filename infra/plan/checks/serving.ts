/**
 * How Triton serves a model: what its repository can do, and Triton's limits against the engine's. Rules that belong to a
 * kind of repository stand with it, in repository/.
 */
import { showValue } from "../../problems.ts";
import { unsupportedReason } from "../engine/recipes.ts";
import { repositoryProblems } from "../repository/problems.ts";
import { type Check, modelCheck } from "./finding.ts";
import { atMost, oneOf } from "./words.ts";

/** Largest batch and prompt that https://github.com/triton-inference-server/tutorials has written into its LLaVA repository. */
const LLAVA_TUTORIAL = { maxBatchSize: 1, maxInputTokens: 2048, maxBeamWidth: 1, maxImagesPerRequest: 1 };

export const servingChecks = {
  repositoryServesModel: modelCheck(
    [
      "release",
      "image",
      "catalogue",
      "models.name",
      "models.model",
      "models.runtime",
      "models.flavour",
      "models.quantization",
      "models.tensorParallel",
      "models.pipelineParallel",
      "models.triton",
    ],
    (model) => {
      const { release } = model.engine;
      // A release without engines at all is reported as such.
      if (model.serving.runtime === "engine" && !release.runtimes.includes("engine")) return [];
      const isUnsupported = model.serving.runtime === "engine" && unsupportedReason(model.engine) !== null;
      // A visual engine without a recipe is reported with a release that has a repository for it too.
      const isReported = (path: string) =>
        isUnsupported && model.engine.row.vision !== undefined && path === `${model.path}.flavour`;
      const problems = repositoryProblems(model).filter(({ path }) => !isReported(path));
      return problems.map(({ path, reason, fix, value }) =>
        // What belongs to the whole stack is shown as the stack file has it.
        path.startsWith(`${model.path}.`) ? { path, value, reason, fix } : { path, reason, fix },
      );
    },
  ),

  flavourOfModel: modelCheck(
    ["models.model", "models.flavour", "models.runtime", "catalogue"],
    ({ engine, serving, path }) => {
      if (serving.flavour === "llmapi" || engine.row.flavours.includes(serving.flavour)) return [];
      const flavours = engine.row.flavours.filter((flavour) => flavour !== "llmapi");
      return [
        {
          path: `${path}.flavour`,
          value: showValue(serving.flavour),
          reason: `${engine.model} is not known to be served by the repository ${serving.flavour}.`,
          fix:
            flavours.length === 0
              ? "The catalogue lists no repository with an engine for it; write runtime: llmapi."
              : `Use ${oneOf(flavours)}, or leave it out.`,
        },
      ];
    },
  ),

  runtimeOfModel: modelCheck(["models.model", "models.runtime", "catalogue"], ({ engine, serving, path }) => {
    if (engine.row.runtimes.includes(serving.runtime)) return [];
    return [
      {
        path: `${path}.runtime`,
        reason: `${engine.model} is not known to run with ${serving.runtime}.`,
        fix: `Use ${oneOf(engine.row.runtimes)}.`,
      },
    ];
  }),

  tritonBatchWithinEngine: modelCheck(["models.limits", "models.triton", "models.model"], (model) => {
    const { serving, engine, path } = model;
    if (serving.maxBatchSize <= engine.limits.maxBatchSize) return [];
    return [
      {
        path: `${path}.triton.maxBatchSize`,
        reason: `The engine is built for ${engine.limits.maxBatchSize} requests in a batch, and refuses ${serving.maxBatchSize}.`,
        fix: `${atMost(engine.limits.maxBatchSize)}, or raise limits.maxBatchSize, which builds another engine.`,
      },
    ];
  }),

  concurrencyWithinBatch: modelCheck(
    ["models.limits", "models.triton", "models.model", "models.flavour", "models.concurrentRequests"],
    ({ serving, engine, path }) => {
      const most = Math.min(serving.maxBatchSize, engine.limits.maxBatchSize);
      // A batch above the engine's is reported as such.
      if (serving.concurrentRequests <= most || serving.maxBatchSize > engine.limits.maxBatchSize) return [];
      return [
        {
          path: `${path}.concurrentRequests`,
          reason: `A server works on ${most} requests at a time, its largest batch; the others of ${serving.concurrentRequests} would wait.`,
          fix: `${atMost(most)}, or raise limits.maxBatchSize and triton.maxBatchSize.`,
        },
      ];
    },
  ),

  llavaTutorialLimits: modelCheck(
    ["models.limits", "models.triton", "models.model", "models.flavour"],
    ({ serving, engine, path }) => {
      if (serving.flavour !== "llava") return [];
      const asked = { ...engine.limits, maxBatchSize: serving.maxBatchSize };
      const keys = Object.keys(LLAVA_TUTORIAL) as (keyof typeof LLAVA_TUTORIAL)[];
      return keys.flatMap((key) => {
        if (asked[key] <= LLAVA_TUTORIAL[key]) return [];
        const at = key === "maxBatchSize" ? "triton.maxBatchSize" : `limits.${key}`;
        return [
          {
            path: `${path}.${at}`,
            value: showValue(asked[key]),
            reason: `The LLaVA tutorial's repository has ${LLAVA_TUTORIAL[key]} written in.`,
            fix: `Use ${LLAVA_TUTORIAL[key]}, or \`flavour: multimodal\`.`,
          },
        ];
      });
    },
  ),

  accumulationNeedsOneBeam: modelCheck(["models.limits", "models.triton"], ({ serving, engine, path }) => {
    if (!serving.accumulateTokens || engine.limits.maxBeamWidth === 1) return [];
    return [
      {
        path: `${path}.triton.accumulateTokens`,
        // https://github.com/triton-inference-server/tensorrtllm_backend/issues/513
        reason: `tensorrt_llm_bls accumulates tokens of one beam only, and the engine takes ${engine.limits.maxBeamWidth}.`,
        fix: "Write accumulateTokens: false, or limits.maxBeamWidth: 1.",
      },
    ];
  }),

  cacheHoldsSequence: modelCheck(
    ["models.limits", "models.triton", "models.model"],
    ({ serving, engine, path }) => {
      const tokens = serving.maxTokensInPagedKvCache;
      const sequence = engine.limits.maxInputTokens + engine.limits.maxOutputTokens;
      if (tokens === undefined || tokens >= sequence) return [];
      return [
        {
          path: `${path}.triton.maxTokensInPagedKvCache`,
          // `maxTokensInPagedKvCache (…) must be large enough to process at least 1 sequence to completion`
          reason: `One request at its longest takes ${sequence} tokens of KV cache, and TensorRT-LLM does not start with ${tokens}.`,
          fix: `Use ${sequence} or more, or leave it out.`,
        },
      ];
    },
  ),

  cacheHoldsConcurrency: modelCheck(
    ["models.limits", "models.triton", "models.model", "models.concurrentRequests"],
    ({ serving, engine, path }) => {
      const tokens = serving.maxTokensInPagedKvCache;
      const sequence = engine.limits.maxInputTokens + engine.limits.maxOutputTokens;
      const needed = sequence * serving.concurrentRequests;
      if (tokens === undefined || tokens < sequence || tokens >= needed) return [];
      return [
        {
          severity: "warning",
          path: `${path}.triton.maxTokensInPagedKvCache`,
          reason: `${serving.concurrentRequests} requests of ${sequence} tokens need ${needed}; with ${tokens} at least ${Math.floor(tokens / sequence)} run at full length, and the others wait.`,
          fix: `Use ${needed}, or lower concurrentRequests to ${Math.floor(tokens / sequence)}.`,
        },
      ];
    },
  ),

  attentionWindowWithinSequence: modelCheck(
    ["models.limits", "models.triton", "models.model"],
    ({ serving, engine, path }) => {
      const window = serving.maxAttentionWindowTokens;
      const sequence = engine.limits.maxInputTokens + engine.limits.maxOutputTokens;
      if (window === undefined || window <= sequence) return [];
      return [
        {
          severity: "warning",
          path: `${path}.triton.maxAttentionWindowTokens`,
          reason: `The longest sequence has ${sequence} tokens; a window of ${window} changes nothing.`,
          fix: `Leave it out, or use ${sequence} or less.`,
        },
      ];
    },
  ),

  reuseWithImages: modelCheck(["models.model", "models.triton", "models.flavour", "catalogue"], (model) => {
    const { serving, engine, path } = model;
    const isPromptTable = engine.row.vision?.attention === "prompt";
    if (!serving.kvCacheReuse || !isPromptTable || serving.flavour === "llava") return [];
    return [
      {
        severity: "warning",
        path: `${path}.triton.kvCacheReuse`,
        // `Input token extra ids must be provided when enabling kv cache reuse with prompt table`
        reason:
          "With images, TensorRT-LLM refuses requests without prompt_table_extra_id while reuse is on. The gateway sends one; a client that asks Triton directly has to.",
        fix: "Send prompt_table_extra_id, a number of 1 or more for each image, or write kvCacheReuse: false.",
      },
    ];
  }),
} satisfies Record<string, Check>;
