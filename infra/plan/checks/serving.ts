/**
 * How Triton serves a model: what its repository can do, and Triton's limits against the engine's. Rules that belong to a
 * kind of repository stand with it, in repository/.
 */
import { showValue } from "../../problems.ts";
import { unsupportedReason } from "../engine/support.ts";
import { repositoryProblems } from "../repository/problems.ts";
import type { EngineSpec } from "../spec.ts";
import { type Check, eachModel } from "./check.ts";
import { atMost, oneOf } from "./words.ts";

/** Largest batch and prompt that https://github.com/triton-inference-server/tutorials has written into its LLaVA repository. */
const LLAVA_TUTORIAL = { maxBatchSize: 1, maxInputTokens: 2048, maxBeamWidth: 1, maxImagesPerRequest: 1 };

export const servingChecks = {
  repositoryServesModel: eachModel((model) => {
    const { engine, serving } = model;
    const hasEngine = serving.runtime === "engine";
    // A release without engines has a check of its own.
    if (hasEngine && !engine.release.runtimes.includes("engine")) return [];
    // A visual engine without a recipe is reported with a release that has a repository for it too.
    const isReported = hasEngine && engine.row.vision !== undefined && unsupportedReason(engine) !== null;
    return repositoryProblems(model)
      .filter(({ path }) => !(isReported && path === `${model.path}.flavour`))
      .map(({ path, reason, fix, value }) =>
        // Keys of the whole stack are shown as the stack file has them.
        path.startsWith(`${model.path}.`) ? { path, value, reason, fix } : { path, reason, fix },
      );
  }),

  flavourOfModel: eachModel(({ engine: { row, model }, serving: { flavour }, path }) => {
    if (flavour === "llmapi" || row.flavours.includes(flavour)) return [];
    const flavours = row.flavours.filter((other) => other !== "llmapi");
    return {
      path: `${path}.flavour`,
      value: showValue(flavour),
      reason: `${model} is not known to be served by the repository ${flavour}.`,
      fix:
        flavours.length === 0
          ? "The catalogue lists no repository with an engine for it; write runtime: llmapi."
          : `Use ${oneOf(flavours)}, or leave it out.`,
    };
  }),

  runtimeOfModel: eachModel(({ engine: { row, model }, serving: { runtime }, path }) => {
    if (row.runtimes.includes(runtime)) return [];
    return {
      path: `${path}.runtime`,
      reason: `${model} is not known to run with ${runtime}.`,
      fix: `Use ${oneOf(row.runtimes)}.`,
    };
  }),

  tritonBatchWithinEngine: eachModel(({ serving, engine: { limits }, path }) => {
    if (serving.maxBatchSize <= limits.maxBatchSize) return [];
    return {
      path: `${path}.triton.maxBatchSize`,
      reason: `The engine is built for ${limits.maxBatchSize} requests in a batch, and refuses ${serving.maxBatchSize}.`,
      fix: `${atMost(limits.maxBatchSize)}, or raise limits.maxBatchSize, which builds another engine.`,
    };
  }),

  concurrencyWithinBatch: eachModel(({ serving, engine: { limits }, path }) => {
    // A batch above the engine's has a check of its own.
    if (serving.maxBatchSize > limits.maxBatchSize) return [];
    if (serving.concurrentRequests <= serving.maxBatchSize) return [];
    return {
      path: `${path}.concurrentRequests`,
      reason: `A server works on ${serving.maxBatchSize} requests at a time, its largest batch; the others of ${serving.concurrentRequests} would wait.`,
      fix: `${atMost(serving.maxBatchSize)}, or raise limits.maxBatchSize and triton.maxBatchSize.`,
    };
  }),

  llavaTutorialLimits: eachModel(({ serving, engine, path }) => {
    if (serving.flavour !== "llava") return [];
    const asked = { ...engine.limits, maxBatchSize: serving.maxBatchSize };
    const keys = Object.keys(LLAVA_TUTORIAL) as (keyof typeof LLAVA_TUTORIAL)[];
    return keys.map(
      (key) =>
        asked[key] > LLAVA_TUTORIAL[key] && {
          path: `${path}.${key === "maxBatchSize" ? "triton" : "limits"}.${key}`,
          value: showValue(asked[key]),
          reason: `The LLaVA tutorial's repository has ${LLAVA_TUTORIAL[key]} written in.`,
          fix: `Use ${LLAVA_TUTORIAL[key]}, or \`flavour: multimodal\`.`,
        },
    );
  }),

  accumulationNeedsOneBeam: eachModel(({ serving, engine: { limits }, path }) => {
    if (!serving.accumulateTokens || limits.maxBeamWidth === 1) return [];
    return {
      path: `${path}.triton.accumulateTokens`,
      // https://github.com/triton-inference-server/tensorrtllm_backend/issues/513
      reason: `tensorrt_llm_bls accumulates tokens of one beam only, and the engine takes ${limits.maxBeamWidth}.`,
      fix: "Write accumulateTokens: false, or limits.maxBeamWidth: 1.",
    };
  }),

  cacheHoldsSequence: eachModel(({ serving: { maxTokensInPagedKvCache: tokens }, engine, path }) => {
    const sequence = longestSequence(engine);
    if (tokens === undefined || tokens >= sequence) return [];
    return {
      path: `${path}.triton.maxTokensInPagedKvCache`,
      // `maxTokensInPagedKvCache (…) must be large enough to process at least 1 sequence to completion`
      reason: `One request at its longest takes ${sequence} tokens of KV cache, and TensorRT-LLM does not start with ${tokens}.`,
      fix: `Use ${sequence} or more, or leave it out.`,
    };
  }),

  cacheHoldsConcurrency: eachModel(({ serving, engine, path }) => {
    const { maxTokensInPagedKvCache: tokens, concurrentRequests } = serving;
    const sequence = longestSequence(engine);
    const needed = sequence * concurrentRequests;
    if (tokens === undefined || tokens < sequence || tokens >= needed) return [];
    const atFullLength = Math.floor(tokens / sequence);
    return {
      severity: "warning",
      path: `${path}.triton.maxTokensInPagedKvCache`,
      reason: `${concurrentRequests} requests of ${sequence} tokens need ${needed}; with ${tokens} at least ${atFullLength} run at full length, and the others wait.`,
      fix: `Use ${needed}, or lower concurrentRequests to ${atFullLength}.`,
    };
  }),

  attentionWindowWithinSequence: eachModel(
    ({ serving: { maxAttentionWindowTokens: window }, engine, path }) => {
      const sequence = longestSequence(engine);
      if (window === undefined || window <= sequence) return [];
      return {
        severity: "warning",
        path: `${path}.triton.maxAttentionWindowTokens`,
        reason: `The longest sequence has ${sequence} tokens; a window of ${window} changes nothing.`,
        fix: `Leave it out, or use ${sequence} or less.`,
      };
    },
  ),

  reuseWithImages: eachModel(({ serving, engine, path }) => {
    const isPromptTable = engine.row.vision?.attention === "prompt";
    if (!serving.kvCacheReuse || !isPromptTable || serving.flavour === "llava") return [];
    return {
      severity: "warning",
      path: `${path}.triton.kvCacheReuse`,
      // `Input token extra ids must be provided when enabling kv cache reuse with prompt table`
      reason:
        "With images, TensorRT-LLM refuses requests without prompt_table_extra_id while reuse is on. The gateway sends one; a client that asks Triton directly has to.",
      fix: "Send prompt_table_extra_id, a number of 1 or more for each image, or write kvCacheReuse: false.",
    };
  }),
} satisfies Record<string, Check>;

function longestSequence({ limits }: EngineSpec): number {
  return limits.maxInputTokens + limits.maxOutputTokens;
}
