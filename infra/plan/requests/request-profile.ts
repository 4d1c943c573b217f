/** Requests to a planned model, as plain data for the gateway, the smoke test and `npx engine-room ask`. */
import {
  requestProfile as flavourProfile,
  type ImageProfile,
  imageProfile,
  type RequestProfile,
} from "@engine-room/triton-requests";
import { templateSet } from "../catalogue/templates.ts";
import { type Flavour, type LanguageModel, mayTakeImages } from "../catalogue/types.ts";
import { visionTypeOf } from "../catalogue/vision-types.ts";
import { blsTakesPictures, isMainLine, videoFrames } from "../repository/image-processing.ts";
import type { RepositoryPlan } from "../repository/repository-plan.ts";
import type { ModelSpec, ServingSpec } from "../spec.ts";

/** Values that the repository fills into its templates are taken from there, so that requests and server can't differ. */
export function requestProfile(model: ModelSpec, repository: RepositoryPlan): RequestProfile {
  const { serving, engine } = model;
  const filled = (name: string, placeholder: string) =>
    repository.models.find((one) => one.name === name)?.substitutions[placeholder];
  const excludesInput = filled(ENGINE_MODEL, "exclude_input_in_output");
  const reusesCache = filled(ENGINE_MODEL, "enable_kv_cache_reuse");
  const accumulates = filled(repository.streamingModel, "accumulate_tokens");
  return flavourProfile(serving.flavour, {
    tritonModel: repository.clientModel,
    streamingModel: repository.streamingModel,
    decoupled: repository.decoupled,
    endId: engine.row.tokenizer.endId,
    padId: engine.row.tokenizer.padId,
    image: image(model, repository),
    kvCacheReuse: reusesCache === undefined ? serving.kvCacheReuse : reusesCache === "True",
    ...inputNames(serving.flavour, repository.templates),
    ...promptEcho(serving, excludesInput),
    ...(accumulates !== undefined && { streamedText: accumulates === "True" ? "cumulative" : "delta" }),
  });
}

/** Ways through a repository that has both: one request to the ensemble, or one to the BLS, which asks the same models itself. */
export const PIPELINES = ["ensemble", "bls"] as const;
export type Pipeline = (typeof PIPELINES)[number];

const BLS_MODEL = "tensorrt_llm_bls";

/** How a model is asked through one of the two; undefined if its repository has one way only. */
export function pipelineProfile(
  request: RequestProfile,
  { engine }: ModelSpec,
  { models }: RepositoryPlan,
  pipeline: Pipeline,
): RequestProfile | undefined {
  const bls = models.find(({ name }) => name === BLS_MODEL);
  if (bls === undefined) return undefined;
  if (pipeline === "ensemble")
    return { ...request, streamingModel: request.tritonModel, streamedText: "delta" };
  const takesFiles = blsTakesPictures(engine.release);
  return {
    ...request,
    tritonModel: BLS_MODEL,
    streamingModel: BLS_MODEL,
    streamedText: bls.substitutions.accumulate_tokens === "True" ? "cumulative" : "delta",
    image: request.image && { ...request.image, takesFiles: request.image.takesFiles && takesFiles },
  };
}

/** Filled into the engine's model, part of each request to llmapi, or the flavour's own. */
function promptEcho(
  { flavour, excludeInputInOutput }: ServingSpec,
  filled: string | undefined,
): Partial<Pick<RequestProfile, "promptEcho">> {
  if (filled === undefined && flavour !== "llmapi") return {};
  const isExcluded = flavour === "llmapi" ? excludeInputInOutput : filled === "True";
  return { promptEcho: isExcluded ? "excluded" : "repeated" };
}

/** The repository's model that runs the engine, in every flavour. */
const ENGINE_MODEL = "tensorrt_llm";

/** Flavours whose inputs are those of the release's all_models; the others have names of their own. */
const OF_THE_RELEASE: ReadonlySet<Flavour> = new Set([
  "inflight_batcher_llm",
  "multimodal",
  "gpt",
  "tritonCli",
]);

function inputNames(flavour: Flavour, templates: string): Partial<Pick<RequestProfile, "seedField">> {
  if (!OF_THE_RELEASE.has(flavour)) return {};
  const set = templateSet(templates);
  if (set === undefined) throw new RangeError(`The templates ${templates} are in no row of the catalogue.`);
  return { seedField: set.seedField === "seed" ? "seed" : "random_seed" };
}

/** Template and stop words of the gateway's chat with a model; undefined: it completes texts. */
export function chatOf({ engine: { row }, serving }: ModelSpec): LanguageModel["chat"] {
  return (serving.flavour === "multimodal" && visionTypeOf(row)?.chat) || row.chat;
}

/** null for a text model, and for a vision-language model that is served for text only. */
function image({ engine, serving: { flavour } }: ModelSpec, { models }: RepositoryPlan): ImageProfile | null {
  const { vision } = engine.row;
  if (vision === undefined || !mayTakeImages(flavour)) return null;
  const profile = imageProfile(vision.modelType, flavour, {
    maxImages: engine.limits.maxImagesPerRequest,
    // With cross attention, image tokens are not part of the prompt.
    tokensPerImage: vision.attention === "cross" ? 0 : vision.tokensPerImage,
    hasProcessor: models.some(({ name, sources }) => name === "preprocessing" && sources !== undefined),
    video: videoFrames(engine),
  });
  // all_models/inflight_batcher_llm/preprocessing/1/model.py of tensorrtllm_backend asserts that a request to MLLaMA has an image at
  // v0.16.0, v0.17.0, r25.03 and v0.18.2, but not at r25.02 and v0.19.0.
  const isRequired = profile.isRequired || (vision.modelType === "mllama" && !isMainLine(engine.release));
  return { ...profile, isRequired };
}
