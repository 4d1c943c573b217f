/** How engines are built with one range of TensorRT-LLM releases, as data. */
import type { LanguageModel, Recipe, Release, VisionTower } from "../../catalogue/types.ts";
import type { SinceVersion } from "../version.ts";

export type RecipeRange = Exclude<Release["recipes"], null>;

export type VisualModelType = VisionTower["modelType"];

/** A word of a flag list: text, or the engine's number format. */
export type FlagWord = string | { readonly value: "dtype" };

/** The visual half of a release range. */
export interface VisualRecipe {
  /** Visual engine builder, below the examples. */
  readonly builder: string;
  /** run.py of multimodal models, below the examples. */
  readonly runScript: string;
  /** First TensorRT-LLM whose documents show the model with these commands; null: none of the range. */
  readonly since: Readonly<Record<VisualModelType, string | null>>;
  /** How run.py finds the engines: one folder with `llm/` and `vision/` in it, or each for itself. */
  readonly engineDirectories: "together" | "apart";
  /**
   * First TensorRT-LLM whose documents show run.py with `--image_path` and `--batch_size`; before, it loads its own
   * picture, the merlion, from the network. null: none of the range.
   */
  readonly imagePathSince: string | null;
  /** More flags of run.py. */
  readonly runFlags: readonly string[];
  /**
   * Flags that turn on the fused MLP for unquantized models with a visual prompt, where the release's documents do;
   * they forbid it for quantized ones.
   */
  readonly fusedMlp: SinceVersion<readonly string[]>;
  /** Models whose documents use the fused MLP. */
  readonly fusedMlpModels: readonly VisualModelType[];
}

export interface RecipeTable {
  readonly range: RecipeRange;
  /** Converter by family, below the examples; null: the range has none with these arguments. */
  readonly converters: Readonly<Record<Recipe, string | null>>;
  /** Quantizer with calibration (fp8), below the examples; null: none with these arguments. */
  readonly quantizer: string | null;
  /** run.py of text models, below the examples. */
  readonly runScript: string;
  /** Which flag bounds a sequence: prompt and answer together, or the answer alone. */
  readonly sequenceFlag: SinceVersion<"--max_seq_len" | "--max_output_len">;
  /** Flags of trtllm-build for text models besides limits and GEMM plugin. */
  readonly textBuildFlags: readonly FlagWord[];
  /** First TensorRT-LLM whose `--gemm_plugin` has the choice `auto`; null: none of the range. */
  readonly gemmPluginAutoSince: string | null;
  /**
   * Flags of trtllm-build without which an engine neither reuses the KV cache nor reads a prompt in chunks; empty where they
   * are the builder's default. They forbid int8 caches, and fp8 caches of engines that are not fp8: no recipe has such.
   */
  readonly pagedContextFlags: readonly string[];
  /** null: no visual engine of the range was found documented with these commands. */
  readonly visual: VisualRecipe | null;
  /**
   * What takes the place of a requirements file of the catalogue, where that is not `all_models/multimodal/<file>`: the
   * packages of it that the image lacks, pinned, without their dependencies, which the image has.
   */
  readonly requirements: Readonly<Record<string, readonly string[]>>;
  /** Whether `huggingface-cli` needs `--local-dir-use-symlinks False` to write files instead of links into its cache. */
  readonly hubLinksByDefault: boolean;
  /** Documents that the table was read in. */
  readonly sources: readonly string[];
}

/** Flag that names the model type to a converter. */
export function converterTypeFlag(row: Pick<LanguageModel, "recipe">): string {
  return row.recipe === "gpt" ? "--gpt_variant" : "--model_type";
}
