/** From what an engine depends on to the commands that build it. */
import type { EngineSpec, TargetGpu } from "../spec.ts";
import { convertStep, llmStep, visionSteps } from "./build-steps.ts";
import { checkStep } from "./check-step.ts";
import { engineKey, shortKey } from "./engine-key.ts";
import { goldenQuestion } from "./golden-question.ts";
import { imageFolders } from "./image-folders.ts";
import { recipeTables } from "./recipes/index.ts";
import { codeDirectory, requirementSteps } from "./requirement-steps.ts";
import { KEY_STEPS, type StepDraft } from "./step-draft.ts";
import { unsupportedReason } from "./support.ts";
import type { BuildStep, EngineKeyFields, EnginePlan, Place } from "./types.ts";
import { visualNumbers } from "./visual-numbers.ts";
import { downloadSteps, weightsDirectory, weightsIdentity } from "./weights.ts";
import { nameWord, resolveWord } from "./words.ts";

/** Pictures for golden prompts, in the image of the builder. */
const GOLDEN_FOLDER = "/opt/engine-room/golden";

/**
 * Plans one engine: its key, where it lies, and the steps in their order (requirements of the download, download,
 * requirements, convert, llm, vision, check). Two specs that differ only in release tag, image layout or credentials get
 * the same key; so do 25.06 and 25.07, which hold the same TensorRT-LLM and TensorRT.
 *
 * @throws Error where no recipe of the release builds the model; `unsupportedReason` says so before.
 */
export function enginePlan(spec: EngineSpec): EnginePlan {
  const reason = unsupportedReason(spec);
  if (reason !== null || spec.release.recipes === null) {
    throw new Error(`No engine plan for ${spec.model}: ${reason}.`);
  }
  const table = recipeTables[spec.release.recipes];
  const visual = visualNumbers(spec.row, spec.limits);
  const drafts: readonly StepDraft[] = [
    ...downloadSteps(spec, table),
    ...requirementSteps(spec, table),
    convertStep(spec, table),
    llmStep(spec, table, visual),
    ...visionSteps(spec, table, visual),
    checkStep(spec, table),
  ];
  const keyFields = engineKeyFields(spec, drafts);
  const key = engineKey(keyFields);
  const places = enginePlaces(spec, shortKey(key));
  return {
    model: spec.model,
    key,
    shortKey: shortKey(key),
    keyFields,
    directory: places.engine,
    places,
    steps: drafts.map((draft) => buildStep(draft, places)),
    worldSize: spec.tensorParallel * spec.pipelineParallel,
    maxSequenceTokens: spec.limits.maxInputTokens + spec.limits.maxOutputTokens,
    visual,
  };
}

/** `A10G 8.6`, with the MIG profile where there is one: TensorRT tunes an engine for exactly that. */
export function gpuIdentity({ gpu, migProfile }: TargetGpu): string {
  const whole = `${gpu.name} ${gpu.computeCapability}`;
  return migProfile === undefined ? whole : `${whole} MIG ${migProfile}`;
}

function engineKeyFields(spec: EngineSpec, drafts: readonly StepDraft[]): EngineKeyFields {
  const { release } = spec;
  const code = spec.row.vision?.codeRepository;
  return {
    model: spec.model,
    weights: weightsIdentity(spec.weights),
    revision: spec.weights.revision,
    ...(code === undefined ? {} : { code: `${code.url} ${code.commit ?? "HEAD"}` }),
    tensorRtLlm: release.tensorRtLlm,
    // Where no document names the TensorRT of an image, no other image can be taken to have the same.
    tensorRt: release.tensorRt ?? `that of ${release.tag}`,
    gpu: gpuIdentity(spec.target),
    dtype: spec.dtype,
    quantization: spec.quantization,
    tensorParallel: spec.tensorParallel,
    pipelineParallel: spec.pipelineParallel,
    steps: Object.fromEntries(
      drafts
        .filter((draft) => KEY_STEPS.has(draft.name))
        .map((draft) => [draft.name, draft.words.map(nameWord)]),
    ),
  };
}

function enginePlaces(spec: EngineSpec, key: string): Readonly<Record<Place, string>> {
  const engine = `/store/engines/${spec.model}/${key}`;
  const { image } = goldenQuestion(spec);
  const code = spec.row.vision?.codeRepository;
  return {
    weights: weightsDirectory(spec.model, spec.weights),
    code: code === undefined ? "/store/code" : codeDirectory(code.url, code.commit),
    checkpoint: `/scratch/checkpoints/${key}`,
    engine,
    llm: `${engine}/llm`,
    vision: `${engine}/vision`,
    goldenImage: image === undefined ? GOLDEN_FOLDER : `${GOLDEN_FOLDER}/${image}.png`,
    scripts: imageFolders(spec.release, spec.layout).examples,
  };
}

function buildStep(draft: StepDraft, places: Readonly<Record<Place, string>>): BuildStep {
  return {
    name: draft.name,
    summary: draft.summary,
    words: draft.words,
    argv: draft.words.map((word) => resolveWord(word, places)),
    environment: Object.fromEntries(
      Object.entries(draft.environment ?? {}).map(([name, word]) => [name, resolveWord(word, places)]),
    ),
    inKey: KEY_STEPS.has(draft.name),
  };
}
