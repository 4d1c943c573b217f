/** What a client must know of a served model to ask it: plain JSON, handed out by whoever fills the model repository. */

/**
 * Kinds of model repository.
 * - `inflight_batcher_llm`: `ensemble` and `tensorrt_llm_bls` of all_models/inflight_batcher_llm, and this project's CPU models.
 * - `multimodal`: the same with all_models/multimodal over it.
 * - `llava`: the LLaVA-1.5 repository of Triton's tutorials.
 * - `gpt`: all_models/gpt, the Python runtime.
 * - `tritonCli`: what `triton import` makes: a decoupled BLS under the model's own name.
 * - `llmapi`: all_models/llmapi.
 */
export const REQUEST_FLAVOURS = [
  "inflight_batcher_llm",
  "multimodal",
  "llava",
  "gpt",
  "tritonCli",
  "llmapi",
] as const;
export type RequestFlavour = (typeof REQUEST_FLAVOURS)[number];

/**
 * Ways in which an image reaches a model. `httpUrl`: the server fetches it. `dataUrl`: base64 in the request. `pixels`: raw
 * pixels as UINT8 tensor. `processedPixels`: FP16 tensor of the model's own Hugging Face processor.
 */
export const IMAGE_KINDS = ["httpUrl", "dataUrl", "pixels", "processedPixels"] as const;
export type ImageKind = (typeof IMAGE_KINDS)[number];

export interface ImageProfile {
  readonly accepts: readonly ImageKind[];
  /** Images of one request at most. */
  readonly maxImages: number;
  /** Whether a request without image fails in the server. */
  readonly isRequired: boolean;
  /** Whether a request may hold the frames of a video instead. */
  readonly takesVideo: boolean;
  /** Text that stands in the prompt for an image; null where preprocessing places images by itself. */
  readonly mark: string | null;
  /** Text around a bare question: `{question}`, and `{marks}` for one mark an image, each in a line of its own. */
  readonly prompt: string;
  /** Tokens that an image takes of the context; 0 where the model sees it through cross attention. */
  readonly tokensPerImage: number;
}

export interface RequestProfile {
  readonly flavour: RequestFlavour;
  /** Triton model that is asked for whole answers. */
  readonly tritonModel: string;
  /** Triton model that is asked for streams; most often the same. */
  readonly streamingModel: string;
  /** Input that seeds the sampling: `random_seed` until TensorRT-LLM 0.19, `seed` since 0.20 (backend branch r25.05). */
  readonly seedField: "seed" | "random_seed";
  /** Input for the least number of tokens; renamed together with the seed. */
  readonly minTokensField: "min_tokens" | "min_length";
  /**
   * Whether an answer begins with the prompt. `excluded`: the repository was filled with `exclude_input_in_output:True`.
   * `repeated`: it was not, and TensorRT-LLM's default is False; the text comes back as far as it has no special tokens.
   */
  readonly promptEcho: "excluded" | "repeated";
  /**
   * What an event of a stream holds. `delta`: the new text. `cumulative`: all text so far, which is what
   * `tensorrt_llm_bls` with `accumulate_tokens:True` sends, the only way in which SentencePiece models keep their spaces.
   */
  readonly streamedText: "delta" | "cumulative";
  /** Whether the model has the decoupled transaction policy, without which it can't stream. */
  readonly decoupled: boolean;
  /** Token id that ends an answer; null for the tokenizer's own. */
  readonly endId: number | null;
  /** Token id that fills a batch; null for the tokenizer's own. */
  readonly padId: number | null;
  /** null for a model that reads text only. */
  readonly image: ImageProfile | null;
  /** Whether the KV cache is reused between requests; a request with images then needs `prompt_table_extra_id`. */
  readonly kvCacheReuse: boolean;
}

type VisionRow = Omit<ImageProfile, "maxImages" | "tokensPerImage">;

/**
 * Popular_Models_Guide/Llava1.5 of triton-inference-server/tutorials with the patches of containers/trtllm: model.py fetches
 * `image`, which may be a data URL, and wants exactly one `<image>` in the prompt.
 */
const TUTORIAL_LLAVA = {
  accepts: ["dataUrl", "httpUrl"],
  isRequired: true,
  takesVideo: false,
  mark: "<image>",
  prompt: "USER: {marks}\nQuestion: {question} Answer:",
} as const satisfies VisionRow;

/** 24 × 24 patches of 14 pixels of an image of 336 × 336. */
const LLAVA_TOKENS_PER_IMAGE = 576;

const TEXT_DEFAULTS = {
  tritonModel: "ensemble",
  seedField: "seed",
  minTokensField: "min_tokens",
  promptEcho: "excluded",
  streamedText: "delta",
  decoupled: true,
  endId: null,
  padId: null,
  image: null,
  kvCacheReuse: false,
} as const satisfies Omit<RequestProfile, "flavour" | "streamingModel">;

/** What each kind of repository is when nothing else is said. */
const DEFAULTS: Readonly<
  Record<
    RequestFlavour,
    Omit<RequestProfile, "flavour" | "tritonModel" | "streamingModel"> & {
      readonly tritonModel: string | null;
    }
  >
