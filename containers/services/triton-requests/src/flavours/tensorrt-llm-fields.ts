/** Inputs that the repositories of TensorRT-LLM's own text models share. */
import type { RequestProfile } from "../profile.ts";
import type { Fields, GenerationRequest } from "../request.ts";

/** Text, limits, sampling and penalties by the names of `ensemble`. */
export function textFields(profile: RequestProfile, request: GenerationRequest): Fields {
  return {
    text_input: request.text,
    max_tokens: request.maxTokens,
    // The empty text means "none"; releases before 24.01, and all_models/gpt, require both tensors.
    bad_words: wordList(request.badWords),
    stop_words: wordList(request.stopWords),
    ...(profile.endId === null ? {} : { end_id: profile.endId }),
    ...(profile.padId === null ? {} : { pad_id: profile.padId }),
    ...(request.minTokens === undefined ? {} : { [profile.minTokensField]: request.minTokens }),
    ...samplingFields(request, profile.seedField),
    ...penaltyFields(request),
    ...(request.beamWidth === undefined ? {} : { beam_width: request.beamWidth }),
  };
}

function wordList(words: readonly string[] | undefined): string | readonly string[] {
  return words === undefined || words.length === 0 ? "" : words;
}

function samplingFields(request: GenerationRequest, seedField: RequestProfile["seedField"]): Fields {
  const { temperature, topP, topK, seed } = request;
  // Temperature 0 is no number to divide by: the most probable token is top_k 1.
  if (temperature === 0) return { top_k: 1 };
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(topK === undefined ? {} : { top_k: topK }),
    ...(seed === undefined ? {} : { [seedField]: seed }),
  };
}

function penaltyFields({
  frequencyPenalty = 0,
  presencePenalty = 0,
  repetitionPenalty = 1,
}: GenerationRequest): Fields {
  return {
    ...(frequencyPenalty === 0 ? {} : { frequency_penalty: frequencyPenalty }),
    ...(presencePenalty === 0 ? {} : { presence_penalty: presencePenalty }),
    ...(repetitionPenalty === 1 ? {} : { repetition_penalty: repetitionPenalty }),
  };
}

/** `stream: true` fails on a model that is not decoupled; such a model answers a stream's request with one event. */
export function streamField({ decoupled }: RequestProfile, { stream = false }: GenerationRequest): Fields {
  return stream && decoupled ? { stream: true } : {};
}

/** Asks for the numbers of tokens. A name that is no input reaches the model as a parameter, which TensorRT-LLM ignores. */
export function countFields({ countTokens = false }: GenerationRequest): Fields {
  return countTokens ? { return_num_input_tokens: true, return_num_output_tokens: true } : {};
}
