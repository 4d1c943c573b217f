/** Names of models, pools and keys, and rows that a stack adds to the catalogue. */
import { showValue } from "../../problems.ts";
import { languageModels } from "../catalogue/language-models.ts";
import { type Flavour, GOLDEN_PICTURE_NAMES, type LanguageModel } from "../catalogue/types.ts";
import { repeatedKeyNames } from "./access.ts";
import { type Check, eachModel, type Finding } from "./check.ts";
import { atMost, repeatedNames } from "./words.ts";

const FLAVOURS_WITH_IMAGES: readonly Flavour[] = ["multimodal", "llava"];

/** Figures of a row that contradict each other. */
export const customModelChecks = {
  customNameIsFree: eachRow(
    (_row, name) =>
      Object.hasOwn(languageModels, name) && {
        path: "",
        value: name,
        reason: `The catalogue has a model ${name} already.`,
        fix: "Give yours another name.",
      },
  ),

  customEmbeddingsArePart: eachRow(
    ({ architecture: { parameters, embeddingParameters } }) =>
      embeddingParameters >= parameters && {
        path: ".architecture.embeddingParameters",
        value: embeddingParameters,
        reason: `They are a part of the ${parameters} parameters, and would be all of them.`,
        fix: "Count the input embedding and the output head only.",
      },
  ),

  customHeadsDivide: eachRow(
    ({ architecture: { heads, kvHeads } }) =>
      heads % kvHeads !== 0 && {
        path: ".architecture.kvHeads",
        value: kvHeads,
        reason: `Each head of keys and values serves the same number of the ${heads} attention heads, and ${kvHeads} does not divide them.`,
        fix: "Copy num_attention_heads and num_key_value_heads from the model's config.json.",
      },
  ),

  customKvLayersArePart: eachRow(
    ({ architecture: { layers, kvLayers } }) =>
      kvLayers !== undefined &&
      kvLayers > layers && {
        path: ".architecture.kvLayers",
        value: kvLayers,
        reason: `The model has ${layers} layers.`,
        fix: `${atMost(layers)}, or leave it out where all layers keep keys and values.`,
      },
  ),

  customFlavoursTakeInput: eachRow(({ vision, flavours }) => {
    const withImages = flavours.filter((flavour) => FLAVOURS_WITH_IMAGES.includes(flavour));
    const [path, value] = [".flavours", flavours];
    if (vision === undefined) {
      return (
        withImages.length > 0 && {
          path,
          value,
          reason: `${withImages.join(" and ")} serve models with images, and the row has no \`vision\`.`,
          fix: "Write flavours: [inflight_batcher_llm].",
        }
      );
    }
    return (
      withImages.length < flavours.length && {
        path,
        value,
        reason: "The row has `vision`, and only multimodal and llava hand images on.",
        fix: "Write flavours: [multimodal].",
      }
    );
  }),

  customGoldenShowsVision: eachRow(({ vision, golden: { image } }) => {
    const [path, value] = [".golden.image", image];
    if (vision === undefined) {
      return (
        image !== undefined && {
          path,
          value,
          reason: "The row has no `vision`, so no image can be asked about.",
          fix: "Remove it.",
        }
      );
    }
    return (
      image === undefined && {
        path,
        value,
        reason: "A golden prompt without image would not show that the visual engine works.",
        fix: `Name a bundled picture: ${GOLDEN_PICTURE_NAMES.join(" or ")}.`,
      }
    );
  }),
} satisfies Record<string, Check>;

/** @param check - Its path continues that of the row. Names of rows may have points, so that it gives the value itself. */
function eachRow(
  check: (row: LanguageModel, name: string) => false | (Omit<Finding, "value"> & { readonly value: unknown }),
): Check {
  return ({ config }) =>
    Object.entries<LanguageModel>(config.catalogue.models).map(([name, row]) => {
      const found = check(row, name);
      return (
        found && {
          ...found,
          path: `catalogue.models.${name}${found.path}`,
          value: showValue(found.value),
        }
      );
    });
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
          reason: `Services of every stack have the names ${RESERVED_NAMES.join(", ")}.`,
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
    return (
      engine.model.length > most && {
        path: `${path}.model`,
        reason: `An engine's build is named after its model and ${KEY_SUFFIX_LENGTH - 1} digits of its key; ${engine.model.length} characters and ${KEY_SUFFIX_LENGTH} more are over the ${LONGEST_LABEL} that a Kubernetes label holds.`,
        fix: `Use a name of at most ${most} characters under catalogue.models.`,
      }
    );
  }),
} satisfies Record<string, Check>;
