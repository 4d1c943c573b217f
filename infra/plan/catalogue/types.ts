/**
 * Shapes of the catalogue: facts about models, releases, GPUs and machines, and names that stack files write. Rows are plain data,
 * so that a stack file can add one; every row says where its figures come from.
 */
import type { VisionType } from "./vision-types.ts";

/** A machine, rented or owned. */
export interface MachineType {
  readonly vcpus: number;
  readonly memoryGiB: number;
  readonly gpu: string;
  readonly gpus: number;
  /** Local NVMe in GB (10^9), or 0. */
  readonly localDiskGB: number;
  readonly networkMbps: number;
  /** Resources that Kubernetes leaves to pods; only for EC2 types. */
  readonly allocatable?: { readonly cpuMillis: number; readonly memoryMiB: number } | undefined;
}

/** Number format of activations, and of weights that are not quantized; TensorRT-LLM's `--dtype`. */
export const DTYPES = ["float16", "bfloat16"] as const;
export type Dtype = (typeof DTYPES)[number];

/**
 * `int8` and `int4` quantize weights only. The others are calibrated: `fp8` and `int8_sq` (SmoothQuant) quantize weights and
 * activations, `int4_awq` (AWQ) weights only.
 */
export const QUANTIZATIONS = ["none", "int8", "int4", "fp8", "int8_sq", "int4_awq"] as const;
export type Quantization = (typeof QUANTIZATIONS)[number];

/**
 * Needs of quantizations: a number format of the GPU, and samples that quantize.py calibrates with, as in NVIDIA's examples. For AWQ
 * quantize.py takes at most 32. tensorrt_llm/quantization/quantize_by_modelopt.py of NVIDIA/TensorRT-LLM at v0.10.0
 * to v0.16.0.
 */
export const quantizations: Readonly<
  Record<
    Exclude<Quantization, "none">,
    {
      readonly format: "fp8" | "int8" | "int4";
      readonly calibration: { readonly samples: number; readonly mostSamples: number } | null;
    }
  >
> = {
  int8: { format: "int8", calibration: null },
  int4: { format: "int4", calibration: null },
  fp8: { format: "fp8", calibration: { samples: 512, mostSamples: 100_000 } },
  int8_sq: { format: "int8", calibration: { samples: 512, mostSamples: 100_000 } },
  int4_awq: { format: "int4", calibration: { samples: 32, mostSamples: 32 } },
};

/** Calibration of a quantization by quantize.py; null if it needs no samples. */
export function calibrationOf(quantization: Quantization) {
  return quantization === "none" ? null : quantizations[quantization].calibration;
}

/** Whether a GPU computes a quantization. */
export function computesQuantization({ formats }: Pick<Gpu, "formats">, quantization: Quantization): boolean {
  return quantization === "none" || formats.includes(quantizations[quantization].format);
}

/** `engine`: TensorRT engines built ahead. `llmapi`: TensorRT-LLM's PyTorch backend, no engine; pictures of Qwen2.5-VL from 26.04 on. */
export const RUNTIMES = ["engine", "llmapi"] as const;
export type Runtime = (typeof RUNTIMES)[number];

/** Layout of TensorRT-LLM's files in the image: `ngc` as in NVIDIA's images, `tritonrelease` as in the stage of that name in TensorRT-LLM's own Dockerfile. */
export const IMAGE_LAYOUTS = ["ngc", "tritonrelease"] as const;
export type ImageLayout = (typeof IMAGE_LAYOUTS)[number];

/** How a model family becomes an engine: which converter, which visual builder. Mistral and Mixtral are converted as `llama`. */
export const RECIPES = ["gpt", "llama", "opt", "qwen", "mllama", "gemma", "falcon", "phi"] as const;
export type Recipe = (typeof RECIPES)[number];

/**
 * Kinds of model repository.
 * - `inflight_batcher_llm`: preprocessing, tensorrt_llm, postprocessing, ensemble and BLS; the C++ runtime.
 * - `multimodal`: the same with multimodal_encoders and its own ensemble.
 * - `llava`: the tutorials' repository (llava-1.5, vision_encoder, tensorrt_llm).
 * - `gpt`: all_models/gpt, the Python runtime.
 * - `tritonCli`: what `triton import` makes, a BLS under the model's own name, decoupled.
 * - `llmapi`: all_models/llmapi, one model, no engine.
 */
