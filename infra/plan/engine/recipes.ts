/** The commands that build engines, by version of TensorRT-LLM. */
import type { Recipe, Release } from "../catalogue/types.ts";
import { visionTypes } from "../catalogue/vision-types.ts";
import type { EngineSpec } from "../spec.ts";
import { compareVersions } from "./release.ts";

/** Scripts are below the examples of TensorRT-LLM; null where a version has none with these arguments. */
export interface BuildRecipe {
  readonly converters: Readonly<Record<Recipe, string | null>>;
  /** Quantizer with calibration, for fp8. */
  readonly quantizer: string | null;
  /** Flag that bounds a sequence: prompt and answer together, or the answer alone. */
  readonly sequenceFlag: "--max_seq_len" | "--max_output_len";
  /** Whether a text model needs flags for the attention plugin, padding removal, context FMHA and the paged KV cache. */
  readonly flagsForPlugins: boolean;
  /** Whether `--gemm_plugin` has the choice `auto`. */
  readonly hasAutoGemm: boolean;
  /** Flags of trtllm-build without which an engine neither reuses the KV cache nor reads a prompt in chunks. */
  readonly pagedContextFlags: readonly string[];
  readonly visualBuilder: string;
  readonly visualRunScript: string;
  /** How run.py finds the engines of a vision-language model: one folder with `llm/` and `vision/`, or two. */
  readonly engineDirectories: "together" | "apart";
  readonly visualRunFlags: readonly string[];
  /** Whether run.py takes `--image_path` and `--batch_size`; else it loads its own picture from the network. */
  readonly takesPicture: boolean;
  /** Flags for models that use the fused MLP; the documents forbid it for quantized ones. */
  readonly fusedMlpFlags: readonly string[];
  /**
   * Packages of a requirements file of the catalogue that the image lacks, pinned; it has their dependencies. Other files are
   * installed from `all_models/multimodal`.
   */
  readonly requirements: Readonly<Record<string, readonly string[]>>;
}

/**
 * A package that VILA's code imports, at the last commit, of 2025-02-08. all_models/multimodal/requirements-vila.txt
 * has transformers 4.36.2, with which TensorRT-LLM can't be imported, and packages that the edited code (vision-types.ts) does not
 * need.
 */
const S2_WRAPPER =
  "s2wrapper @ git+https://github.com/bfshi/scaling_on_scales.git@9c008a37540e761f53574b488979db6e49a64312";

/** s2wrapper imports it; requirements.txt of NVIDIA/TensorRT-LLM did not have it yet in 0.15 and 0.16. */
const EINOPS = "einops==0.8.1";

/**
 * NVIDIA/TensorRT-LLM at v0.8.0: docs/source/release-notes.md and tensorrt_llm/plugin/plugin.py; t9k/examples
 * deployments/triton-tensorrtllm. GPT-2 still has a converter and a builder of its own, and no visual engine is documented.
 */
const first: BuildRecipe = {
  converters: {
    gpt: null,
    llama: "llama/convert_checkpoint.py",
    opt: "opt/convert_checkpoint.py",
    qwen: null,
    mllama: null,
  },
  quantizer: null,
  sequenceFlag: "--max_output_len",
  flagsForPlugins: false,
  hasAutoGemm: false,
  pagedContextFlags: ["--use_paged_context_fmha", "enable"],
  visualBuilder: "multimodal/build_visual_engine.py",
  visualRunScript: "multimodal/run.py",
  engineDirectories: "apart",
  visualRunFlags: [],
  takesPicture: false,
  fusedMlpFlags: [],
  requirements: {},
};

