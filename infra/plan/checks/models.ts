/**
 * Models: names, rows that a stack adds to the catalogue, and how Triton serves them. Rules of one kind of repository are with it,
 * in repository/.
 */
import { counted, pathParts, showValue, valueAt } from "../../problems.ts";
import { languageModels } from "../catalogue/language-models.ts";
import { GOLDEN_PICTURE_NAMES, type LanguageModel, mayTakeImages, takesImages } from "../catalogue/types.ts";
import { visionTypeOf } from "../catalogue/vision-types.ts";
import { unsupportedReason } from "../engine/recipes.ts";
import { repositoryProblems } from "../repository/problems.ts";
import type { EngineSpec } from "../spec.ts";
import { repeatedKeyNames } from "./access.ts";
import { type Check, eachModel, type Findings } from "./check.ts";
import { atMost, oneOf, repeatedNames } from "./shared-messages.ts";

/** Figures of a row that contradict each other. Names of rows may have points: each check looks its value up itself. */
export const customModelChecks = {
  customNameIsFree: eachRow(
    (_row, path, name) =>
      Object.hasOwn(languageModels, name) && {
        path,
        value: showValue(name),
        reason: `The catalogue already has a model ${name}.`,
        fix: "Use another name.",
      },
  ),

  customEmbeddingsArePart: eachRow(
    ({ architecture: { parameters, embeddingParameters } }, path) =>
      embeddingParameters >= parameters && {
        path: `${path}.architecture.embeddingParameters`,
        value: showValue(embeddingParameters),
        reason: `They are part of the ${parameters} parameters, and can't be all of them.`,
        fix: "Count only the input embedding and the output head.",
      },
  ),

  customHeadsDivide: eachRow(
    ({ architecture: { heads, kvHeads } }, path) =>
      heads % kvHeads !== 0 && {
        path: `${path}.architecture.kvHeads`,
        value: showValue(kvHeads),
        reason: `The ${heads} attention heads are not divisible by ${kvHeads}.`,
        fix: "Copy num_attention_heads and num_key_value_heads from the model's config.json.",
      },
  ),

  customKvLayersArePart: eachRow(
    ({ architecture: { layers, kvLayers } }, path) =>
      kvLayers !== undefined &&
      kvLayers > layers && {
        path: `${path}.architecture.kvLayers`,
        value: showValue(kvLayers),
        reason: `The model has ${layers} layers.`,
        fix: `${atMost(layers)}, or leave it out if all layers keep keys and values.`,
      },
  ),

  customFlavoursTakeInput: eachRow((row, path) => {
    const { vision, flavours } = row;
    if (visionTypeOf(row)?.since === null && flavours.some((flavour) => flavour !== "llmapi"))
      return {
        path: `${path}.flavours`,
        value: showValue(flavours),
        reason: `Models of the vision type ${vision?.modelType} have no visual engine, and only llmapi serves them without.`,
        fix: "Write flavours: [llmapi] with runtimes: [llmapi].",
      };
    const withImages = flavours.filter(takesImages);
    const textOnly = flavours.filter((flavour) => !mayTakeImages(flavour));
    if ((vision === undefined ? withImages : textOnly).length === 0) return [];
    return {
      path: `${path}.flavours`,
      value: showValue(flavours),
      ...(vision === undefined
        ? {
            reason: `${withImages.join(" and ")} serve models with images, and the row has no \`vision\`.`,
            fix: "Write flavours: [inflight_batcher_llm].",
          }
        : {
            reason: "The row has `vision`, and only multimodal, llava and llmapi take images.",
            fix: "Write flavours: [multimodal], or [llmapi] with runtimes: [llmapi].",
          }),
    };
  }),

  customGoldenShowsVision: eachRow(({ vision, golden: { image } }, path) => {
    if ((vision === undefined) === (image === undefined)) return [];
    return {
      path: `${path}.golden.image`,
      value: showValue(image),
      ...(vision === undefined
        ? { reason: "The row has no `vision`, so no image can be asked about.", fix: "Remove it." }
        : {
            reason: "Without an image the golden prompt does not test the visual engine.",
            fix: `Name a bundled picture: ${GOLDEN_PICTURE_NAMES.join(" or ")}.`,
          }),
    };
  }),
} satisfies Record<string, Check>;

function eachRow(check: (row: LanguageModel, path: string, name: string) => Findings): Check {
  return ({ config }) =>
    Object.entries<LanguageModel>(config.catalogue.models).map(([name, row]) =>
      check(row, `catalogue.models.${name}`, name),
    );
}

/** Services that every stack has; a model of the same name would share their endpoints and objects. */
const RESERVED_NAMES: readonly string[] = ["encoders", "gateway", "mongo", "vector"];

