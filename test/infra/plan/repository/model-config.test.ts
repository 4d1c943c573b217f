import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ModelConfig, renderModelConfig } from "../../../../infra/plan/repository/model-config.ts";
import { recordedText } from "./recorded-text.ts";

/** Every field that the renderer knows, with strings that try to break out of their quotes. */
const everything: ModelConfig = {
  name: 'quo"te } \\ 名前 😀',
  backend: "python",
  maxBatchSize: 8,
  versionPolicy: { specific: [1, 3] },
  inputs: [{ name: "in\nput", dataType: "TYPE_FP16", dims: [-1, 3, 224, 224], optional: true }],
  outputs: [{ name: "out\u0000put", dataType: "TYPE_STRING", dims: [1] }],
  dynamicBatching: {
    preferredBatchSizes: [4, 8],
    maxQueueDelayMicroseconds: 500,
    defaultQueuePolicy: {
      timeoutAction: "DELAY",
      defaultTimeoutMicroseconds: 1_000_000,
      allowTimeoutOverride: true,
      maxQueueSize: 32,
    },
  },
  instanceGroups: [
    { kind: "KIND_GPU", count: 2, gpus: [0, 1] },
    { kind: "KIND_CPU", count: 1 },
  ],
  warmups: [
    {
      name: "zeros",
      batchSize: 1,
      inputs: [{ name: "in\nput", dataType: "TYPE_FP16", dims: [3, 224, 224] }],
    },
  ],
  decoupled: true,
  parameters: { "b'": "$(date)", a: '" } parameters { key: "x" value { string_value: "y' },
  responseCache: true,
};

describe("renderModelConfig", () => {
  it("renders every field as recorded", async () => {
    await recordedText("everything", renderModelConfig(everything));
  });

  it("leaves out what is not given, so that Triton's defaults hold", () => {
    const minimal: ModelConfig = {
      name: "m",
      backend: "python",
      maxBatchSize: 0,
      inputs: [],
      outputs: [],
      decoupled: false,
      responseCache: false,
    };
    expect(renderModelConfig(minimal)).toBe('name: "m"\nbackend: "python"\nmax_batch_size: 0\n');
  });

  it.each([
    [{ latest: 2 }, "  latest {\n    num_versions: 2\n  }\n"],
    [{ specific: [4] }, "  specific {\n    versions: 4\n  }\n"],
    [{ all: true }, "  all {\n  }\n"],
  ] as const)("renders the version policy %j", (versionPolicy, text) => {
    const config: ModelConfig = {
      name: "m",
      backend: "b",
      maxBatchSize: 0,
      versionPolicy,
      inputs: [],
      outputs: [],
    };
    expect(renderModelConfig(config)).toContain(`version_policy {\n${text}}\n`);
  });

  it("gives the same text whatever the order of parameters and maps", () => {
    const entries = fc.uniqueArray(fc.tuple(fc.string(), fc.string()), {
      selector: ([key]) => key,
      maxLength: 8,
    });
    fc.assert(
      fc.property(entries, (pairs) => {
        const text = (ordered: typeof pairs) =>
          renderModelConfig({
            name: "m",
            platform: "ensemble",
            maxBatchSize: 1,
            inputs: [],
            outputs: [],
            ensembleSteps: [
              {
                modelName: "a",
                inputMap: Object.fromEntries(ordered),
                outputMap: Object.fromEntries(ordered),
              },
            ],
            parameters: Object.fromEntries(ordered),
          });
        expect(text(pairs.toReversed())).toBe(text(pairs));
      }),
    );
  });

  it("keeps any string within its own line", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (value) => {
        const lines = (text: string) =>
          renderModelConfig({ ...everything, parameters: { key: text } }).split("\n").length;
        expect(lines(value)).toBe(lines("plain"));
      }),
    );
  });
});
