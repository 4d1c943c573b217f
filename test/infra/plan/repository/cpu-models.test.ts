import { describe, expect, it } from "vitest";
import {
  type EncoderSettings,
  type LanguageModelSettings,
  languageModelConfig,
  llavaEnsembleConfig,
  textEncoderConfig,
  visionEncoderConfig,
} from "../../../../infra/plan/repository/cpu-models.ts";
import { renderModelConfig } from "../../../../infra/plan/repository/model-config.ts";
import { recordedText } from "./recorded-text.ts";

const encoders: EncoderSettings = {
  maxBatchSize: 64,
  maxQueueDelayMicroseconds: 0,
  dynamicBatching: true,
  threads: 2,
  text: { dimension: 384, maxTokens: 256 },
  vision: { dimension: 512 },
};

const languageModel: LanguageModelSettings = {
  parallelRequests: 8,
  maxQueuedRequests: 4,
  contextTokens: 1024,
  maxTokens: 512,
  threads: 0,
};

describe("configurations of the encoders", () => {
  it.each([textEncoderConfig, visionEncoderConfig, llavaEnsembleConfig])(
    "$name is as recorded",
    async (config) => {
      const { name } = config(encoders);
      await recordedText(name, renderModelConfig(config(encoders)));
    },
  );

  it("joins at most 16 images, and in the ensemble no more than both encoders take", () => {
    const sizes = (maxBatchSize: number) =>
      [textEncoderConfig, visionEncoderConfig, llavaEnsembleConfig].map(
        (config) => config({ ...encoders, maxBatchSize }).maxBatchSize,
      );
    expect(sizes(64)).toEqual([64, 16, 16]);
    expect(sizes(4)).toEqual([4, 4, 4]);
  });

  it("leaves dynamic batching out when it is off", () => {
    const config = { ...encoders, dynamicBatching: false, maxQueueDelayMicroseconds: 500 };
    expect(renderModelConfig(textEncoderConfig(config))).not.toContain("dynamic_batching");
    expect(renderModelConfig(visionEncoderConfig(config))).not.toContain("dynamic_batching");
  });

  it("passes delay, threads, instances and lengths on", () => {
    const config = textEncoderConfig({
      ...encoders,
      maxQueueDelayMicroseconds: 750,
      threads: 3,
      instances: 2,
      text: { dimension: 768, maxTokens: 128 },
    });
    expect(config).toMatchObject({
      dynamicBatching: { maxQueueDelayMicroseconds: 750 },
      instanceGroups: [{ kind: "KIND_CPU", count: 2 }],
      parameters: { intra_op_threads: "3", max_tokens: "128" },
      outputs: [{ name: "text_embedding", dims: [768] }, { name: "token_count" }],
    });
  });
});

describe("configuration of the language model", () => {
  it("is as recorded", async () => {
    await recordedText("ensemble", renderModelConfig(languageModelConfig(languageModel)));
  });

  it("is decoupled, one request a batch, in one process", () => {
    expect(languageModelConfig(languageModel)).toMatchObject({
      maxBatchSize: 1,
      decoupled: true,
      instanceGroups: [{ kind: "KIND_CPU", count: 1 }],
    });
  });

  it("lets 64 requests wait when nothing else is said", () => {
    const { maxQueuedRequests: _, ...settings } = languageModel;
    expect(languageModelConfig(settings).parameters).toMatchObject({ max_queued_requests: "64" });
  });
});
