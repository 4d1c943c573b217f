/** The commands that build engines, by version of TensorRT-LLM. */
import { compareVersions } from "../catalogue/releases.ts";
import { calibrationOf, type Recipe, type Release } from "../catalogue/types.ts";
import { visionTypes } from "../catalogue/vision-types.ts";
import type { EngineSpec } from "../spec.ts";

/**
 * A package that VILA's code imports, at the last commit, of 2025-02-08. all_models/multimodal/requirements-vila.txt
 * has transformers 4.36.2, with which TensorRT-LLM can't be imported, and packages that the edited code (vision-types.ts) does not
 * need.
 */
const S2_WRAPPER =
  "s2wrapper @ git+https://github.com/bfshi/scaling_on_scales.git@9c008a37540e761f53574b488979db6e49a64312";

/** s2wrapper imports it; requirements.txt of NVIDIA/TensorRT-LLM did not have it yet in 0.15 and 0.16. */
const EINOPS = "einops==0.8.1";

interface Converter {
  /** First version of TensorRT-LLM that has it with these flags. */
  readonly since: string;
  /** Below examples/models, from 0.20 on. */
  readonly folder: "core" | "contrib";
  /** Whether it ends with an error if there is more than one pipeline stage. */
  readonly onlyOneStage?: true;
  readonly flags: ConverterFlags;
}

/** Flags that stand before a value; another one may come first. */
interface ConverterFlags {
  readonly weights: string;
  readonly output: string;
  readonly weightOnly: string;
  readonly tensorParallel: string;
}

const COMMON_FLAGS: ConverterFlags = {
  weights: "--model_dir",
  output: "--output_dir",
  weightOnly: "--use_weight_only --weight_only_precision",
  tensorParallel: "--tp_size",
};

/**
 * Converters by family. GPT-2 had a converter and a builder of its own in 0.8; that of Phi takes one model and one GPU before 0.11.
 * Sources: data/build-flags.json of the catalogue has the files and their commits.
 */
const CONVERTERS: Readonly<Record<Recipe, Converter>> = {
  gpt: { since: "0.9", folder: "core", flags: COMMON_FLAGS },
  llama: { since: "0.8", folder: "core", flags: COMMON_FLAGS },
  opt: { since: "0.8", folder: "contrib", flags: COMMON_FLAGS },
  qwen: { since: "0.9", folder: "core", flags: COMMON_FLAGS },
  mllama: { since: "0.15", folder: "core", flags: COMMON_FLAGS },
  gemma: {
    since: "0.9",
    folder: "core",
    onlyOneStage: true,
    // Later versions take the common names too, and these in all.
    flags: {
      weights: "--ckpt-type hf --model-dir",
      output: "--output-model-dir",
      weightOnly: "--use-weight-only-with-precision",
      tensorParallel: "--world-size",
    },
  },
  falcon: { since: "0.8", folder: "contrib", flags: COMMON_FLAGS },
  phi: { since: "0.11", folder: "core", onlyOneStage: true, flags: COMMON_FLAGS },
};

/** Whether a family's converter splits a model into pipeline stages. */
export function splitsIntoStages(recipe: Recipe): boolean {
  return CONVERTERS[recipe].onlyOneStage !== true;
}

/** Flags of a family's converter; quantize.py, which has one parser for all, takes the common ones. */
export function converterFlags(recipe: Recipe, isCalibrated: boolean): ConverterFlags {
  return isCalibrated ? COMMON_FLAGS : CONVERTERS[recipe].flags;
}

/** Scripts are below the examples of TensorRT-LLM; null for a version without a script with these arguments. */
export type BuildRecipe = ReturnType<typeof recipeOf>;

/**
 * The commands of a version of TensorRT-LLM. Sources:
 * - 0.8: docs/source/release-notes.md and tensorrt_llm/plugin/plugin.py of NVIDIA/TensorRT-LLM; t9k/examples
 *   deployments/triton-tensorrtllm. No visual engine is documented.
 * - 0.9: triton-inference-server/tutorials Popular_Models_Guide/Llama2/trtllm_guide.md and Llava1.5/llava_trtllm_guide.md (24.05).
 * - 0.10 to 0.18: triton-inference-server/tensorrtllm_backend docs/multimodal.md at v0.13.0, v0.15.0 (the first with VILA) and
 *   r25.02; NVIDIA/TensorRT-LLM examples/quantization/quantize.py, tensorrt_llm/plugin/plugin.py at v0.10.0 and v0.11.0, and
 *   docs/source/advanced/kv-cache-reuse.md.
 * - 0.19: docs/multimodal.md of the backend at v0.19.0; github.com/NVIDIA/TensorRT-LLM/issues/4275: the image of 25.05 has
 *   /app/examples/llama, as these documents say and other than the backend's README at r25.05.
 * - 0.20 to 1.1: NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md, examples/models/core/gpt/README.md,
 *   triton_backend/all_models/multimodal, tensorrt_llm/tools/multimodal_builder.py and commands/build.py; dockerfile of the
 *   backend at r25.07; the LLaVA-1.5 walkthrough for 25.07 (run.py prints 0.20.0). docs/multimodal.md of the backend writes
 *   models/contrib/qwen, which does not exist.
 */