> = {
  inflight_batcher_llm: TEXT_DEFAULTS,
  multimodal: TEXT_DEFAULTS,
  // Its config.pbtxt is decoupled, and its model.py sends one response at the end.
  llava: {
    ...TEXT_DEFAULTS,
    tritonModel: "llava-1.5",
    image: { ...TUTORIAL_LLAVA, maxImages: 1, tokensPerImage: LLAVA_TOKENS_PER_IMAGE },
  },
  // postprocessing decodes all that the runtime returns, and that begins with the prompt.
  gpt: { ...TEXT_DEFAULTS, promptEcho: "repeated", decoupled: false },
  // Named by whoever imports it; its templates keep the older names.
  tritonCli: { ...TEXT_DEFAULTS, tritonModel: null, seedField: "random_seed", minTokensField: "min_length" },
  // Every response holds CompletionOutput.text, which is all text so far; model.yaml says decoupled: False.
  llmapi: { ...TEXT_DEFAULTS, tritonModel: "tensorrt_llm", streamedText: "cumulative", decoupled: false },
};

/**
 * A profile from its flavour and what differs from the flavour's defaults.
 * @throws TypeError for `tritonCli` without `tritonModel`: it has the name under which the model was imported.
 */
export function requestProfile(
  flavour: RequestFlavour,
  differences: Partial<Omit<RequestProfile, "flavour">> = {},
): RequestProfile {
  const profile = { ...DEFAULTS[flavour], ...differences };
  const { tritonModel } = profile;
  if (tritonModel === null) throw new TypeError(`a profile of flavour ${flavour} needs tritonModel`);
  return { flavour, streamingModel: tritonModel, ...profile, tritonModel };
}

/** The usual text models by the names that configurations give them; `tritonModel` is left to the configuration. */
export const NAMED_PROFILES = {
  /** `ensemble` of TensorRT-LLM 0.20 (25.06) and newer, and this project's CPU models. */
  inflight_batcher_llm: requestProfile("inflight_batcher_llm"),
  /** The same, filled without `exclude_input_in_output:True`. */
  inflight_batcher_llm_echo: requestProfile("inflight_batcher_llm", { promptEcho: "repeated" }),
  /** `tensorrt_llm_bls` with `accumulate_tokens:True`, same releases. */
  inflight_batcher_llm_bls: requestProfile("inflight_batcher_llm", { streamedText: "cumulative" }),
  /** `ensemble` of the releases before: 23.12 to 25.04. */
  inflight_batcher_llm_legacy: requestProfile("inflight_batcher_llm", {
    seedField: "random_seed",
    minTokensField: "min_length",
  }),
} as const satisfies Readonly<Record<string, RequestProfile>>;
export type ProfileName = keyof typeof NAMED_PROFILES;

/** `model_type` of a visual engine, as its config.json records it (`blip2` stands for `blip2-opt`). */
export type VisionModelType = "llava" | "blip2" | "vila" | "llava_onevision" | "mllama";

/** Models whose images multimodal_encoders takes only as `image_input`: preprocessing refuses URLs and bytes for them. */
const PROCESSED = { accepts: ["processedPixels"], isRequired: true, takesVideo: false } as const;
/** Models for which preprocessing runs the Hugging Face processor itself. */
const RAW = { accepts: ["httpUrl", "dataUrl", "pixels"], takesVideo: false } as const;

/**
 * How Triton's preprocessing treats each vision model: all_models/inflight_batcher_llm/preprocessing/1/model.py and
 * docs/multimodal.md of triton-inference-server/tensorrtllm_backend, branch r25.05. It puts the chat form of LLaVA ("USER:",
 * "ASSISTANT:"), VILA and LLaVA-OneVision ("<|im_start|>user …") around the text by itself.
 */
const VISION_ROWS: Readonly<Record<VisionModelType, VisionRow>> = {
  llava: { ...PROCESSED, mark: null, prompt: "\n {question}" },
  blip2: { ...PROCESSED, mark: null, prompt: "Question: {question} Answer:" },
  vila: { ...PROCESSED, mark: null, prompt: "\n {question}" },
  // It asserts that there is an image or a video, and puts the image before the text.
  llava_onevision: { ...RAW, isRequired: true, takesVideo: true, mark: null, prompt: "{question}" },
  // multimodal_encoders skips itself where there is no image.
  mllama: { ...RAW, isRequired: false, mark: "<|image|>", prompt: "{marks}{question}" },
};

/** Where `max_num_images` is above 1, preprocessing splits the text at this mark instead of placing the image first. */
export const SPLIT_MARK = "<image>";
const SEVERAL_IMAGES: Pick<VisionRow, "mark" | "prompt"> = {
  mark: SPLIT_MARK,
  prompt: "{marks}\n {question}",
};

/**
 * How a vision model takes images in a repository of a kind.
 * @param maxImages - `max_num_images` of preprocessing.
 * @param tokensPerImage - Visual tokens of an image in the prompt; 0 for cross attention.
 */
export function imageProfile(
  modelType: VisionModelType,
  flavour: "multimodal" | "llava",
  { maxImages, tokensPerImage }: Pick<ImageProfile, "maxImages" | "tokensPerImage">,
): ImageProfile {
  if (flavour === "llava") return { ...TUTORIAL_LLAVA, maxImages: 1, tokensPerImage };
  const row = VISION_ROWS[modelType];
  const isSplit = maxImages > 1 && row.mark === null;
  return { ...row, ...(isSplit ? SEVERAL_IMAGES : {}), maxImages, tokensPerImage };
}
