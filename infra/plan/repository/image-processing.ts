/** This project's own part of the models of the templates: image processors, frames of a video, several pictures, pictures for llmapi. */
import { imageProfile } from "@engine-room/triton-requests";
import { compareVersions } from "../catalogue/releases.ts";
import type { Release } from "../catalogue/types.ts";
import { visionTypeOf } from "../catalogue/vision-types.ts";
import type { ModelServerSpec } from "../container-spec-schemas.ts";
import { visualNumbers } from "../engine/engine-size.ts";
import type { EngineSpec, ModelSpec } from "../spec.ts";
import { MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS, pythonModelFiles } from "./cpu-models.ts";
import { type DataType, oneInstance, optional, renderTextFormat, tensor } from "./model-config.ts";

/** config.pbtxt of tensorrt_llm_bls has image_url_input and video_bytes_input from tag v0.16.0 on. */
export function blsTakesPictures({ tensorRtLlm }: Release): boolean {
  return compareVersions(tensorRtLlm, "0.16") >= 0;
}

type RepositoryModel = ModelServerSpec["repository"]["models"][number];

/** All frames of a request are in memory at once; HD is far more than the model sees. */
const MAX_FRAME_PIXELS = 1920 * 1080;

/** Before 0.15 the ensemble has no input for files, and multimodal_encoders none for what preprocessing makes of them. */
const FIRST_WITH_FILES = "0.15";

/**
 * This project's image processor for a model that Triton's preprocessing lacks: all_models/inflight_batcher_llm/preprocessing/1/model.py
 * of 0.15 to 1.1 has MLLaMA, and from 0.16 on LLaVA-OneVision. For the latter, the conversion of frames to that file's tensor, and
 * several pictures of a request: its llava_onevision_process_image gives the image processor the mark of one image.
 */
export function imageProcessing({ engine }: ModelSpec): Partial<Pick<RepositoryModel, "files" | "sources">> {
  const processor = processorSettings(engine);
  if (processor === null) return {};
  const settings = {
    ...processor,
    maxBytes: MAX_IMAGE_BYTES,
    maxImages: engine.limits.maxImagesPerRequest,
    maxPixels: MAX_IMAGE_PIXELS,
  };
  return {
    files: { "1/preprocess.json": `${JSON.stringify(settings)}\n` },
    sources: pythonModelFiles("preprocessing"),
  };
}

/** Templates of the backend's main line, on which r25.02 was cut ahead of the tags before v0.19.0. */
export function isMainLine({ tensorRtLlm, templates }: Release): boolean {
  return compareVersions(tensorRtLlm, "0.19") >= 0 || templates === "r25.02";
}

/**
 * This project's model that joins a request's pictures in one response, also those of LLaVA-OneVision, whose template takes the
 * tiles of several pictures for those of one. all_models/multimodal/multimodal_encoders/1/model.py of
 * tensorrtllm_backend at r25.02 and v0.19.0, and of TensorRT-LLM from 0.20 on, sends a response for each picture in the last branch
 * of postprocess_output_tensors, and fails at the second; v0.17.0, r25.03 and v0.18.2 do not. 25.02's image may have either.
 */
export function severalPictures({ engine }: ModelSpec): Partial<Pick<RepositoryModel, "sources">> {
  const { row, release, limits } = engine;
  const isNeeded = isMainLine(release) || hasOneVision(row, release);
  if (limits.maxImagesPerRequest <= 1 || !isNeeded) return {};
  return { sources: pythonModelFiles("multimodal_encoders") };
}

/**
 * Optional inputs of all_models/llmapi at TensorRT-LLM 1.2.1, except those of performance metrics: its config.pbtxt in
 * Popular_Models_Guide/Qwen2.5-VL of https://github.com/triton-inference-server/tutorials.
 */