export const FLAVOURS = [
  "inflight_batcher_llm",
  "multimodal",
  "llava",
  "gpt",
  "tritonCli",
  "llmapi",
] as const;
export type Flavour = (typeof FLAVOURS)[number];

/** Repositories with a visual engine. */
export function takesImages(flavour: Flavour): flavour is "multimodal" | "llava" {
  return flavour === "multimodal" || flavour === "llava";
}

/** Repositories for models with images: with a visual engine, or with the model's own visual half. */
export function mayTakeImages(flavour: Flavour): flavour is "multimodal" | "llava" | "llmapi" {
  return takesImages(flavour) || flavour === "llmapi";
}

/** Pictures of golden questions; the builder's image has each as `/opt/engine-room/golden/<name>.png`. */
export const GOLDEN_PICTURE_NAMES = ["coffee"] as const;
export type GoldenPicture = (typeof GOLDEN_PICTURE_NAMES)[number];

/** Rules that a stack's resources keep: policy/ has what each looks at, docs/policies.md how far it sees. */
export const POLICY_NAMES = [
  "storage-is-encrypted",
  "public-endpoint-is-guarded",
  "api-is-not-open-to-all",
  "iam-action-has-no-wildcard",
  "resources-are-labelled",
  "price-is-below-cap",
  "gpu-pod-has-limits",
  "image-has-digest",
  "engine-store-is-protected",
  "release-has-fixes",
] as const;
export type PolicyName = (typeof POLICY_NAMES)[number];

/** `mandatory` ends a preview or an update, `advisory` is only said, `off` is not looked at. */
export const POLICY_LEVELS = ["mandatory", "advisory", "off"] as const;
export type PolicyLevel = (typeof POLICY_LEVELS)[number];

/** Largest requests that an engine accepts; TensorRT-LLM fixes them when it builds. */
export interface EngineLimits {
  /** Requests in one batch. */
  readonly maxBatchSize: number;
  /** Prompt of one request in tokens, visual tokens included. */
  readonly maxInputTokens: number;
  /** Answer of one request in tokens; `--max_seq_len` is this and `maxInputTokens` together. */
  readonly maxOutputTokens: number;
  /** Largest number of beams of a request; 1: no beam search. */
  readonly maxBeamWidth: number;
  /** Images (or video frames, as the model counts them) of one request; 0 for text models. */
  readonly maxImagesPerRequest: number;
  /** Tokens of all requests in one step (`--max_num_tokens`); absent: TensorRT-LLM's default of the release. */
  readonly maxNumTokens?: number | undefined;
}

/** A decoder, as arithmetic of memory and cache needs it. */
export interface Architecture {
  /** All parameters of the language model, embeddings included. */
  readonly parameters: number;
  /** Parameters of the input embedding and output head, which stay in `dtype` when weights are quantized. */
  readonly embeddingParameters: number;
  /** Transformer layers: `num_hidden_layers`. */
  readonly layers: number;
  /** Layers that keep keys and values of the text; absent: all. Fewer if cross-attention layers are interleaved. */
  readonly kvLayers?: number | undefined;
  /** Attention heads: `num_attention_heads`. */
  readonly heads: number;
  /** Heads of keys and values: `num_key_value_heads`; without grouping, as many as heads. */
  readonly kvHeads: number;
  /** Size of a head: `hidden_size` ÷ `num_attention_heads`. */
  readonly headDimension: number;
  /** Size of the hidden state: `hidden_size`. */
  readonly hiddenSize: number;
  /** Tokens of the vocabulary: `vocab_size`. */
  readonly vocabularySize: number;
  /** For a mixture of experts, such as Mixtral; absent: each token runs through all parameters. */
  readonly experts?:
    | {
        /** Experts that a token runs through: `num_experts_per_tok`. */
        readonly perToken: number;
        /** Width of an expert: `intermediate_size`. */
        readonly width: number;
      }
    | undefined;
}

/** Classes of transformers that resize by bicubic interpolation, divide by 255, subtract a mean and divide by a deviation. */
export const IMAGE_PROCESSORS = ["BlipImageProcessor", "CLIPImageProcessor", "SiglipImageProcessor"] as const;

