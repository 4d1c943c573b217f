/** Profile of a served model for its clients: plain JSON, from the plan that fills the model repository. */
import { z } from "zod";

/**
 * Kinds of model repository.
 * - `inflight_batcher_llm`: `ensemble` and `tensorrt_llm_bls` of all_models/inflight_batcher_llm, and this project's CPU models.
 * - `multimodal`: the same with all_models/multimodal over it.
 * - `llava`: the LLaVA-1.5 repository of Triton's tutorials.
 * - `gpt`: all_models/gpt, the Python runtime.
 * - `tritonCli`: what `triton import` makes: a decoupled BLS under the model's own name.
 * - `llmapi`: all_models/llmapi.
 */
const flavourSchema = z.enum(["inflight_batcher_llm", "multimodal", "llava", "gpt", "tritonCli", "llmapi"]);
export type RequestFlavour = z.infer<typeof flavourSchema>;

/** A name that Triton has in its model repository: it becomes a part of a URL path. */
const tritonName = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[A-Za-z0-9_.-]+$/, "must be a Triton model or tensor name: letters, digits and . _ -");

const tokenId = z
  .int()
  .min(0)
  .max(2 ** 31 - 1);

const imageProfileSchema = z
  .strictObject({
    /**
     * Whether a request may hold an image as an http(s) URL, which the server fetches, or as a data URL. If it may not, images
     * travel only as the FP16 tensor of the model's own Hugging Face processor, which the server lacks.
     */
    takesFiles: z.boolean(),
    /** Images of one request at most. */
    maxImages: z.int().min(1),
    /** Whether a request without image fails in the server. */
    isRequired: z.boolean(),
    /** Placeholder of an image in the prompt; null if preprocessing places images by itself. */
    mark: z.string().min(1).nullable(),
    /** Text around a bare question: `{question}`, and `{marks}` for one mark an image, each in a line of its own. */
    prompt: z.string(),
    /** Tokens that an image takes of the context; 0 if the model sees it through cross attention. */
    tokensPerImage: z.int().min(0),
    /** Limits of a model that takes frames of a video in place of images. */
    video: z
      .strictObject({
        /** Default number of frames. */
        defaultFrames: z.int().min(1),
        /** Frames of one request at most. */
        maxFrames: z.int().min(1),
        /** Tokens that a frame takes of the context. */
        tokensPerFrame: z.int().min(1),
      })
      .readonly()
      .optional(),
  })
  .readonly();
export type ImageProfile = z.infer<typeof imageProfileSchema>;

/** Every key of a profile. */
export const requestProfileSchema = z
  .strictObject({
    flavour: flavourSchema,
    /** Triton model that is asked for whole answers. */
    tritonModel: tritonName,
    /** Triton model that is asked for streams; most often the same. */
    streamingModel: tritonName,
    /** Input that seeds the sampling: `random_seed` until TensorRT-LLM 0.19, `seed` since 0.20 (backend branch r25.05). */
    seedField: z.enum(["seed", "random_seed"]),
    /**
     * Whether an answer begins with the prompt. `excluded`: the repository was filled with `exclude_input_in_output:True`.
     * `repeated`: it was not, and TensorRT-LLM's default is False; the text comes back as far as it has no special tokens.
     */
    promptEcho: z.enum(["excluded", "repeated"]),
    /**
     * Text in an event of a stream. `delta`: the new text. `cumulative`: all text so far, as `tensorrt_llm_bls` with
     * `accumulate_tokens:True` sends it, the only way in which SentencePiece models keep their spaces.
     */
    streamedText: z.enum(["delta", "cumulative"]),
    /** Whether the model has the decoupled transaction policy, without which it can't stream. */
    decoupled: z.boolean(),
    /** Token id that ends an answer; null for the tokenizer's own. */
    endId: tokenId.nullable(),
    /** Token id that fills a batch; null for the tokenizer's own. */
    padId: tokenId.nullable(),
    /** null for a model that reads text only. */
    image: imageProfileSchema.nullable(),
    /** Whether the KV cache is reused between requests; a request with images then needs `prompt_table_extra_id`. */
    kvCacheReuse: z.boolean(),
  })
  .readonly();
export type RequestProfile = z.infer<typeof requestProfileSchema>;

type VisionRow = Omit<ImageProfile, "maxImages" | "tokensPerImage" | "video">;

/**
 * Popular_Models_Guide/Llava1.5 of triton-inference-server/tutorials with the patches of containers/trtllm: model.py fetches
 * `image`, which may be a data URL, and requires exactly one `<image>` in the prompt.
 */
const TUTORIAL_LLAVA = {
  takesFiles: true,
  isRequired: true,
  mark: "<image>",
  prompt: "USER: {marks}\nQuestion: {question} Answer:",
} as const satisfies VisionRow;