const LLMAPI_INPUTS: Readonly<Record<string, DataType>> = {
  image_url: "TYPE_STRING",
  streaming: "TYPE_BOOL",
  sampling_param_best_of: "TYPE_INT32",
  sampling_param_temperature: "TYPE_FP32",
  sampling_param_top_k: "TYPE_INT32",
  sampling_param_top_p: "TYPE_FP32",
  sampling_param_frequency_penalty: "TYPE_FP32",
  sampling_param_presence_penalty: "TYPE_FP32",
  sampling_param_max_tokens: "TYPE_INT32",
  sampling_param_stop: "TYPE_STRING",
  sampling_param_seed: "TYPE_UINT64",
  sampling_param_exclude_input_from_output: "TYPE_BOOL",
  return_finish_reason: "TYPE_BOOL",
  return_stop_reason: "TYPE_BOOL",
  return_cumulative_logprob: "TYPE_BOOL",
  stop: "TYPE_BOOL",
};

/** This project's part of llmapi's model for pictures, for which the image's config.pbtxt has no input. */
export function llmapiPictures({
  engine: { row, limits },
  serving,
}: ModelSpec): Pick<RepositoryModel, "files" | "sources"> | null {
  const tokenEdgePixels = visionTypeOf(row)?.tokenEdgePixels;
  if (row.vision === undefined || tokenEdgePixels === undefined) return null;
  const maxImages = limits.maxImagesPerRequest;
  const maxTokens = row.vision.tokensPerImage;
  const { mark } = imageProfile(row.vision.modelType, "llmapi", { maxImages, tokensPerImage: maxTokens });
  const settings = {
    mark,
    maxBytes: MAX_IMAGE_BYTES,
    maxImages,
    maxPixels: MAX_IMAGE_PIXELS,
    maxTokens,
    tokenEdgePixels,
  };
  const text = (name: string) => tensor(name, "TYPE_STRING", [-1]);
  const config = renderTextFormat({
    name: "tensorrt_llm",
    backend: "python",
    model_transaction_policy: { decoupled: serving.streaming },
    input: [
      text("text_input"),
      ...Object.entries(LLMAPI_INPUTS).map(([name, type]) =>
        optional(name, type, [type === "TYPE_STRING" ? -1 : 1]),
      ),
    ],
    output: [
      ...["text_output", "finish_reason", "stop_reason"].map(text),
      tensor("cumulative_logprob", "TYPE_FP32", [-1]),
    ],
    instance_group: oneInstance("KIND_CPU"),
  });
  return {
    files: { "config.pbtxt": config, "1/preprocess.json": `${JSON.stringify(settings)}\n` },
    sources: pythonModelFiles("llmapi"),
  };
}

/** Whether Triton's preprocessing has the processor of a model whose several pictures are tiles. */
function hasOneVision(row: EngineSpec["row"], release: Release): boolean {
  return visionTypeOf(row)?.severalAreTiles === true && blsTakesPictures(release);
}

function processorSettings({ row, release, limits }: EngineSpec): object | null {
  const visual = visualNumbers(row, limits);
  if (visual !== null && hasOneVision(row, release)) {
    return {
      maxFrames: videoFrames({ row, release, limits })?.maxFrames ?? 0,
      maxFramePixels: MAX_FRAME_PIXELS,
      maxTiles: row.vision?.runsPerImage,
      maxTokens: visualTokens(visual, limits),
    };
  }
  const processor = row.vision?.imageProcessor;
  if (processor === undefined || compareVersions(release.tensorRtLlm, FIRST_WITH_FILES) < 0) return null;
  const { edge, mean, std } = processor;
  const isCut = processor.class === "CLIPImageProcessor";
  return { ...(isCut ? { resizeShorterEdge: edge } : {}), cropSize: edge, mean, std };
}

/** Visual tokens of a request that engine and context hold, without the last, which ends them. */
function visualTokens(
  { tokensPerRequest }: { readonly tokensPerRequest: number },
  limits: EngineSpec["limits"],
) {
  return Math.min(tokensPerRequest, limits.maxInputTokens) - 1;
}

/** Frames that engines and context hold. undefined for a model without video. */
export function videoFrames({ row, release, limits }: Pick<EngineSpec, "row" | "release" | "limits">) {
  const { video } = row.vision ?? {};
  const visual = visualNumbers(row, limits);
  if (video === undefined || visual === null || !blsTakesPictures(release)) return undefined;
  const inContext = Math.floor(visualTokens(visual, limits) / video.tokensPerFrame);
  return { ...video, maxFrames: Math.min(visual.visionMaxBatchSize, inContext) };
}