/** How a model's pixels are made of a picture. */
export interface ImageProcessor {
  /** Its class; CLIP's resizes the shorter edge and takes the middle, the others make a square of the whole picture. */
  readonly class: (typeof IMAGE_PROCESSORS)[number];
  /** Pixels of an edge of the result. */
  readonly edge: number;
  /** Mean of red, green and blue (0 to 1), which is subtracted. */
  readonly mean: readonly [number, number, number];
  /** Standard deviation of red, green and blue, by which the differences are divided. */
  readonly std: readonly [number, number, number];
  /** Path of its `preprocessor_config.json` below the weights, which the build compares with these. */
  readonly file: string;
}

/** The visual half of a vision-language model. */
export interface VisionTower {
  /** Kind of visual engine, as TensorRT-LLM's multimodal example names it; `qwen2_5_vl` is served without an engine. */
  readonly modelType: VisionType;
  /** Parameters of the tower and its projector. */
  readonly parameters: number;
  /** How the language model sees an image: as prompt-table tokens, or by cross attention. */
  readonly attention: "prompt" | "cross";
  /** Tokens (or encoder positions, for cross attention) of one image. */
  readonly tokensPerImage: number;
  /**
   * Visual tokens of a whole request if images are cut in tiles or a video in frames; it replaces
   * `tokensPerImage × maxImagesPerRequest`.
   */
  readonly tokensPerRequest?: number | undefined;
  /** Runs of the visual engine for one image: tiles or frames, 1 if an image is one run. */
  readonly runsPerImage: number;
  /** Most images that one request may hold. */
  readonly maxImagesPerRequest: number;
  /** For a model that accepts frames of a video instead of images. */
  readonly video?:
    | {
        /** Frames if a request names no number. */
        readonly defaultFrames: number;
        /** Tokens of one frame; one more ends them. */
        readonly tokensPerFrame: number;
      }
    | undefined;
  /** Image processor for a model that Triton's preprocessing lacks; absent: Triton has it, or the model takes pixels. */
  readonly imageProcessor?: ImageProcessor | undefined;
  /** Whether Triton's multimodal_encoders needs the Hugging Face folder (`hf_model_path`). */
  readonly needsHubFolder: boolean;
  /** Python packages file of the release that the builder needs in addition to the image's own, such as `requirements-vila.txt`. */
  readonly requirements?: string | undefined;
  /** A source repository that the builder must have (`--vila_path`), at a commit. */
  readonly codeRepository?:
    | {
        /** Address that `git clone` takes. */
        readonly url: string;
        /** Commit, 40 hexadecimal digits; null if none could be verified. */
        readonly commit: string | null;
      }
    | undefined;
}

export interface HubSource {
  /** Hugging Face id. */
  readonly repository: string;
  /** Commit, 40 hexadecimal digits; null: `models[].revision` must name it. */
  readonly revision: string | null;
  /** Whether the hub requires an accepted licence and a token. */
  readonly gated: boolean;
  /** SPDX id, or the name of the licence. */
  readonly license: string;
  /** The same weights on ModelScope. */
  readonly modelScope?: string | undefined;
  /** Files to fetch, as glob patterns: one weights format, not all that the repository holds. */
  readonly include: readonly string[];
  /** Patterns to leave out though `include` matches them. */
  readonly exclude?: readonly string[] | undefined;
  /** Size of the fetched files in GB (10^9). */
  readonly downloadGB: number;
  /** Number format of the files, which decides how much memory conversion takes. */
  readonly storedDtype: "float32" | "float16" | "bfloat16";
}

export interface GoldenQuestion {
  /** Text of the question. */
  readonly prompt: string;
  /** Absent for a text model. */
  readonly image?: GoldenPicture | undefined;
  /** Maximum output tokens of the answer. */
  readonly maxTokens: number;
  /** The answer holds one of these, upper and lower case alike. */
  readonly answerContains: readonly string[];
}