function recipeOf(tensorRtLlm: string) {
  const has = (version: string) => compareVersions(tensorRtLlm, version) >= 0;
  const multimodal = has("0.20") ? "models/core/multimodal" : "multimodal";
  return {
    converter(recipe: Recipe): string | null {
      const { since, folder } = CONVERTERS[recipe];
      if (!has(since)) return null;
      return `${has("0.20") ? `models/${folder}/` : ""}${recipe}/convert_checkpoint.py`;
    },
    /** Quantizer with calibration. */
    quantizer: has("0.10") ? "quantization/quantize.py" : null,
    /** Whether the quantizer takes a folder of samples. */
    calibratesFromFolder: has("0.11"),
    /** Flag that bounds a sequence: prompt and answer together, or only the answer. */
    sequenceFlag: has("0.11") ? "--max_seq_len" : "--max_output_len",
    /** Whether a text model needs flags for the attention plugin, padding removal, context FMHA and the paged KV cache. */
    flagsForPlugins: has("0.9") && !has("0.10"),
    /** Whether `--gemm_plugin` has the choice `auto`. */
    hasAutoGemm: has("0.11"),
    /** Flags of trtllm-build without which an engine neither reuses the KV cache nor reads a prompt in chunks. */
    pagedContextFlags: !has("0.19") && "--use_paged_context_fmha enable",
    visualBuilder: `${multimodal}/build_${has("0.19") ? "multimodal" : "visual"}_engine.py`,
    visualRunScript: `${multimodal}/run.py`,
    /** Whether run.py finds `llm/` and `vision/` in one folder; else it is given two. */
    findsBothEngines: has("0.19"),
    visualRunFlags: has("0.9") && !has("0.10") && "--decoder_llm",
    /** Whether run.py takes `--image_path` and `--batch_size`; else it loads its own picture from the network. */
    takesPicture: has("0.12"),
    /**
     * Flags for models that use the fused MLP; the documents forbid it for quantized ones. From 0.13 to 0.19 it is on by default,
     * and the multimodal guide leaves it out.
     */
    fusedMlpFlags: has("0.20") ? "--use_fused_mlp=enable" : has("0.9") && !has("0.13") && "--use_fused_mlp",
    requirements: requirementsOf(has),
  };
}

/**
 * Packages of a requirements file of the catalogue that the image lacks, pinned; it has their dependencies. Other files are
 * installed from `all_models/multimodal`.
 */
function requirementsOf(has: (version: string) => boolean): Readonly<Record<string, readonly string[]>> {
  if (!has("0.10")) return {};
  if (!has("0.20")) return { "requirements-vila.txt": [S2_WRAPPER, EINOPS] };
  return {
    // transformers from 4.45 on and torchvision: the image has both.
    "requirements-mllama.txt": [],
    // The image lacks LLaVA-NeXT, which only model type llava_onevision_lmms imports, and av, which reads videos of run.py.
    "requirements-llava-onevision.txt": [],
    "requirements-vila.txt": [S2_WRAPPER],
  };
}

/** By version: every model of a stack has the same one. */
const known = new Map<string, BuildRecipe>();

/** The commands of a release; null if it builds no engines. */
export function buildRecipe({
  runtimes,
  tensorRtLlm,
}: Pick<Release, "runtimes" | "tensorRtLlm">): BuildRecipe | null {
  if (!runtimes.includes("engine")) return null;
  const recipe = known.get(tensorRtLlm) ?? recipeOf(tensorRtLlm);
  known.set(tensorRtLlm, recipe);
  return recipe;
}

/** Why no recipe builds this engine on this release, as a sentence; null if one does, whatever the GPU. */
export function unsupportedReason(
  spec: Pick<EngineSpec, "model" | "row" | "release" | "quantization">,
): string | null {
  const { model, row, release } = spec;
  const named = `release ${release.tag} (TensorRT-LLM ${release.tensorRtLlm})`;
  const recipe = buildRecipe(release);
  if (recipe === null) return `${named} builds no TensorRT engines`;
  if (calibrationOf(spec.quantization) !== null && recipe.quantizer === null) {
    return `${named} has no verified recipe for ${spec.quantization}`;
  }
  if (recipe.converter(row.recipe) === null) {
    return `${named} has no converter for ${model} (recipe ${row.recipe})`;
  }
  if (row.vision === undefined) return null;
  const { modelType } = row.vision;
  const { since } = visionTypes[modelType];
  if (since === null)
    return `models of the type ${modelType}, such as ${model}, have no recipe for a visual engine`;
  if (compareVersions(release.tensorRtLlm, since) >= 0) return null;
  // Before 0.10 the builder's arguments were others.
  return compareVersions(release.tensorRtLlm, "0.10") < 0
    ? `${named} has no verified recipe for the visual engine of ${model} (model type ${modelType})`
    : `the visual engine of ${model} is documented from TensorRT-LLM ${since} on, and ${named} is older`;
}
