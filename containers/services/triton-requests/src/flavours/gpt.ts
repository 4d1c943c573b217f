/**
 * `ensemble` of all_models/gpt, TensorRT-LLM's Python runtime. Its preprocessing encodes stop and bad words, and the
 * ensemble then hands them to nobody; it has no stream.
 */
import { RequestError } from "../errors.ts";
import { textFields } from "./tensorrt-llm-fields.ts";
import type { Flavour } from "./types.ts";

export const gpt: Flavour = {
  missingOptions: ["stopWords", "badWords"],
  textOutput: "text_output",
  fields: (profile, request) => {
    const missing = profile.endId === null ? "endId" : profile.padId === null ? "padId" : undefined;
    if (missing !== undefined) {
      throw new RequestError(
        "incomplete_profile",
        missing,
        `The profile has no ${missing}, and the Python runtime (gpt repository) takes both from the request; add it.`,
      );
    }
    return textFields(profile, request);
  },
};
