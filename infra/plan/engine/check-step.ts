/** The step that asks a new engine the golden question, with TensorRT-LLM's own run.py. */
import type { GoldenQuestion } from "../catalogue/types.ts";
import type { EngineSpec } from "../spec.ts";
import { script, sourceCodePath } from "./build-steps.ts";
import { goldenQuestion } from "./golden-question.ts";
import type { RecipeTable, VisualModelType, VisualRecipe } from "./recipes/types.ts";
import type { StepDraft } from "./step-draft.ts";
import type { Word } from "./types.ts";

/**
 * What run.py gets as text; it writes the rest of the prompt itself (`USER:` and `ASSISTANT:` for LLaVA, say). From
 * NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md.
 */
const CHECK_INPUTS: Readonly<Record<VisualModelType, string>> = {
  llava: "\n {question}",
  blip2: "Question: {question} Answer:",
  vila: "<image>\n {question}",
  llava_onevision: "{question}",
  mllama: "<|image|><|begin_of_text|>{question}",
};

/** Runs the golden prompt, under mpirun where there are several ranks. */
export function checkStep(spec: EngineSpec, table: RecipeTable): StepDraft {
  const golden = goldenQuestion(spec);
  const ranks = spec.tensorParallel * spec.pipelineParallel;
  const { vision } = spec.row;
  const command: readonly Word[] =
    vision === undefined || table.visual === null
      ? textCheck(golden, table)
      : visualCheck(golden, table.visual, vision.modelType);
  const launcher = ranks > 1 ? ["mpirun", "-n", String(ranks), "--allow-run-as-root"] : [];
  return {
    name: "check",
    summary: `golden prompt; the answer holds ${golden.answerContains.map((word) => `"${word}"`).join(" or ")}`,
    words: [...launcher, ...command],
    // Without it MPI fails to start in some containers: docs/multimodal.md of tensorrtllm_backend, MPI_Init_thread.
    environment: { PMIX_MCA_gds: "hash", ...sourceCodePath(spec).environment },
  };
}

function textCheck(golden: GoldenQuestion, table: RecipeTable): readonly Word[] {
  return [
    "python3",
    script(table.runScript),
    "--engine_dir",
    { place: "llm" },
    "--max_output_len",
    String(golden.maxTokens),
    "--tokenizer_dir",
    { place: "weights" },
    "--input_text",
    golden.prompt,
  ];
}

function visualCheck(
  golden: GoldenQuestion,
  recipe: VisualRecipe,
  modelType: VisualModelType,
): readonly Word[] {
  const engines: readonly Word[] =
    recipe.engineDirectories === "together"
      ? ["--engine_dir", { place: "engine" }]
      : ["--visual_engine_dir", { place: "vision" }, "--llm_engine_dir", { place: "llm" }];
  const takesImage = golden.image !== undefined;
  return [
    "python3",
    script(recipe.runScript),
    "--max_new_tokens",
    String(golden.maxTokens),
    "--hf_model_dir",
    { place: "weights" },
    ...engines,
    ...recipe.runFlags,
    ...(takesImage ? [{ before: "--image_path=", place: "goldenImage" } as const] : []),
    "--input_text",
    CHECK_INPUTS[modelType].replace("{question}", () => golden.prompt),
    ...(takesImage ? ["--batch_size=1"] : []),
  ];
}