/** Changes of each version, the oldest first. */
const changes: readonly (Partial<BuildRecipe> & { readonly since: string })[] = [
  {
    // triton-inference-server/tutorials Popular_Models_Guide/Llama2/trtllm_guide.md and Llava1.5/llava_trtllm_guide.md (24.05).
    since: "0.9",
    converters: {
      ...first.converters,
      gpt: "gpt/convert_checkpoint.py",
      qwen: "qwen/convert_checkpoint.py",
    },
    flagsForPlugins: true,
    visualRunFlags: ["--decoder_llm"],
    fusedMlpFlags: ["--use_fused_mlp"],
  },
  {
    // triton-inference-server/tensorrtllm_backend docs/multimodal.md at v0.13.0, v0.15.0 (the first with VILA) and r25.02;
    // NVIDIA/TensorRT-LLM examples/quantization/quantize.py, tensorrt_llm/plugin/plugin.py at v0.10.0 and v0.11.0, and
    // docs/source/advanced/kv-cache-reuse.md.
    since: "0.10",
    converters: {
      gpt: "gpt/convert_checkpoint.py",
      llama: "llama/convert_checkpoint.py",
      opt: "opt/convert_checkpoint.py",
      qwen: "qwen/convert_checkpoint.py",
      mllama: "mllama/convert_checkpoint.py",
    },
    quantizer: "quantization/quantize.py",
    flagsForPlugins: false,
    visualRunFlags: [],
    requirements: { "requirements-vila.txt": [S2_WRAPPER, EINOPS] },
  },
  { since: "0.11", sequenceFlag: "--max_seq_len", hasAutoGemm: true },
  { since: "0.12", takesPicture: true },
  // The fused MLP is on by default, and the multimodal guide leaves it out.
  { since: "0.13", fusedMlpFlags: [] },
  {
    // docs/multimodal.md of the backend at v0.19.0; github.com/NVIDIA/TensorRT-LLM/issues/4275: the image of 25.05 has
    // /app/examples/llama, as these documents say and other than the backend's README at r25.05.
    since: "0.19",
    pagedContextFlags: [],
    visualBuilder: "multimodal/build_multimodal_engine.py",
    engineDirectories: "together",
  },
  {
    // NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md, examples/models/core/gpt/README.md,
    // triton_backend/all_models/multimodal, tensorrt_llm/tools/multimodal_builder.py and commands/build.py; dockerfile of the
    // backend at r25.07; the LLaVA-1.5 walkthrough for 25.07 (run.py prints 0.20.0).
    since: "0.20",
    converters: {
      gpt: "models/core/gpt/convert_checkpoint.py",
      llama: "models/core/llama/convert_checkpoint.py",
      opt: "models/contrib/opt/convert_checkpoint.py",
      // docs/multimodal.md of the backend writes models/contrib/qwen, which does not exist.
      qwen: "models/core/qwen/convert_checkpoint.py",
      mllama: "models/core/mllama/convert_checkpoint.py",
    },
    visualBuilder: "models/core/multimodal/build_multimodal_engine.py",
    visualRunScript: "models/core/multimodal/run.py",
    fusedMlpFlags: ["--use_fused_mlp=enable"],
    requirements: {
      // transformers from 4.45 on and torchvision: the image has both.
      "requirements-mllama.txt": [],
      // The image lacks LLaVA-NeXT, which only model type llava_onevision_lmms imports, and av, which reads videos of run.py.
      "requirements-llava-onevision.txt": [],
      "requirements-vila.txt": [S2_WRAPPER],
    },
  },
];

/** By version: every model of a stack has the same one. */
const known = new Map<string, BuildRecipe>();

/** The commands of a release; null where it builds no engines. */
export function buildRecipe({
  runtimes,
  tensorRtLlm,
}: Pick<Release, "runtimes" | "tensorRtLlm">): BuildRecipe | null {
  if (!runtimes.includes("engine")) return null;
  const found = known.get(tensorRtLlm);
  if (found !== undefined) return found;
  const changed = changes.filter(({ since }) => compareVersions(tensorRtLlm, since) >= 0);
  const recipe: BuildRecipe = Object.assign({}, first, ...changed.map(({ since: _, ...change }) => change));
  known.set(tensorRtLlm, recipe);
  return recipe;
}

/** Why no recipe builds this engine on this release, as a sentence; null where one does, whatever the GPU. */
export function unsupportedReason(
  spec: Pick<EngineSpec, "model" | "row" | "release" | "quantization">,
): string | null {
  const { model, row, release } = spec;
  const named = `release ${release.tag} (TensorRT-LLM ${release.tensorRtLlm})`;
  const recipe = buildRecipe(release);
  if (recipe === null) return `${named} builds no TensorRT engines`;
  if (spec.quantization === "fp8") {
    if (recipe.quantizer === null) return `${named} has no verified recipe for fp8`;
  } else if (recipe.converters[row.recipe] === null) {
    return `${named} has no converter for ${model} (recipe ${row.recipe})`;
  }
  if (row.vision === undefined) return null;
  const { modelType } = row.vision;
  const { since } = visionTypes[modelType];
  if (compareVersions(release.tensorRtLlm, since) >= 0) return null;
  // Before 0.10 the builder's arguments were others.
  return compareVersions(release.tensorRtLlm, "0.10") < 0
    ? `${named} has no verified recipe for the visual engine of ${model} (model type ${modelType})`
    : `the visual engine of ${model} is documented from TensorRT-LLM ${since} on, and ${named} is older`;
}