const TEXT_DEFAULTS = {
  tritonModel: "ensemble",
  seedField: "seed",
  promptEcho: "excluded",
  streamedText: "delta",
  decoupled: true,
  endId: null,
  padId: null,
  image: null,
  kvCacheReuse: false,
} as const satisfies Omit<RequestProfile, "flavour" | "streamingModel">;

/** How each kind of repository differs from {@link TEXT_DEFAULTS} when nothing else is said. */
const DEFAULTS: Readonly<Record<RequestFlavour, Partial<RequestProfile>>> = {
  inflight_batcher_llm: {},
  multimodal: {},
  // Its config.pbtxt is decoupled, and its model.py sends one response at the end.
  llava: {
    tritonModel: "llava-1.5",
    // 24 × 24 patches of 14 pixels of an image of 336 × 336.
    image: { ...TUTORIAL_LLAVA, maxImages: 1, tokensPerImage: 576 },
  },
  // postprocessing decodes all that the runtime returns, and that begins with the prompt.
  gpt: { promptEcho: "repeated", decoupled: false },
  // Its templates keep the older names.
  tritonCli: { seedField: "random_seed" },
  // Every response holds CompletionOutput.text, which is all text so far; model.yaml says decoupled: False.
  llmapi: { tritonModel: "tensorrt_llm", streamedText: "cumulative", decoupled: false },
};

/** A profile from its flavour and what differs from the flavour's defaults. */
export function requestProfile(
  flavour: RequestFlavour,
  differences: Partial<Omit<RequestProfile, "flavour">> = {},
): RequestProfile {
  const profile = { flavour, ...TEXT_DEFAULTS, ...DEFAULTS[flavour], ...differences };
  return { streamingModel: profile.tritonModel, ...profile };
}

/** `model_type` of a visual engine, as its config.json records it (`blip2` stands for `blip2-opt`). */
export type VisionModelType = "llava" | "blip2" | "vila" | "llava_onevision" | "mllama" | "qwen2_5_vl";

/** Models whose images the templates' own preprocessing refuses as URLs and bytes. */
const PROCESSED = { takesFiles: false, isRequired: true } as const;

/**
 * How Triton's preprocessing treats each vision model, of some of which it runs the Hugging Face processor itself: all_models/inflight_batcher_llm/preprocessing/1/model.py and
 * docs/multimodal.md of triton-inference-server/tensorrtllm_backend, branch r25.05. It puts the chat form of LLaVA ("USER:",
 * "ASSISTANT:"), VILA and LLaVA-OneVision ("<|im_start|>user …") around the text by itself.
 */
const VISION_ROWS: Readonly<Record<VisionModelType, VisionRow>> = {
  llava: { ...PROCESSED, mark: null, prompt: "\n {question}" },
  blip2: { ...PROCESSED, mark: null, prompt: "Question: {question} Answer:" },
  vila: { ...PROCESSED, mark: null, prompt: "\n {question}" },
  // It asserts that there is an image or a video, and puts the image before the text.
  llava_onevision: { takesFiles: true, isRequired: true, mark: null, prompt: "{question}" },
  // multimodal_encoders skips itself if there is no image.
  mllama: { takesFiles: true, isRequired: false, mark: "<|image|>", prompt: "{marks}{question}" },
  // The LLM API adds nothing to a prompt: this is the model's chat with one question.
  qwen2_5_vl: {
    takesFiles: true,
    isRequired: false,
    mark: "<|vision_start|><|image_pad|><|vision_end|>",
    prompt:
      "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" +
      "<|im_start|>user\n{marks}{question}<|im_end|>\n<|im_start|>assistant\n",
  },
};

/** If `max_num_images` is above 1, preprocessing splits the text at this mark instead of placing the image first. */
export const SPLIT_MARK = "<image>";
const SEVERAL_IMAGES = { mark: SPLIT_MARK, prompt: "{marks}\n {question}" };

/**
 * How a vision model takes images in a repository of a kind.
 * @param maxImages - `max_num_images` of preprocessing.
 * @param tokensPerImage - Visual tokens of an image in the prompt; 0 for cross attention.
 * @param hasProcessor - Whether this project's image processor stands before the templates' own preprocessing.
 * @param video - Absent: it takes none.
 */
export function imageProfile(
  modelType: VisionModelType,
  flavour: "multimodal" | "llava" | "llmapi",
  {
    maxImages,
    tokensPerImage,
    video,
    hasProcessor = false,
  }: Pick<ImageProfile, "maxImages" | "tokensPerImage" | "video"> & { readonly hasProcessor?: boolean },
): ImageProfile {
  if (flavour === "llava") return { ...TUTORIAL_LLAVA, maxImages: 1, tokensPerImage };
  const row = VISION_ROWS[modelType];
  // All images of LLaVA-OneVision stand before the text.
  const isSplit = maxImages > 1 && row.mark === null && modelType !== "llava_onevision";
  const takesFiles = hasProcessor || row.takesFiles;
  const split = isSplit ? SEVERAL_IMAGES : {};
  return { ...row, takesFiles, ...split, maxImages, tokensPerImage, ...(video && { video }) };
}
