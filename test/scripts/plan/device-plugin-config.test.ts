import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { devicePluginConfig } from "../../../infra/plan/kubernetes/device-plugin-config.ts";
import { devicePluginValues } from "../../../scripts/plan/device-plugin-values.ts";
import { planExample, runCommand } from "./run-plan.ts";

/**
 * The part of NVIDIA's `Config` that is written, field by field as its Go structs and their UnmarshalJSON take it:
 * https://github.com/NVIDIA/k8s-device-plugin/tree/1b826acc6af3079d8923bac395c3124b8861a9a6/api/config/v1 (config.go, flags.go,
 * sharing.go, replicas.go, resources.go). `rename` and `devices` are there too, and ignored with a warning.
 */
const replicatedResources = z.strictObject({
  renameByDefault: z.boolean().optional(),
  failRequestsGreaterThanOne: z.boolean().optional(),
  resources: z
    .array(z.strictObject({ name: z.string().regex(/^nvidia\.com\/.{1,52}$/), replicas: z.int().min(2) }))
    .min(1),
});
const pluginConfig = z.strictObject({
  version: z.literal("v1"),
  flags: z.strictObject({ migStrategy: z.enum(["none", "single", "mixed"]) }).optional(),
  // Time slicing and MPS exclude each other.
  sharing: z
    .union([
      z.strictObject({ timeSlicing: replicatedResources }),
      z.strictObject({ mps: replicatedResources }),
    ])
    .optional(),
});

describe("a configuration of the plugin", () => {
  test.each([
    [{ mode: "none" }, null, { version: "v1" }],
    [
      { mode: "timeSlicing", replicas: 4 },
      null,
      {
        version: "v1",
        sharing: {
          timeSlicing: {
            failRequestsGreaterThanOne: true,
            resources: [{ name: "nvidia.com/gpu", replicas: 4 }],
          },
        },
      },
    ],
    [
      { mode: "mps", replicas: 2 },
      "nvidia.com/gpu.shared",
      {
        version: "v1",
        sharing: { mps: { renameByDefault: true, resources: [{ name: "nvidia.com/gpu", replicas: 2 }] } },
      },
    ],
    [{ mode: "mig", profile: "3g.20gb" }, null, { version: "v1", flags: { migStrategy: "mixed" } }],
    [
      { mode: "mig", profile: "3g.20gb" },
      "nvidia.com/gpu",
      { version: "v1", flags: { migStrategy: "single" } },
    ],
  ] as const)("for %j as %s is in NVIDIA's form", (sharing, own, expected) => {
    const config = devicePluginConfig(sharing, own);
    expect(config).toEqual(expected);
    expect(pluginConfig.parse(config)).toEqual(config);
  });

  test.each([
    [{ mode: "none" }, "nvidia.com/gpu.shared"],
    [{ mode: "timeSlicing", replicas: 4 }, "example.org/gpu"],
    [{ mode: "mig", profile: "3g.20gb" }, "nvidia.com/gpu.shared"],
  ] as const)("for %j can't make the name %s", (sharing, own) => {
    expect(devicePluginConfig(sharing, own)).toBeNull();
  });
});

/** templates/validation.yml of the chart refuses several configurations without a default or a fallback that needs no name. */
const values = z.strictObject({
  config: z
    .strictObject({
      default: z.string().optional(),
      fallbackStrategies: z.tuple([z.literal("empty")]).optional(),
      map: z.record(z.string(), z.string()),
    })
    .refine((config) => config.default !== undefined || config.fallbackStrategies !== undefined),
});
const machine = { gpu: "A10G", gpus: 1, vcpus: 8, memoryGiB: 64, networkMbps: 10_000 };
const shared = { mode: "timeSlicing", replicas: 2 };

/** Values of the chart, and what stands before them. */
function valuesOf(pools: readonly object[]) {
  const { plan } = checkedPlan({
    platform: "kubernetes",
    engineStore: { sizeGiB: 200 },
    models: [{ name: "gpt", model: "gpt2-medium", pool: "first", buildPool: "first" }],
    encoders: false,
    pools: pools.map((pool) => ({ machine, ...pool })),
    engines: { whenFull: "stopServer" },
  });
  if (plan.tier !== "gpu") throw new Error("no stack on GPUs");
  const text = devicePluginValues(plan);
  return { text, ...values.parse(parse(text)) };
}

describe("values of the plugin's chart", () => {
  test("for one pool are the default of every machine", () => {
    const { config, text } = valuesOf([{ name: "first", sharing: shared }]);
    expect(config.default).toBe("first");
    expect(pluginConfig.parse(parse(config.map.first ?? ""))).toEqual(
      devicePluginConfig({ mode: "timeSlicing", replicas: 2 }, null),
    );
    expect(text).not.toContain("kubectl");
  });

  test("for several pools are chosen by a label of their machines; a foreign name is said", () => {
    const { config, text } = valuesOf([
      { name: "first", sharing: shared, nodeSelector: { "example.org/pool": "first" } },
      { name: "whole", nodeSelector: { "example.org/pool": "whole" } },
      { name: "other", gpuResource: "example.org/gpu", nodeSelector: { "example.org/pool": "other" } },
      { name: "cpu", machine: { vcpus: 8, memoryGiB: 32 } },
    ]);
    expect(config.default).toBeUndefined();
    expect(config.fallbackStrategies).toEqual(["empty"]);
    expect(Object.keys(config.map)).toEqual(["first", "whole"]);
    expect(parse(config.map.whole ?? "")).toEqual({ version: "v1" });
    expect(text).toContain(
      "kubectl label nodes --overwrite --selector=example.org/pool=first nvidia.com/device-plugin.config=first\n",
    );
    expect(text).toContain("no way to call its GPUs example.org/gpu");
  });
});

describe("npm run plan -- --device-plugin-config", () => {
  test("of a stack whose GPU is shared in time", async () => {
    const { exitCode, stdout } = await planExample("llama-2-7b-chat-kubernetes", "--device-plugin-config");
    expect(exitCode).toBe(0);
    const { config } = values.parse(parse(stdout));
    expect(parse(config.map.gpu ?? "")).toMatchObject({
      sharing: { timeSlicing: { resources: [{ name: "nvidia.com/gpu", replicas: 2 }] } },
    });
  });

  test("is refused without GPUs, and with another form", async () => {
    const cpu = await runCommand("plan", "--stack", "local", "--device-plugin-config");
    expect(cpu).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("stacks on GPUs in a cluster"),
    });
    expect(await runCommand("plan", "--json", "--device-plugin-config")).toMatchObject({ exitCode: 2 });
  });
});
