/** What a new engine is asked: the model's own question, or that of the picture which run.py can't be kept from. */
import type { GoldenQuestion } from "../catalogue/types.ts";
import type { EngineSpec } from "../spec.ts";
import { recipeTables } from "./recipes/index.ts";
import type { VisualRecipe } from "./recipes/types.ts";
import { compareVersions } from "./version.ts";

/**
 * Question and answer of triton-inference-server/tutorials Popular_Models_Guide/Llava1.5/llava_trtllm_guide.md about the
 * merlion, which run.py fetches from the network where it takes no other picture.
 */
const MERLION_QUESTION: GoldenQuestion = {
  prompt: "Which city is this?",
  maxTokens: 30,
  answerContains: ["Singapore"],
};

/** The question of a build's check; with a picture only where the release's run.py takes one. */
export function goldenQuestion(spec: Pick<EngineSpec, "row" | "release">): GoldenQuestion {
  const { row, release } = spec;
  const visual = release.recipes === null ? null : recipeTables[release.recipes].visual;
  if (row.vision === undefined || visual === null) return row.golden;
  return takesPicture(visual, release.tensorRtLlm) ? row.golden : MERLION_QUESTION;
}

function takesPicture({ imagePathSince }: VisualRecipe, tensorRtLlm: string): boolean {
  return imagePathSince !== null && compareVersions(tensorRtLlm, imagePathSince) >= 0;
}
