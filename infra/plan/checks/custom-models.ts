/** Rows that a stack adds to the catalogue: figures that contradict each other. */
import { showValue } from "../../problems.ts";
import { languageModels } from "../catalogue/language-models.ts";
import { type Flavour, GOLDEN_PICTURE_NAMES, type LanguageModel } from "../catalogue/types.ts";
import { type Check, type CheckedStack, type Remark, stackCheck } from "./finding.ts";
import { atMost } from "./words.ts";

const FLAVOURS_WITH_IMAGES: readonly Flavour[] = ["multimodal", "llava"];

export const customModelChecks = {
  customNameIsFree: customCheck((_row, path, name) => {
    if (!Object.hasOwn(languageModels, name)) return [];
    return [
      {
        path,
        value: showValue(name),
        reason: `The catalogue has a model ${name} already.`,
        fix: "Give yours another name.",
      },
    ];
  }),

  customEmbeddingsArePart: customCheck(({ architecture }, path) => {
    const { parameters, embeddingParameters } = architecture;
    if (embeddingParameters < parameters) return [];
    return [
      {
        path: `${path}.architecture.embeddingParameters`,
        value: showValue(embeddingParameters),
        reason: `They are a part of the ${parameters} parameters, and would be all of them.`,
        fix: "Count the input embedding and the output head only.",
      },
    ];
  }),

  customHeadsDivide: customCheck(({ architecture: { heads, kvHeads } }, path) => {
    if (heads % kvHeads === 0) return [];
    return [
      {
        path: `${path}.architecture.kvHeads`,
        value: showValue(kvHeads),
        reason: `Each head of keys and values serves the same number of the ${heads} attention heads, and ${kvHeads} does not divide them.`,
        fix: "Copy num_attention_heads and num_key_value_heads from the model's config.json.",
      },
    ];
  }),

  customKvLayersArePart: customCheck(({ architecture: { layers, kvLayers } }, path) => {
    if (kvLayers === undefined || kvLayers <= layers) return [];
    return [
      {
        path: `${path}.architecture.kvLayers`,
        value: showValue(kvLayers),
        reason: `The model has ${layers} layers.`,
        fix: `${atMost(layers)}, or leave it out where all layers keep keys and values.`,
      },
    ];
  }),

  customFlavoursTakeInput: customCheck(({ vision, flavours }, path) => {
    const withImages = flavours.filter((flavour) => FLAVOURS_WITH_IMAGES.includes(flavour));
    if (vision === undefined ? withImages.length === 0 : withImages.length === flavours.length) return [];
    return [
      {
        path: `${path}.flavours`,
        value: showValue(flavours),
        reason:
          vision === undefined
            ? `${withImages.join(" and ")} serve models with images, and the row has no \`vision\`.`
            : "The row has `vision`, and only multimodal and llava hand images on.",
        fix:
          vision === undefined ? "Write flavours: [inflight_batcher_llm]." : "Write flavours: [multimodal].",
      },
    ];
  }),

  customGoldenShowsVision: customCheck(({ vision, golden }, path) => {
    if ((vision === undefined) === (golden.image === undefined)) return [];
    return [
      {
        path: `${path}.golden.image`,
        value: showValue(golden.image),
        reason:
          vision === undefined
            ? "The row has no `vision`, so no image can be asked about."
            : "A golden prompt without image would not show that the visual engine works.",
        fix:
          vision === undefined
            ? "Remove it."
            : `Name a bundled picture: ${GOLDEN_PICTURE_NAMES.join(" or ")}.`,
      },
    ];
  }),
} satisfies Record<string, Check>;

function customCheck(remarks: (row: LanguageModel, path: string, name: string) => readonly Remark[]): Check {
  return stackCheck(["catalogue"], ({ config }: CheckedStack) =>
    Object.entries<LanguageModel>(config.catalogue.models).flatMap(([name, row]) =>
      remarks(row, `catalogue.models.${name}`, name),
    ),
  );
}
