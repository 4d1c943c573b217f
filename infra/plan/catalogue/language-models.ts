/**
 * Every language and vision-language model that a stack may name. A new model is a new row in a file of models/; a new
 * family is a new object there and a line below. Names, types and lists derive from the rows.
 *
 * Revisions are commits of the hub's repositories, each found in public code that pins it to that repository.
 */
import { gpt2Models, llama2Models } from "./models/text.ts";
import { blip2Models, llama32VisionModels, llavaModels, vilaModels } from "./models/vision.ts";
import type { GoldenPicture, LanguageModel } from "./types.ts";

const rows = {
  ...gpt2Models,
  ...llama2Models,
  ...llavaModels,
  ...blip2Models,
  ...vilaModels,
  ...llama32VisionModels,
} satisfies Record<string, LanguageModel>;

/** Name of a model, as a stack file writes it. */
export type LanguageModelName = keyof typeof rows;

export const languageModels: Readonly<Record<LanguageModelName, LanguageModel>> = rows;

/** All names, in the catalogue's order. */
export const LANGUAGE_MODELS = Object.keys(rows) as unknown as readonly [
  LanguageModelName,
  ...LanguageModelName[],
];

interface GoldenPictureRow {
  /** Where it is published: for requests, and for images that lack it. */
  readonly address: string;
  /** An image may be given on only with pictures that ask nothing of who does. */
  readonly license: "CC0-1.0";
  /** Who says so. */
  readonly source: string;
}

export const goldenPictures: Readonly<Record<GoldenPicture, GoldenPictureRow>> = {
  // An espresso on a red saucer.
  coffee: {
    address: "https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png",
    license: "CC0-1.0",
    source: "scikit-image 0.25.2, docstring of skimage.data.coffee: CC0 by the photographer, Rachel Michetti",
  },
};
