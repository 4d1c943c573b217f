/** How the encoders become what Triton serves, as data: what the builder reads of it, and what Triton loads. */
import type { EncoderBuildSpec } from "../container-spec-schemas.ts";
import type { Word } from "../engine/types.ts";
import type { ModelConfig } from "../repository/model-config.ts";

type Built = EncoderBuildSpec["plan"];
type BuiltModel = Built["models"][number];

/** Models that clients ask, besides the ensemble. */
export type EncoderModelName = "clip_text" | "text_encoder" | "vision_encoder";

/** Folders and files that a command names; where they are depends on store and key, so no key depends on them. */
export type EncoderPlace =
  /** Folder of the hub's files at their commit, shared by all builds. */
  | "weights"
  /** Folder of tokenizer.json or preprocess.json, which the client's model reads. */
  | "assets"
  /** The exported graph. */
  | "onnx"
  /** The same with quantize and dequantize nodes. */
  | "quantized"
  /** TensorRT's engine. */
  | "plan";

export type EncoderWord = Word<EncoderPlace>;

export type EncoderStepName = "export" | BuiltModel["steps"][number]["name"];

/** The words of a command, beside its argv. */
interface InWords {
  readonly words: readonly EncoderWord[];
}

type EncoderModelPlan = BuiltModel & {
  readonly name: EncoderModelName;
  readonly export: InWords;
  readonly steps: readonly InWords[];
  /** The model that clients ask: reads texts or images, and asks the tower. */
  readonly config: ModelConfig;
  /** The model that computes; no client asks it. */
  readonly towerConfig: ModelConfig;
};

export interface EncoderPlan extends Built {
  /** The first 12 digits of the key, as paths and names carry it. */
  readonly shortKey: string;
  /** Image that builds plans and serves them: the trtllm image has no TensorRT or ONNX backend. */
  readonly image: string;
  /** GPU that builds and serves, as in the key; null on a CPU. */
  readonly gpu: string | null;
  readonly models: readonly EncoderModelPlan[];
  /** `llava_ensemble`. */
  readonly ensemble: ModelConfig;
  /** Everything that Triton loads, sorted by name: the models, their towers, the ensemble. */
  readonly tritonModels: readonly {
    readonly config: ModelConfig;
    /** Path below the model's folder to path below `directory`. */
    readonly files: Readonly<Record<string, string>>;
    /** Its Python, which the image has: path below the model's folder to path below the image's folder of models. */
    readonly sources: Readonly<Record<string, string>>;
  }[];
}
