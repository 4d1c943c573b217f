/** Names of inputs for each kind of model repository, and options that it does not support. */
import { imageId } from "./images.ts";
import { type RequestFlavour, type RequestProfile, SPLIT_MARK } from "./profile.ts";
import { type Fields, type GenerationRequest, RequestError } from "./request.ts";

/** Neutral values of options for which not every model has an input. */
const NEUTRAL: Pick<
  GenerationRequest,
  "topP" | "frequencyPenalty" | "presencePenalty" | "beamWidth" | "stopWords"
> = {
  topP: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  beamWidth: 1,
  stopWords: [],
};

/** Values of inputs: a part of the request, a value of the profile, or a constant. */
type Carried =
  | keyof GenerationRequest
  | "imageId"
  | "badWords"
  | "endId"
  | "padId"
  | "excludesPrompt"
  | "givesFinishReason";
type Values = Readonly<Partial<Record<Carried, Fields[string] | undefined>>>;

interface Flavour {
  /** Names of the inputs, in the order in which they are sent. An option without input is refused. */
  readonly inputs: Readonly<Partial<Record<Carried, string>>>;
  /** Output that holds the answer. */
  readonly textOutput: "text_output" | "text";
  /** Values sent in place of options, undefined for none; absent: as {@link withoutNeutral} says. */
  readonly adapted?: (request: GenerationRequest) => Values;
  /** The same in every request. */
  readonly fixed?: Fields;
  /** Inputs that ask for the numbers of tokens. */
  readonly counting?: Fields;
}

const TEXT_INPUTS = { text: "text_input", maxTokens: "max_tokens" };
/** The profile knows what older releases call `seed`. */
const OPTION_INPUTS = {
  endId: "end_id",
  padId: "pad_id",
  temperature: "temperature",
  topP: "top_p",
  topK: "top_k",
  seed: "seed",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
  beamWidth: "beam_width",
};
const ENSEMBLE_INPUTS = {
  ...TEXT_INPUTS,
  badWords: "bad_words",
  stopWords: "stop_words",
  ...OPTION_INPUTS,
  stream: "stream",
};

/** `ensemble` and `tensorrt_llm_bls` of all_models/inflight_batcher_llm. */
const INFLIGHT_BATCHER: Flavour = {
  inputs: ENSEMBLE_INPUTS,
  textOutput: "text_output",
  // Older releases, without these inputs, get them as parameters, which TensorRT-LLM ignores, and do not count.
  counting: { return_num_input_tokens: true, return_num_output_tokens: true },
};

export const FLAVOURS: Readonly<Record<RequestFlavour, Flavour>> = {
  inflight_batcher_llm: INFLIGHT_BATCHER,
  /**
   * The multimodal guide of tensorrtllm_backend nests the options in `parameters`. Triton's generate extension reads that
   * object like the top level: a name that is an input becomes a tensor, any other a request parameter. So everything is at
   * the top here.
   */
  multimodal: {
    inputs: { ...ENSEMBLE_INPUTS, images: "image_url_input", imageId: "prompt_table_extra_id" },
    textOutput: "text_output",
  },
  /** It answers with one response, and reports its tokens and finish reason. */
  llava: {
    inputs: {
      text: "prompt",
      images: "image",
      maxTokens: "max_tokens",
      temperature: "temperature",
      topK: "top_k",
      frequencyPenalty: "frequency_penalty",
      seed: "seed",
    },
    textOutput: "text",
    adapted: withNarrowTopK,
  },
  /** Its preprocessing encodes stop and bad words, but its ensemble does not use them; it has no stream. */
  gpt: {
    inputs: { ...TEXT_INPUTS, ...OPTION_INPUTS },
    textOutput: "text_output",
    fixed: { bad_words: "", stop_words: "" },
  },
  /**
   * Decoupled, with `exclude_input_in_output` (triton_cli, src/triton_cli/trt_llm/engine_config_parser.py). Triton's
   * /generate requires exactly one response; a request without `stream` gets one, decoupled or not, so it goes to
   * /generate, as in the Llama-2 tutorial of Triton.
   */
  tritonCli: INFLIGHT_BATCHER,
  /**
   * triton_backend/all_models/llmapi/tensorrt_llm of TensorRT-LLM (config.pbtxt and 1/helpers.py). It counts no tokens.
   * `image_url` is this project's part of it. `sampling_param_stop` is not used: helpers.py passes the tensor's bytes to
   * SamplingParams.stop, which takes text. Its inputs of a seed and of penalties are not used either: the sampler of
   * TensorRT-LLM's PyTorch backend ignores them up to 1.2 (https://github.com/NVIDIA/TensorRT-LLM/pull/17172 and 16485).
   */
  llmapi: {
    inputs: {
      text: "text_input",
      images: "image_url",
      maxTokens: "sampling_param_max_tokens",
      temperature: "sampling_param_temperature",
      topP: "sampling_param_top_p",
      topK: "sampling_param_top_k",
      excludesPrompt: "sampling_param_exclude_input_from_output",
      givesFinishReason: "return_finish_reason",
      stream: "streaming",
    },
    textOutput: "text_output",
  },
};