/** Longest label of Kubernetes; a Job's pods carry its name as one. */
const LONGEST_LABEL = 63;
/** `-` and the first twelve digits of an engine's key. */
const KEY_SUFFIX_LENGTH = 13;

export const nameChecks = {
  namesAreFree: ({ config }) =>
    config.models.map(
      ({ name }, index) =>
        RESERVED_NAMES.includes(name) && {
          path: `models[${index}].name`,
          reason: `The name is reserved for a service. Reserved are ${RESERVED_NAMES.join(", ")}.`,
          fix: "Give the model another name.",
        },
    ),

  modelNamesDiffer: ({ config }) =>
    repeatedNames(config.models, "models", "model", "endpoints, metrics and objects are named by it"),

  poolNamesDiffer: ({ config }) =>
    "pools" in config && repeatedNames(config.pools, "pools", "pool", "models name their pool by it"),

  keyNamesDiffer: repeatedKeyNames,

  modelNameFitsObjects: eachModel(({ engine, path }) => {
    const most = LONGEST_LABEL - KEY_SUFFIX_LENGTH;
    if (engine.model.length <= most) return [];
    return {
      path: `${path}.model`,
      reason: `An engine's build is named after its model and ${KEY_SUFFIX_LENGTH - 1} digits of its key: ${engine.model.length + KEY_SUFFIX_LENGTH} characters, and a Kubernetes label has at most ${LONGEST_LABEL}.`,
      fix: `Use a name of at most ${most} characters under catalogue.models.`,
    };
  }),
} satisfies Record<string, Check>;

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
    return repositoryProblems(model).filter(({ path }) => !(isReported && path === `${model.path}.flavour`));
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
      reason: `The engine is built for ${counted(limits.maxBatchSize, "request")} in a batch, and refuses ${serving.maxBatchSize}.`,
      fix: `${atMost(limits.maxBatchSize)}, or raise limits.maxBatchSize, which builds another engine.`,
    };
  }),

  concurrencyWithinBatch: eachModel(({ serving, engine: { limits }, path }) => {
    // A batch above the engine's has a check of its own.
    if (serving.maxBatchSize > limits.maxBatchSize) return [];
    if (serving.concurrentRequests <= serving.maxBatchSize) return [];
    return {
      path: `${path}.concurrentRequests`,
      reason: `A server processes at most ${counted(serving.maxBatchSize, "request")} at a time (its maxBatchSize); the rest of ${serving.concurrentRequests} would wait.`,
      fix: `${atMost(serving.maxBatchSize)}, or raise limits.maxBatchSize and triton.maxBatchSize.`,
    };
  }),

  ownGoldenIsAsked: eachModel(({ engine: { row, limits, model }, path: modelPath }, { config }) => {
    const path = `${modelPath}.golden`;
    if (valueAt(config, pathParts(path)) === undefined) return [];
    const { image, maxTokens } = row.golden;
    return [
      image !== undefined &&
        row.vision === undefined && {
          path: `${path}.image`,
          reason: `${model} is a text model: it can't be asked about an image.`,
          fix: "Remove it.",
        },
      maxTokens > limits.maxOutputTokens && {
        path: `${path}.maxTokens`,
        value: showValue(maxTokens),
        reason: `The engine gives answers of at most ${counted(limits.maxOutputTokens, "token")}.`,
        fix: `${atMost(limits.maxOutputTokens)}, or raise limits.maxOutputTokens, which builds another engine.`,
      },
    ];
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
          reason: `The LLaVA tutorial's repository is fixed to ${LLAVA_TUTORIAL[key]}.`,
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
      reason: `The longest request takes ${sequence} tokens of KV cache, and TensorRT-LLM does not start with ${tokens}.`,
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
      reason: `${concurrentRequests} requests of ${sequence} tokens need ${needed}; ${tokens} hold ${atFullLength} at full length, and the others wait.`,
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
    if (!serving.kvCacheReuse || !isPromptTable || serving.flavour !== "multimodal") return [];
    return {
      severity: "warning",
      path: `${path}.triton.kvCacheReuse`,
      // `Input token extra ids must be provided when enabling kv cache reuse with prompt table`
      reason:
        "With reuse, TensorRT-LLM refuses requests with images but without prompt_table_extra_id. The gateway sends it; clients of Triton itself must too.",
      fix: "Send prompt_table_extra_id, a number of 1 or more for each image, or write kvCacheReuse: false.",
    };
  }),
} satisfies Record<string, Check>;

function longestSequence({ limits }: EngineSpec): number {
  return limits.maxInputTokens + limits.maxOutputTokens;
}
