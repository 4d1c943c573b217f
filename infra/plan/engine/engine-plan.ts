/** From what an engine depends on to the commands that build it, and to its key. */

import type { EngineKeyFields, EnginePlan } from "../container-spec-schemas.ts";
import { jsonDigest, shortKey } from "../plain-data.ts";
import type { EngineSpec, ExtraFlags, TargetGpu } from "../spec.ts";
import {
  type BuildContext,
  checkStep,
  convertStep,
  goldenQuestion,
  llmStep,
  requirementSteps,
  type StepDraft,
  visionSteps,
} from "./build-steps.ts";
import { visualNumbers } from "./engine-size.ts";
import { withExtraFlags } from "./extra-flags.ts";
import { buildRecipe, unsupportedReason } from "./recipes.ts";
import { imageFiles } from "./release.ts";
import { downloadSteps, weightsDirectory, weightsIdentity } from "./weights.ts";

/** Pictures for golden prompts, in the image of the builder. */
const GOLDEN_FOLDER = "/opt/engine-room/golden";

/** Places as keys have them. */
const PLACE_NAMES: EnginePlan["places"] = {
  weights: "<weights>",
  code: "<code>",
  checkpoint: "<checkpoint>",
  engine: "<engine>",
  llm: "<llm>",
  vision: "<vision>",
  goldenImage: "<goldenImage>",
  scripts: "<scripts>",
  calibration: "<calibration>",
};

/**
 * Plans one engine: its key, its folders, and the steps in their order. Two specs that differ only in release tag, image layout
 * or credentials get the same key; so do 25.06 and 25.07, which hold the same TensorRT-LLM and TensorRT.
 *
 * @throws Error if no recipe of the release builds the model; `unsupportedReason` says so before.
 */
export function enginePlan(spec: EngineSpec): EnginePlan {
  const reason = unsupportedReason(spec);
  const recipe = buildRecipe(spec.release);
  if (reason !== null || recipe === null) throw new Error(`No engine plan for ${spec.model}: ${reason}.`);
  const visual = visualNumbers(spec.row, spec.limits);
  const context = { spec, recipe, visual };
  const keyFields = engineKeyFields(spec, keySteps({ ...context, places: PLACE_NAMES }));
  const key = jsonDigest(keyFields);
  const places = enginePlaces(spec, shortKey(key));
  const planned = { ...context, places };
  const complete =
    (inKey: boolean) =>
    ({ environment = {}, ...draft }: StepDraft) => ({ ...draft, environment, inKey });
  return {
    model: spec.model,
    key,
    shortKey: shortKey(key),
    keyFields,
    directory: places.engine,
    places,
    steps: [
      ...[...downloadSteps(spec, places.weights), ...requirementSteps(planned)].map(complete(false)),
      ...keySteps(planned).map(complete(true)),
      complete(false)(checkStep(planned)),
    ],
    worldSize: spec.tensorParallel * spec.pipelineParallel,
    maxSequenceTokens: spec.limits.maxInputTokens + spec.limits.maxOutputTokens,
    visual,
  };
}

/** Steps whose words decide the engine's bytes, and so its key. */
function keySteps(context: BuildContext): readonly StepDraft[] {
  const { converter, builder, vision } = context.spec.extraFlags ?? {};
  const extended = (step: StepDraft, flags: ExtraFlags | undefined) => ({
    ...step,
    argv: withExtraFlags(step.argv, flags),
  });
  return [
    extended(convertStep(context), converter),
    extended(llmStep(context), builder),
    ...visionSteps(context).map((step) => extended(step, vision)),
  ];
}

/** `A10G 8.6`, with the MIG profile if there is one: TensorRT tunes an engine for exactly that. */
export function gpuIdentity({ gpu, migProfile }: TargetGpu): string {
  const whole = `${gpu.name} ${gpu.computeCapability}`;
  return migProfile === undefined ? whole : `${whole} MIG ${migProfile}`;
}

function engineKeyFields(spec: EngineSpec, steps: readonly StepDraft[]): EngineKeyFields {
  const { release } = spec;
  const code = spec.row.vision?.codeRepository;
  return {
    model: spec.model,
    weights: weightsIdentity(spec.weights),
    revision: spec.weights.revision,
    ...(code === undefined ? {} : { code: `${code.url} ${code.commit ?? "HEAD"}` }),
    tensorRtLlm: release.tensorRtLlm,
    // If no document names the TensorRT of an image, no other image can be taken to have the same.
    tensorRt: release.tensorRt ?? `that of ${release.tag}`,
    gpu: gpuIdentity(spec.target),
    dtype: spec.dtype,
    quantization: spec.quantization,
    tensorParallel: spec.tensorParallel,
    pipelineParallel: spec.pipelineParallel,
    ...(spec.calibration?.folder === undefined ? {} : { calibration: spec.calibration.folder.revision }),
    steps: Object.fromEntries(steps.map(({ name, argv }) => [name, argv])),
  };
}

function enginePlaces(spec: EngineSpec, key: string): EnginePlan["places"] {
  const engine = `/store/engines/${spec.model}/${key}`;
  const { image } = goldenQuestion(spec);
  const samples = spec.calibration?.folder;
  return {
    weights: weightsDirectory(spec.model, spec.weights),
    code: codeDirectory(spec),
    checkpoint: `/scratch/checkpoints/${key}`,
    engine,
    llm: `${engine}/llm`,
    vision: `${engine}/vision`,
    goldenImage: image === undefined ? GOLDEN_FOLDER : `${GOLDEN_FOLDER}/${image}.png`,
    scripts: imageFiles(spec.release, spec.layout).examples,
    ...(samples === undefined ? {} : { calibration: samples.path }),
  };
}

/** Name of the repository and commit: no build edits files that another one reads. */
function codeDirectory({ row: { vision } }: EngineSpec): string {
  const code = vision?.codeRepository;
  if (code === undefined) return "/store/code";
  const name = code.url
    .replace(/\/+$/, "")
    .replace(/\.git$/, "")
    .split("/")
    .at(-1);
  return `/store/code/${name}${code.commit === null ? "" : `-${shortKey(code.commit)}`}`;
}