export interface LanguageModel {
  /** Name of the model in reports. */
  readonly title: string;
  /** Where its weights come from. */
  readonly source: HubSource;
  /** Family of models that TensorRT-LLM converts it as; `llama` has Mistral and Mixtral too. */
  readonly recipe: Recipe;
  /** `--model_type` or `--gpt_variant` of the converter, if it needs one. */
  readonly converterModelType?: string | undefined;
  /** Figures of the model's `config.json`, from which memory and KV cache are computed. */
  readonly architecture: Architecture;
  /** Its visual half; absent: a text model. */
  readonly vision?: VisionTower | undefined;
  /** Number format in which it runs if a stack file names none. */
  readonly dtype: Dtype;
  /** Quantizations that its recipe can make. */
  readonly quantizations: readonly Quantization[];
  /** Whether pipeline parallelism is known to work. */
  readonly pipelineParallel: boolean;
  /** Longest sequence that the model was trained for, in tokens. */
  readonly trainedContextTokens: number;
  /** Limits of an engine when the stack file gives none. */
  readonly limits: EngineLimits;
  /** Repositories that can serve it, the default first. */
  readonly flavours: readonly Flavour[];
  /** Runtimes that can serve it: a TensorRT engine, or the LLM API of TensorRT-LLM. */
  readonly runtimes: readonly Runtime[];
  /** Facts of its tokenizer that Triton needs. */
  readonly tokenizer: {
    /** Id of the token that ends an answer: `eos_token_id`. */
    readonly endId: number;
    /** Id of the token that fills a batch: `pad_token_id`, or the end token. */
    readonly padId: number;
    /** Whether TensorRT-LLM's tokenizer adds the begin token by itself. */
    readonly addsBeginToken: boolean;
  };
  /** Jinja template and stop words for chat; absent: the model completes text. */
  readonly chat?:
    | {
        /** Jinja template, as in `tokenizer_config.json`. */
        readonly template: string;
        /** Texts that end an answer. */
        readonly stopWords: readonly string[];
      }
    | undefined;
  /** Text around a question about an image; `{question}` stands for it, and the image's mark is written out. */
  readonly imagePrompt?: string | undefined;
  /**
   * A question whose answer shows that an engine works. Questions about a picture use this project's own picture: the
   * licences of the pictures in NVIDIA's walkthroughs are unknown.
   */
  readonly golden: GoldenQuestion;
  /** Where the figures come from. */
  readonly sources: readonly string[];
}

export interface Release {
  /** `YY.MM` of `nvcr.io/nvidia/tritonserver:YY.MM-trtllm-python-py3`. */
  readonly tag: string;
  readonly tensorRtLlm: string;
  /** null if no document names it. */
  readonly tensorRt: string | null;
  readonly cuda: string | null;
  /** Least NVIDIA driver. */
  readonly minimumDriver: string | null;
  /** Size of the image as pulled and unpacked, in GB (10^9); null if unknown. */
  readonly imageGB: number | null;
  /** Set of templates in the image; null if unknown. */
  readonly templates: string | null;
  /**
   * Commit of triton-inference-server/tensorrtllm_backend whose converters, templates and tools this project adds to NVIDIA's
   * image; absent if that image has them (/app/examples, /app/all_models …).
   */
  readonly backendCommit?: string | undefined;
  readonly runtimes: readonly Runtime[];
  /**
   * Python packages that are too old in NVIDIA's image for its own TensorRT-LLM, as lines of a requirements file with hashes, which
   * this project's image installs; absent if none is.
   */
  readonly pythonUpgrades?: readonly string[] | undefined;
  /** The LLM API of the image's TensorRT-LLM takes pictures beside a prompt, which this project's part of its llmapi model hands it. */
  readonly hasLlmapiPictures?: true | undefined;
  /** Whether every fact that a plan needs was read in a source; the others are refused without `acceptUnverified`. */
  readonly verified: boolean;
  readonly note?: string | undefined;
  /** Runtimes that upstream has given up: from which date or release on, and where it says so. */
  readonly endOfLife: readonly {
    readonly runtime: Runtime | "multimodal";
    readonly statement: string;
    readonly source: string;
  }[];
}

export interface Gpu {
  /** Marketing name without vendor: `A10G`. */
  readonly name: string;
  /** `8.6`. */
  readonly computeCapability: string;
  readonly architecture: "Turing" | "Ampere" | "Ada" | "Hopper";
  /** Memory that the EC2 API reports for it. */
  readonly memoryGiB: number;
  /** Whether GPUs of one machine talk over NVLink; without it tensor parallelism is slower. */
  readonly nvlink: boolean;
  /** MIG profiles to memory in GiB; empty if the GPU can't be partitioned. */
  readonly migProfiles: Readonly<Record<string, number>>;
  /** Which of {@link DTYPES} and `fp8` it computes. */
  readonly formats: readonly (Dtype | "fp8" | "int8" | "int4")[];
  /** Whether TensorRT-LLM's support matrix lists it. */
  readonly supported: boolean;
}
