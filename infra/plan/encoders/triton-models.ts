/**
 * The models of the encoders' Triton. Clients ask the same models, with the same tensors, as on the local platform; each
 * hands its numbers to a tower, which a TensorRT plan or ONNX Runtime computes (docs/decisions/0007).
 */
import {
  type EncoderSettings,
  llavaEnsembleConfig,
  textEncoderConfig,
  visionEncoderConfig,
} from "../repository/cpu-models.ts";
import type { ModelConfig, TensorConfig } from "../repository/model-config.ts";
import type { EncodersSpec } from "../spec.ts";
import { type EncoderSubject, OPTIMUM_TEXT_TOKENS } from "./build-steps.ts";
import type { EncoderModelName } from "./types.ts";

/** Triton's name of the model that computes. */
const TOWERS: Readonly<Record<EncoderModelName, string>> = {
  clip_text: "clip_text_tower",
  text_encoder: "text_tower",
  vision_encoder: "vision_tower",
};

/** Numbers of the rows that the clients' models have in their tensors. */
export interface EncoderDimensions {
  readonly text: { readonly dimension: number; readonly maxTokens: number };
  readonly vision: { readonly dimension: number };
}

/** `vision_encoder`: image file to vector. */
export function visionFront(spec: EncodersSpec, dimensions: EncoderDimensions): ModelConfig {
  return visionEncoderConfig(settings(spec, dimensions));
}

/** `text_encoder`: text to the vector that sentences share. */
export function textFront(spec: EncodersSpec, dimensions: EncoderDimensions): ModelConfig {
  return textEncoderConfig(settings(spec, dimensions));
}

/** `clip_text`: text to the vector that it shares with images; tensors as those of `text_encoder`. */
export function clipTextFront(spec: EncodersSpec, subject: EncoderSubject & { kind: "text" }): ModelConfig {
  const { row, tower } = subject;
  const dimensions = {
    text: { dimension: row.dimension, maxTokens: tower.maxTokens },
    vision: { dimension: row.dimension },
  };
  return { ...textEncoderConfig(settings(spec, dimensions, TOWERS.clip_text)), name: "clip_text" };
}

/** `llava_ensemble`: image and/or text. */
export function encoderEnsemble(spec: EncodersSpec, dimensions: EncoderDimensions): ModelConfig {
  return llavaEnsembleConfig(settings(spec, dimensions));
}

function settings(
  spec: EncodersSpec,
  dimensions: EncoderDimensions,
  textTower = TOWERS.text_encoder,
): EncoderSettings {
  const { maxTokens } = dimensions.text;
  return {
    // A GPU takes all texts of a batch at once: the plan's largest shape.
    ...(spec.device === "gpu" && { maxPaddedTokens: spec.maxBatchSize * maxTokens }),
    maxBatchSize: spec.maxBatchSize,
    maxQueueDelayMicroseconds: spec.maxQueueDelayMicroseconds,
    dynamicBatching: true,
    towers: { text: textTower, vision: TOWERS.vision_encoder },
    ...dimensions,
  };
}

/** What Triton runs a tower with. */
const RUNTIMES = {
  gpu: { backend: "tensorrt", kind: "KIND_GPU" },
  cpu: { backend: "onnxruntime", kind: "KIND_CPU" },
} as const;

/** A tower's file, as its backend looks for it when the configuration names none. */
export const TOWER_FILES = { gpu: "model.plan", cpu: "model.onnx" } as const;

/**
 * A tower: `max_batch_size` is the plan's largest batch. Requests wait in front of the models that clients ask, where
 * their texts and images are, so here nothing waits: batches that come while another runs are joined. Set up is done by
 * warm-up, since the Python backend may not ask a model before it serves
 * (https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/bls.html).
 */
export function towerConfig(spec: EncodersSpec, subject: EncoderSubject): ModelConfig {
  const { backend, kind } = RUNTIMES[spec.device];
  return {
    name: TOWERS[subject.name],
    backend,
    maxBatchSize: spec.maxBatchSize,
    inputs: towerInputs(subject, -1),
    outputs: [{ name: subject.tower.output, dataType: "TYPE_FP32", dims: [subject.row.dimension] }],
    dynamicBatching: { maxQueueDelayMicroseconds: 0 },
    // On a GPU: one for each GPU that the container sees.
    instanceGroups: [{ kind, count: 1 }],
    warmups: [{ name: "zeros", batchSize: 1, inputs: towerInputs(subject, OPTIMUM_TEXT_TOKENS) }],
  };
}

function towerInputs(subject: EncoderSubject, tokens: number): readonly TensorConfig[] {
  if (subject.kind === "vision") {
    const { imageSize, inputs } = subject.tower;
    return inputs.map((name) => ({ name, dataType: "TYPE_FP32", dims: [3, imageSize, imageSize] }));
  }
  // 32 bits: TensorRT before 10 has no 64-bit tensors, and no vocabulary needs them.
  return subject.tower.inputs.map((name) => ({ name, dataType: "TYPE_INT32", dims: [tokens] }));
}
