/**
 * `tensorrt_llm` of all_models/llmapi (TensorRT-LLM, triton_backend/all_models/llmapi/tensorrt_llm/config.pbtxt and
 * 1/helpers.py). It counts no tokens and says why it ended when asked.
 *
 * `sampling_param_stop` is left alone: helpers.py hands the tensor's bytes to SamplingParams.stop, which is typed as text.
 */
import type { Fields, GenerationRequest } from "../request.ts";
import { streamField } from "./tensorrt-llm-fields.ts";
import type { Flavour } from "./types.ts";

export const llmapi: Flavour = {
  missingOptions: ["minTokens", "repetitionPenalty", "stopWords", "badWords", "beamWidth"],
  textOutput: "text_output",
  fields: (profile, request) => ({
    text_input: request.text,
    sampling_param_max_tokens: request.maxTokens,
    ...samplingFields(request),
    // model.py's own default is false.
    sampling_param_exclude_input_from_output: profile.promptEcho === "excluded",
    return_finish_reason: true,
    ...("stream" in streamField(profile, request) ? { streaming: true } : {}),
  }),
};

function samplingFields(request: GenerationRequest): Fields {
  const { temperature, topP, topK, seed, frequencyPenalty = 0, presencePenalty = 0 } = request;
  const penalties = {
    ...(frequencyPenalty === 0 ? {} : { sampling_param_frequency_penalty: frequencyPenalty }),
    ...(presencePenalty === 0 ? {} : { sampling_param_presence_penalty: presencePenalty }),
  };
  if (temperature === 0) return { sampling_param_top_k: 1, ...penalties };
  return {
    ...(temperature === undefined ? {} : { sampling_param_temperature: temperature }),
    ...(topP === undefined ? {} : { sampling_param_top_p: topP }),
    ...(topK === undefined ? {} : { sampling_param_top_k: topK }),
    ...(seed === undefined ? {} : { sampling_param_seed: seed }),
    ...penalties,
  };
}
