/** How the encoders become what Triton serves, as data. */
import type { GraphStep } from "../catalogue/encoders.ts";
import type { ModelConfig } from "../repository/model-config.ts";

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

/** One word of a command: text, or a place after `before`. */
export type EncoderWord = string | { readonly before: string; readonly place: EncoderPlace };

export type EncoderStepName = "export" | "calibrate" | "trtexec";

export interface EncoderStep<Name extends EncoderStepName = EncoderStepName> {
  readonly name: Name;
  readonly words: readonly EncoderWord[];
  /** The same with every place filled in; the first is the program. */
  readonly argv: readonly string[];
}

/** A model of the repository: its configuration, and its built files. */
interface EncoderTritonModel {
  readonly config: ModelConfig;
  /** Path below the model's folder to path below {@link EncoderPlan.directory}. */
  readonly files: Readonly<Record<string, string>>;
  /** Its Python, which the image has: path below the model's folder to path below the image's folder of models. */
  readonly sources: Readonly<Record<string, string>>;
}

interface EncoderModelPlan {
  readonly name: EncoderModelName;
  /** Catalogue row. */
  readonly encoder: string;
  readonly export: EncoderStep<"export"> & {
    readonly repository: string;
    readonly revision: string;
    readonly inputs: readonly string[];
    readonly output: string;
    readonly dimension: number;
    /** Inside the graph, after the transformer. */
    readonly graph: readonly GraphStep[];
    readonly opset: number;
    /** Number format inside the graph; its input of pixels and its output are float32 in either. */
    readonly dataType: "float32" | "float16";
  };
  /** After the export: calibration for int8, trtexec for a GPU; empty on a CPU. */
  readonly steps: readonly EncoderStep<"calibrate" | "trtexec">[];
  /** The model that clients ask: reads texts or images, and asks the tower. */
  readonly config: ModelConfig;
  /** The model that computes; no client asks it. */
  readonly towerConfig: ModelConfig;
}

/** The fields of the content address, as the preview compares them; sorted JSON of this is hashed. */
interface EncoderKeyFields {
  readonly precision: string;
  /** TensorRT that builds the plans, by the image that has it; null on a CPU. */
  readonly tensorRt: string | null;
  /** `A10G 8.6`, with the MIG profile where there is one; null on a CPU. */
  readonly gpu: string | null;
  readonly models: Readonly<
    Record<
      string,
      {
        readonly encoder: string;
        readonly weights: string;
        readonly revision: string;
        /** Step name to its words, places as `<onnx>`. */
        readonly steps: Readonly<Record<string, readonly string[]>>;
      }
    >
  >;
}

export interface EncoderPlan {
  readonly device: "cpu" | "gpu";
  readonly precision: "fp32" | "fp16" | "int8";
  /** Content address: 64 hexadecimal digits. */
  readonly key: string;
  /** The first 12, as paths and names carry it. */
  readonly shortKey: string;
  readonly keyFields: EncoderKeyFields;
  /** `/store/encoders/<key12>` */
  readonly directory: string;
  /** Image that builds plans and serves them: the trtllm image has no TensorRT or ONNX backend. */
  readonly image: string;
  /** GPU that builds and serves, as in the key; null on a CPU. */
  readonly gpu: string | null;
  /** Sorted by name. */
  readonly models: readonly EncoderModelPlan[];
  /** `llava_ensemble`. */
  readonly ensemble: ModelConfig;
  /** Everything that Triton loads, sorted by name: the models, their towers, the ensemble. */
  readonly tritonModels: readonly EncoderTritonModel[];
}
