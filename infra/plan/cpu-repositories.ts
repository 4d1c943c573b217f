/**
 * The model repositories of CPU Tritons: which files each has, and which of them a builder makes. Pure data; a platform
 * puts them where its Triton finds them.
 */
import type { WeightSource } from "./catalogue/cpu-models.ts";
import type { CpuEncodersPlan, CpuModelPlan } from "./cpu-stack.ts";
import {
  languageModelConfig,
  llavaEnsembleConfig,
  PYTHON_MODELS,
  type PythonModelName,
  pythonModelFiles,
  textEncoderConfig,
  visionEncoderConfig,
} from "./repository/cpu-models.ts";
import { renderModelConfig } from "./repository/model-config.ts";

/** A file given as text, or taken from the project (path relative to its root). */
type RepositoryFile = { readonly text: string } | { readonly source: string };

/** A specification for `python -m engine_room_models.build`, which fills one folder. */
type ArtifactSpec = {
  readonly artifact: "text-encoder" | "vision-encoder" | "file";
  readonly sources: readonly WeightSource[];
};

export interface RepositoryPlan {
  /** By path in the repository. */
  readonly files: Readonly<Record<string, RepositoryFile>>;
  /** By folder in the repository. */
  readonly artifacts: Readonly<Record<string, ArtifactSpec>>;
}

/** `text_encoder`, `vision_encoder`, and `llava_ensemble` over both. */
export function encodersRepository(plan: CpuEncodersPlan): RepositoryPlan {
  return {
    files: {
      "text_encoder/config.pbtxt": { text: renderModelConfig(textEncoderConfig(plan)) },
      ...pythonModel("text_encoder"),
      "vision_encoder/config.pbtxt": { text: renderModelConfig(visionEncoderConfig(plan)) },
      ...pythonModel("vision_encoder"),
      "llava_ensemble/config.pbtxt": { text: renderModelConfig(llavaEnsembleConfig(plan)) },
      // Triton wants a version folder for an ensemble too, and folders exist here by the files in them.
      "llava_ensemble/1/README": { text: "An ensemble has no files; the folder is its version.\n" },
    },
    artifacts: {
      "text_encoder/1": { artifact: "text-encoder", sources: plan.text.sources },
      "vision_encoder/1": { artifact: "vision-encoder", sources: plan.vision.sources },
    },
  };
}

/** One language model under the name that TensorRT-LLM's repositories give their entry: `ensemble`. */
export function languageModelRepository(plan: CpuModelPlan): RepositoryPlan {
  return {
    files: {
      "ensemble/config.pbtxt": { text: renderModelConfig(languageModelConfig(plan)) },
      ...pythonModel("ensemble"),
    },
    artifacts: { "ensemble/1": { artifact: "file", sources: [plan.catalogue.source] } },
  };
}

function pythonModel(name: PythonModelName): Record<string, RepositoryFile> {
  return Object.fromEntries(
    Object.entries(pythonModelFiles(name)).map(([inner, source]) => [
      `${name}/${inner}`,
      { source: `${PYTHON_MODELS}/${source}` },
    ]),
  );
}
