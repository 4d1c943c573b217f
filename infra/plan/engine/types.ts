/** What a build does, as data. */

/** Folders and files that a step names; where they are depends on image, store and key, so no key depends on them. */
export type Place =
  | "weights"
  | "code"
  | "checkpoint"
  | "engine"
  | "llm"
  | "vision"
  | "goldenImage"
  | "scripts";

/** One word of a command: text, or a place between `before` (`--engine_dir=`) and `rest` (`/run.py`). */
export type Word = string | { readonly place: Place; readonly rest?: string; readonly before?: string };

export type StepName = "download" | "requirements" | "convert" | "llm" | "vision" | "check";

/** A command before its places have paths. */
export interface StepDraft {
  readonly name: StepName;
  /** Why it is there, in a few words. */
  readonly summary: string;
  readonly words: readonly Word[];
  readonly environment?: Readonly<Record<string, Word>>;
}

/** One command. */
export interface BuildStep extends StepDraft {
  /** The words with every place filled in; the first is the program. */
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Whether the words are part of the engine key: steps that decide the engine's bytes. */
  readonly inKey: boolean;
}

/** The fields of an engine key, as the preview compares them; sorted JSON of this is hashed. */
export interface EngineKeyFields {
  readonly model: string;
  readonly weights: string;
  readonly revision: string;
  /** Repository and commit of source code that the builders run besides TensorRT-LLM's own; absent for most models. */
  readonly code?: string;
  readonly tensorRtLlm: string;
  readonly tensorRt: string;
  /** `A10G 8.6`, with the MIG profile where there is one. */
  readonly gpu: string;
  readonly dtype: string;
  readonly quantization: string;
  readonly tensorParallel: number;
  readonly pipelineParallel: number;
  /** Step name to its words, places as `<weights>`. */
  readonly steps: Readonly<Record<string, readonly string[]>>;
}

/** Numbers of the visual half; build, repository and requests share them. */
export interface VisualNumbers {
  /** `--max_multimodal_len`: 0 for cross attention. */
  readonly maxMultimodalTokens: number;
  /** `--max_encoder_input_len`: 0 without cross attention. */
  readonly maxEncoderInputTokens: number;
  /** `--max_batch_size` of the visual engine. */
  readonly visionMaxBatchSize: number;
  readonly tokensPerRequest: number;
  /** `--multimodal_gpu0_cuda_mem_pool_bytes`. */
  readonly cudaMemoryPoolBytes: number;
}

export interface EnginePlan {
  readonly model: string;
  /** 64 hexadecimal digits. */
  readonly key: string;
  /** The first 12, as paths and names carry it. */
  readonly shortKey: string;
  readonly keyFields: EngineKeyFields;
  /** `/store/engines/<model>/<key12>` */
  readonly directory: string;
  readonly places: Readonly<Record<Place, string>>;
  readonly steps: readonly BuildStep[];
  /** Ranks: tensor parallel times pipeline parallel. */
  readonly worldSize: number;
  /** `--max_seq_len`. */
  readonly maxSequenceTokens: number;
  /** null for a text model. */
  readonly visual: VisualNumbers | null;
}
