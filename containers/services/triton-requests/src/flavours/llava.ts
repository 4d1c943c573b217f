/**
 * `llava-1.5` of Triton's tutorials (Popular_Models_Guide/Llava1.5/model_repository, r25.07). It always answers with one
 * response, counts tokens by itself, and says why it ended.
 */
import { urlField } from "../images.ts";
import type { Fields, GenerationRequest } from "../request.ts";
import type { Flavour } from "./types.ts";

/**
 * Most tokens that TensorRT-LLM's top-k kernel chooses from (TOP_K_MAX, cpp/tensorrt_llm/kernels/samplingTopKKernels.h).
 * The repository has no `top_p`, and TensorRT-LLM takes neither top_k nor top_p for greedy: this is as near to "no limit" as
 * it goes.
 */
const WIDEST_TOP_K = 1024;

export const llava: Flavour = {
  missingOptions: [
    "minTokens",
    "topP",
    "presencePenalty",
    "repetitionPenalty",
    "stopWords",
    "badWords",
    "beamWidth",
  ],
  textOutput: "text",
  fields: (_profile, request, images) => ({
    prompt: request.text,
    ...urlField("image", images),
    max_tokens: request.maxTokens,
    ...samplingFields(request),
  }),
};

/** All that is given is said, 0 too: the model's own defaults are temperature 0.5, top_k 1, frequency_penalty 0.7, seed 10. */
function samplingFields({ temperature, topK, frequencyPenalty, seed }: GenerationRequest): Fields {
  const narrowTopK = topK === 0 ? WIDEST_TOP_K : topK;
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(temperature === 0 ? { top_k: 1 } : narrowTopK === undefined ? {} : { top_k: narrowTopK }),
    ...(frequencyPenalty === undefined ? {} : { frequency_penalty: frequencyPenalty }),
    ...(seed === undefined ? {} : { seed }),
  };
}
