/** `ensemble` and `tensorrt_llm_bls` of all_models/inflight_batcher_llm. */
import { countFields, streamField, textFields } from "./tensorrt-llm-fields.ts";
import type { Flavour } from "./types.ts";

export const inflightBatcherLlm: Flavour = {
  missingOptions: [],
  textOutput: "text_output",
  fields: (profile, request) => ({
    ...textFields(profile, request),
    ...countFields(request),
    ...streamField(profile, request),
  }),
};
