import { describe, expect, it } from "vitest";
import { gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import { encoderPlan } from "../../../../infra/plan/encoders/encoder-plan.ts";
import type { EncoderPlan } from "../../../../infra/plan/encoders/types.ts";
import {
  llavaEnsembleConfig,
  textEncoderConfig,
  visionEncoderConfig,
} from "../../../../infra/plan/repository/cpu-models.ts";
import { renderModelConfig } from "../../../../infra/plan/repository/model-config.ts";
import { recordedText } from "../repository/recorded-text.ts";
import { b32, onCpu } from "./stacks.ts";

const gpu = encoderPlan(b32, releases["25.07"], gpus.A10G);
const cpu = encoderPlan(onCpu, releases["25.07"], null);

/** The local platform's models, for the same batch and the same encoders. */
const local = {
  maxBatchSize: b32.maxBatchSize,
  maxQueueDelayMicroseconds: b32.maxQueueDelayMicroseconds,
  dynamicBatching: true,
  threads: 2,
  text: { dimension: 384, maxTokens: 256 },
  vision: { dimension: 512 },
};

function config(plan: EncoderPlan, name: string) {
  const found = plan.tritonModels.find((model) => model.config.name === name);
  if (found === undefined) throw new Error(`the plan has no ${name}`);
  return found.config;
}

describe("configurations", () => {
  it.each(gpu.tritonModels.map((model) => model.config.name))("%s on a GPU is as recorded", async (name) => {
    await recordedText(`gpu_${name}`, renderModelConfig(config(gpu, name)));
  });

  it("a tower on a CPU is as recorded", async () => {
    await recordedText("cpu_vision_tower", renderModelConfig(config(cpu, "vision_tower")));
  });

  it.each([textEncoderConfig, visionEncoderConfig, llavaEnsembleConfig])(
    "$name has the tensors and batches of the local platform's",
    (localConfig) => {
      const { parameters: _own, ...expected } = localConfig(local);
      const { parameters: _fronts, ...front } = config(gpu, expected.name);
      expect(front).toEqual(expected);
    },
  );

  it("hands each model the tower that computes for it", () => {
    expect(config(gpu, "vision_encoder").parameters).toEqual({
      tower_model: "vision_tower",
      max_image_bytes: "10485760",
      max_image_pixels: "40000000",
    });
    expect(config(gpu, "text_encoder").parameters).toMatchObject({
      tower_model: "text_tower",
      max_tokens: "256",
    });
    expect(config(gpu, "clip_text").parameters).toMatchObject({
      tower_model: "clip_text_tower",
      max_tokens: "77",
    });
  });

  it("has the local platform's Python in front, and none in a tower", () => {
    const sources = Object.fromEntries(
      gpu.tritonModels.map((model) => [model.config.name, model.sources["1/model.py"]]),
    );
    expect(sources).toEqual({
      clip_text: "encoders/text_encoder.py",
      text_encoder: "encoders/text_encoder.py",
      vision_encoder: "encoders/vision_encoder.py",
    });
  });

  it("computes all texts of a batch at once on a GPU, within the plan's shapes, and fewer on a CPU", () => {
    expect(config(gpu, "text_encoder").parameters).toMatchObject({ max_padded_tokens: String(32 * 256) });
    expect(config(gpu, "clip_text").parameters).toMatchObject({ max_padded_tokens: String(32 * 77) });
    expect(config(cpu, "text_encoder").parameters).toMatchObject({ max_padded_tokens: "512" });
  });

  it("maps texts and images of CLIP into one space, and sentences into another", () => {
    const plan = encoderPlan({ ...b32, vision: "clip-vit-large-patch14" }, releases["25.07"], gpus.A10G);
    const dimensions = ["clip_text", "vision_encoder", "text_encoder"].map(
      (name) => config(plan, name).outputs[0]?.dims,
    );
    expect(dimensions).toEqual([[768], [768], [384]]);
    expect(plan.ensemble.outputs.map(({ dims }) => dims)).toEqual([[768], [384]]);
  });

  it("runs towers on TensorRT or ONNX Runtime, each with the file that its backend looks for", () => {
    const files = (plan: EncoderPlan) =>
      Object.fromEntries(plan.tritonModels.map((model) => [model.config.name, model.files]));
    expect(config(gpu, "text_tower")).toMatchObject({
      backend: "tensorrt",
      instanceGroups: [{ kind: "KIND_GPU" }],
    });
    expect(files(gpu)).toMatchObject({
      text_tower: { "1/model.plan": "text_encoder/model.plan" },
      text_encoder: { "1/tokenizer.json": "text_encoder/tokenizer.json" },
      vision_encoder: { "1/preprocess.json": "vision_encoder/preprocess.json" },
      llava_ensemble: {},
    });
    expect(config(cpu, "text_tower")).toMatchObject({
      backend: "onnxruntime",
      instanceGroups: [{ kind: "KIND_CPU" }],
    });
    expect(files(cpu)).toMatchObject({ text_tower: { "1/model.onnx": "text_encoder/model.onnx" } });
  });
});
