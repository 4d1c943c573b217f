/**
 * Every language and vision-language model that a stack may name. A new model is a new row in one file of models/; a new
 * family is a new file there and a line below. Names, types and lists derive from the rows.
 *
 * Revisions are commits of the hub's repositories, each found in public code that pins it to that repository.
 */
import { blip2Models } from "./models/blip2.ts";
import { gpt2Models } from "./models/gpt2.ts";
import { llama2Models } from "./models/llama-2.ts";
import { llama32VisionModels } from "./models/llama-3.2-vision.ts";
import { llavaModels } from "./models/llava.ts";
import { vilaModels } from "./models/vila.ts";
import type { LanguageModel } from "./types.ts";

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