/**
 * Temperature 0, which can't be a divisor, becomes top_k 1: the most probable token. Another temperature gets both limits, because
 * TensorRT-LLM makes top_k 1 of a request without them (setTopPRuntimeArgs, cpp/tensorrt_llm/kernels/samplingTopPKernels.cu).
 */
function withoutNeutral(request: GenerationRequest): Values {
  const { temperature, topP = 1, topK = 0, frequencyPenalty, presencePenalty, beamWidth } = request;
  return {
    ...(temperature === 0 && { temperature: undefined, topP: undefined, topK: 1, seed: undefined }),
    ...(temperature !== undefined && temperature > 0 && { topP, topK }),
    frequencyPenalty: frequencyPenalty || undefined,
    presencePenalty: presencePenalty || undefined,
    beamWidth: beamWidth === 1 ? undefined : beamWidth,
  };
}

/**
 * Most tokens that TensorRT-LLM's top-k kernel chooses from (TOP_K_MAX, cpp/tensorrt_llm/kernels/samplingTopKKernels.h).
 * llava has no `top_p`, and TensorRT-LLM takes neither top_k nor top_p for greedy: this is as near to "no limit" as it gets.
 */
const WIDEST_TOP_K = 1024;

/** Other given values are sent, 0 too: llava's own defaults are temperature 0.5, top_k 1, frequency_penalty 0.7, seed 10. */
function withNarrowTopK({ temperature, topK }: GenerationRequest): Values {
  if (temperature === 0) return { topK: 1 };
  return topK === 0 || (topK === undefined && temperature !== undefined) ? { topK: WIDEST_TOP_K } : {};
}

/** Whether the server itself ends an answer at stop words; if it does not, the caller cuts the text. */
export function takesStopWords({ flavour }: RequestProfile): boolean {
  return "stopWords" in FLAVOURS[flavour].inputs;
}

/** Whether a seed reaches the sampler. */
export function takesSeed({ flavour }: RequestProfile): boolean {
  return "seed" in FLAVOURS[flavour].inputs;
}

/**
 * Inputs of a checked request by their names.
 * @throws RequestError for an option that would change the answer and has no input.
 */
export function requestFields(
  profile: RequestProfile,
  request: GenerationRequest,
  images: readonly string[],
): Fields {
  const { inputs, adapted = withoutNeutral, fixed, counting } = FLAVOURS[profile.flavour];
  refuseMissingOptions(profile, request);
  const values: Values = {
    ...request,
    ...adapted(request),
    // A bare text for one, as the walkthroughs send it. The input has one text a prompt, and Triton would take a list for several
    // prompts; this project's part of preprocessing takes a text apart.
    images:
      images.length > 1 && profile.image?.mark && profile.image.mark !== SPLIT_MARK
        ? images
        : images.join(" ") || undefined,
    imageId: "imageId" in inputs && profile.kvCacheReuse ? imageId(images) : undefined,
    // The empty text means "none"; releases before 24.01 require both tensors.
    badWords: "",
    stopWords: request.stopWords?.length ? request.stopWords : "",
    endId: profile.endId ?? undefined,
    padId: profile.padId ?? undefined,
    // The default of llmapi's model.py is false.
    excludesPrompt: profile.promptEcho === "excluded",
    givesFinishReason: true,
    // It fails on a model that is not decoupled; such a model answers a stream's request with one event.
    stream: request.stream && profile.decoupled ? true : undefined,
  };
  const fields = Object.entries(inputs).map(([carried, name]) => [
    name === "seed" ? profile.seedField : name,
    values[carried as Carried],
  ]);
  return {
    ...Object.fromEntries(fields.filter(([, value]) => value !== undefined)),
    ...fixed,
    ...(request.countTokens ? counting : {}),
  };
}

/** @throws RequestError for an option that would change the answer, and that this kind of repository can't apply. */
export function refuseMissingOptions({ flavour }: RequestProfile, request: Partial<GenerationRequest>): void {
  for (const [option, neutral] of Object.entries(NEUTRAL)) {
    const value = request[option as keyof typeof NEUTRAL] ?? neutral;
    // With temperature 0 the most probable token is taken, whatever top_p is.
    const isGreedy = option === "topP" && request.temperature === 0;
    if (option in FLAVOURS[flavour].inputs || isGreedy || String(value) === String(neutral)) continue;
    throw new RequestError(
      "unsupported_option",
      option,
      `${option} is ${JSON.stringify(value)}, and this model (${flavour} repository) can't apply it; leave it out.`,
    );
  }
}
