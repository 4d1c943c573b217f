import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { parseConfig } from "../../../infra/config/config.ts";
import type { GpuPlan } from "../../../infra/plan/gpu-stack.ts";
import { devicePluginConfig } from "../../../infra/plan/kubernetes/capacity.ts";
import { planStack } from "../../../infra/plan/plan-stack.ts";
import { explain } from "../../../scripts/plan/explain.ts";
import { devicePluginValues } from "../../../scripts/plan/formats.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { planExample, runCommand } from "./run-plan.ts";

describe("npx engine-room plan", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-plan-"));

  afterAll(() => rmSync(folder, { recursive: true }));

  /** `plan` of a stack file with these values. */
  function planValues(values: Readonly<Record<string, unknown>>, ...options: readonly string[]) {
    const file = writtenStackFile(folder, values);
    return runCommand("plan", "--stack", "test", "--config-file", file, ...options);
  }

  const docker = {
    platform: "docker",
    host: { instanceType: "g5.4xlarge", diskGiB: 250 },
    engines: { whenFull: "stopServer" },
    models: [{ name: "llava", model: "llava-1.5-7b" }],
  };

  /** Two mistakes: one against the catalogue, one against the machine. */
  const wrong = {
    ...docker,
    models: [
      { name: "llava", model: "llava-1.5-7b", quantization: "fp8" },
      { name: "chat", model: "llama-2-7b-chat", tensorParallel: 3 },
    ],
  };

  test("`plan` of a stack file with problems prints each with its fix, and exits with 1", async () => {
    const { exitCode, stdout, stderr } = await planValues(wrong);
    expect(exitCode).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toContain("models[0].quantization");
    expect(stderr).toContain("models[1].tensorParallel");
    const [heading = ""] = stderr.split("\n");
    const count = Number(/^(\d+) problems/.exec(heading)?.[1]);
    expect(stderr.match(/^ {5}Fix: /gm)).toHaveLength(count);
  });

  test("`plan --json` of a stack file with problems prints them as an object", async () => {
    const text = await planValues(wrong);
    const { exitCode, stdout, stderr } = await planValues(wrong, "--json");
    expect(exitCode).toBe(1);
    expect(stderr).toBe("");
    const { problems } = JSON.parse(stdout) as { problems: { path: string; fix: string }[] };
    for (const { path, fix } of problems) {
      expect(text.stderr).toContain(path);
      expect(text.stderr).toContain(fix);
    }
  });

  test("`plan --json` prints problems that the schema finds, too", async () => {
    const { exitCode, stdout } = await planValues({ ...docker, models: [] }, "--json");
    expect(exitCode).toBe(1);
    const { problems } = JSON.parse(stdout) as { problems: object[] };
    expect(problems).toMatchObject([{ path: "models", value: "[]", line: expect.any(Number) }]);
    expect(Object.keys(problems[0] ?? {}).toSorted()).toEqual(["fix", "line", "path", "reason", "value"]);
  });

  test("`plan` reports a missing stack file as a problem", async () => {
    const { exitCode, stderr } = await runCommand("plan", "--config-file", join(folder, "none.yaml"));
    expect(exitCode).toBe(1);
    expect(stderr).toContain("--config-file");
  });

  const cpu = {
    platform: "docker",
    tier: "cpu",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
  };

  test("a stack on the CPUs of a Docker host is planned like a local stack", async () => {
    const { exitCode, stdout } = await planValues(cpu);
    expect(exitCode).toBe(0);
    expect(stdout).toContain("Stack test: platform docker, tier cpu, ");
    const { platform: _platform, tier: _tier, ...local } = cpu;
    const here = await planValues({ platform: "local", ...local });
    expect(stdout).toMatch(/\n\nNext: npx engine-room preflight .*\n$/);
    const planned = (text: string) => text.split("\n").slice(1, -2);
    expect(planned(stdout)).toEqual(planned(here.stdout));
  });

  test("a stack on the CPUs of a Docker host has ports and databases in its JSON, and no engine to explain", async () => {
    const { stdout } = await planValues({ ...cpu, databases: "container" }, "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      plan: {
        tier: "cpu",
        models: [{ ports: { http: 8000, grpc: 8001, metrics: 8002 } }],
        databases: { kind: "container", ports: { mongo: 27_017, vector: 6333 } },
      },
    });
    await expect(planValues(cpu, "--explain", "smollm2")).resolves.toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("builds no engine"),
    });
  });

  describe("a stack in a cluster", () => {
    const scaled = {
      platform: "kubernetes",
      tier: "cpu",
      models: [{ name: "smollm2", model: "smollm2-135m-instruct", replicas: 2, minReplicas: 0 }],
      encoders: { replicas: 3, minReplicas: 1 },
      schedule: { start: "0 8 * * 1-5", end: "0 20 * * 1-5", timeZone: "Europe/Berlin" },
    };
    const section = async (values: Readonly<Record<string, unknown>>) => {
      const { exitCode, stdout } = await planValues(values, "--full");
      expect(exitCode).toBe(0);
      const lines = stdout.split("\n");
      const from = lines.indexOf("Autoscaling");
      return lines.slice(from + 1, lines.indexOf("", from) - lines.length);
    };

    test("the plan of a cluster names the servers that are scaled, and their metrics", async () => {
      expect(await section({ ...scaled, monitoring: "prometheus-operator" })).toEqual([
        "  AUTOSCALER  SERVERS  BY SCHEDULE  EACH TAKES  OF THE SUM OF",
        "  smollm2      0 to 2       1 to 2           4  gateway_pending_requests of gateway",
        "  encoders     1 to 3                        4  nv_inference_pending_request_count of encoders",
      ]);
      const { models: _models, encoders: _encoders, schedule: _schedule, ...rest } = scaled;
      const models = [{ name: "smollm2", model: "smollm2-135m-instruct" }];
      expect((await planValues({ ...rest, models }, "--full")).stdout).not.toContain("Autoscaling");
    });

    test("the plan of a cluster warns of autoscalers without metrics", async () => {
      const { stdout } = await planValues(scaled);
      expect(stdout).toMatch(/^ {2}\S+\.yaml:\d+ {2}monitoring = "none"$/m);
      expect(stdout.replaceAll(/\s+/g, " ")).toContain("servers at zero would not start again.");
      const { stdout: awake } = await planValues({
        ...scaled,
        models: scaled.models.map(({ minReplicas: _, ...m }) => m),
        schedule: undefined,
      });
      expect(awake.replaceAll(/\s+/g, " ")).toContain("encoders would not scale.");
    });
  });

  test.each([
    [["--json", "--explain", "llava"], "Choose one of --json and --explain"],
    [["--full", "--json"], "Choose one of --full and --json"],
    [["--format", "dot"], 'Unknown --format "dot". Choose from mermaid'],
    [["--jsno"], "Unknown option '--jsno'"],
    [["llava"], "Unexpected argument: llava"],
  ])("`plan %j` is refused with exit code 2", async (options, sentence) => {
    const { exitCode, stderr } = await planExample("llava-1.5", ...options);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(sentence);
  });

  test("`plan --explain` of a mistyped model names the nearest", async () => {
    const { exitCode, stdout, stderr } = await planExample("multimodal-guide", "--explain", "villa");
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toContain('Unknown model "villa". Did you mean vila?');
  });

  test("`plan --explain` of an unknown model lists the known models", async () => {
    const { exitCode, stderr } = await planExample("multimodal-guide", "--explain", "gemma-something");
    expect(exitCode).toBe(2);
    expect(stderr).toContain("Choose from blip2, llava, vila, onevision, mllama");
  });

  test("the plan of a local stack has models and encoders, and no cost", async () => {
    const { exitCode, stdout } = await runCommand("plan", "--stack", "local");
    expect(exitCode).toBe(0);
    expect(stdout).toContain("smollm2-135m-instruct");
    expect(stdout).toContain("Cost: your own machine, not priced.");
  });

  test("the JSON of a plan is the same in every run", async () => {
    const first = await runCommand("plan", "--stack", "local", "--json");
    expect(JSON.parse(first.stdout)).toMatchObject({
      plan: { platform: "local", cost: { hourlyUsd: 0 } },
      warnings: [],
    });
    expect(await runCommand("plan", "--stack", "local", "--json")).toEqual(first);
  });

  test("a local stack has no commands to explain, since it builds no engine", async () => {
    const { exitCode, stderr } = await runCommand("plan", "--stack", "local", "--explain", "smollm2");
    expect(exitCode).toBe(1);
    expect(stderr).toContain("builds no engine");
  });
});

/** Corrections of docs/walkthroughs: required text of the commands in place of the original document's. */
const corrections: readonly {
  readonly example: string;
  readonly model: string;
  readonly has: readonly (string | RegExp)[];
  readonly hasNot: readonly string[];
}[] = [
  {
    example: "llava-1.5",
    model: "llava",
    has: [
      "python3 /app/tools/fill_template.py",
      /engine_dir:\/store\/engines\/llava-1\.5-7b\/[0-9a-f]{12}\/llm,/,
      /--engine_dir \/store\/engines\/llava-1\.5-7b\/[0-9a-f]{12} \\/,
      /TRT_ENGINE_LOCATION=\S+\/vision\/model\.engine /,
      "enable_kv_cache_reuse:False",
      "--max_seq_len 2560",
      "--max_multimodal_len 576",
      "/v2/models/llava-1.5/generate",
      'its answer holds "coffee" or "espresso" or "cup"',
    ],
    hasNot: ["/tensorrtllm_backend", "git lfs"],
  },
  {
    example: "llama-2-7b-chat-kubernetes",
    model: "llama-2-7b-chat",
    has: [
      "modelscope download",
      "--max_batch_size 64",
      "logits_datatype:TYPE_FP32",
      "encoder_input_features_data_type:TYPE_FP16",
      "max_tokens_in_paged_kv_cache:2560",
      "batching_strategy:inflight_batching",
      "bls_instance_count:64",
    ],
    hasNot: ["HF_TOKEN", "engines/1gpu", "tensorrt_llm==0.8.0", "git clone"],
  },
  {
    example: "llama-2-7b-tutorial",
    model: "llama-2-7b",
    has: [
      "--env HF_TOKEN",
      "--max_input_len 2048",
      "max_queue_delay_microseconds:10000",
      "exclude_input_in_output:False",
      "logits_datatype:TYPE_FP32",
      '"end_id":2,"pad_id":2',
    ],
    hasNot: ["tokenizer_type", "--paged_kv_cache", "--context_fmha", "/engines/1-gpu"],
  },
  {
    example: "llama-2-7b-tutorial",
    model: "llama-2-7b-cli",
    has: [`--gpus '"device=1"'`, "decoupled_mode:True", "/v2/models/llama-2-7b-cli/generate"],
    hasNot: ["triton import"],
  },
  {
    example: "multimodal-guide",
    model: "blip2",
    has: [
      "models/contrib/opt/convert_checkpoint.py",
      "--max_multimodal_len 256",
      "multimodal_model_path:",
      "build_multimodal_engine.py",
    ],
    hasNot: ["visual_model_path", "build_visual_engine.py", "cross_kv_cache_fraction"],
  },
  {
    example: "multimodal-guide",
    model: "vila",
    has: [
      "--max_multimodal_len 6272",
      "--max_batch_size 32",
      "max_num_images:4",
      "image_url_input",
      "1/template_model.py",
    ],
    hasNot: ["max_num_images:1"],
  },
  {
    example: "multimodal-guide",
    model: "onevision",
    has: ["models/core/qwen/convert_checkpoint.py", "triton_max_batch_size:1"],
    hasNot: ["pip install", "contrib/qwen", "triton_max_batch_size:8"],
  },
  {
    example: "multimodal-guide",
    model: "mllama",
    has: [
      "--max_encoder_input_len 4100",
      "encoder_input_features_data_type:TYPE_BF16",
      "cross_kv_cache_fraction:0.5",
      "image_url_input",
    ],
    hasNot: ["6404", "--max_multimodal_len", "ENCODER_INPUT_FEATURES_DTYPE"],
  },
  {
    example: "gpt2-medium-encoders",
    model: "gpt2-medium",
    has: [
      "--bind-to none -n 1 /opt/tritonserver/bin/tritonserver",
      "all_models/inflight_batcher_llm/preprocessing",
      '"end_id":50256',
    ],
    hasNot: ["/opt/scripts", "all_models/gpt", "/preprocessor"],
  },
  {
    example: "gpt2-medium-encoders",
    model: "encoders",
    has: ["encoder_builder calibrate", "--int8", "model.plan", "nvcr.io/nvidia/tritonserver:25.07-py3"],
    hasNot: ["trtllm-python-py3"],
  },
];

test.each(corrections)(
  "the commands of $model in $example have the corrections of docs/walkthroughs",
  async ({ example, model, has, hasNot }) => {
    const { exitCode, stdout } = await planExample(example, "--explain", model);
    expect(exitCode).toBe(0);
    for (const text of has) expect(stdout).toMatch(text);
    for (const text of hasNot) expect(stdout).not.toContain(text);
  },
);

test.each(corrections)(
  "the commands of $model in $example are a script that bash can read",
  async ({ example, model }) => {
    const { stdout } = await planExample(example, "--explain", model);
    const { status, stderr } = spawnSync("bash", ["-n"], { input: stdout, encoding: "utf8" });
    expect([status, stderr]).toEqual([0, ""]);
  },
);

const machine = { gpu: "A10G", gpus: 4, vcpus: 48, memoryGiB: 192, localDiskGB: 3800 };

const IN_A_CLUSTER = {
  platform: "kubernetes",
  hub: { tokenSecret: { name: "hub-token" } },
  pools: [{ name: "gpu", machine }],
};

const ON_A_HOST = { platform: "docker", host: { machine } };

/** Plans one model on a machine with enough memory. */
function planned(
  model: Readonly<Record<string, unknown>>,
  release = "25.07",
  where: Readonly<Record<string, unknown>> = IN_A_CLUSTER,
): GpuPlan {
  const { plan, problems } = planStack(
    parseConfig({
      ...where,
      release,
      encoders: false,
      engines: { whenFull: "stopServer" },
      models: [{ name: "model", triton: { streaming: false }, ...model }],
    }),
  );
  expect(problems).toEqual([]);
  if (plan === null || plan.tier === "cpu") throw new Error("no plan");
  return plan;
}

function explained(plan: GpuPlan): string {
  return explain(plan, "model", "/data/store");
}

test("commands of a release without converters clone the backend once, before they use it", () => {
  const text = explained(planned({ model: "gpt2-medium" }, "24.04"));
  expect(text.match(/git init \/tensorrtllm_backend$/gm)).toHaveLength(1);
  expect(text.indexOf("git init")).toBeLessThan(text.indexOf("/tensorrtllm_backend/tensorrt_llm/examples"));
  expect(text).toContain("python3 /tensorrtllm_backend/tools/fill_template.py");
});

test("commands mount the store of the machine, and the folder of local weights", () => {
  const weights = { from: "folder", path: "/models/gpt2", revision: "first" };
  const text = explained(planned({ model: "gpt2-medium", weights }, "25.07", ON_A_HOST));
  expect(text).toContain("--volume /data/store:/store");
  expect(text).toContain("--volume /models/gpt2:/models/gpt2");
  expect(text).toContain("--model_dir /models/gpt2");
  expect(text).not.toContain("huggingface-cli");
  const stored = { ...weights, path: "/store/own/gpt2" };
  expect(explained(planned({ model: "gpt2-medium", weights: stored }))).not.toContain("--volume /store/own");
});

test("commands of a model without an engine download its weights and build nothing", () => {
  const text = explained(planned({ model: "llama-2-7b", runtime: "llmapi" }));
  expect(text).toContain("huggingface-cli download meta-llama/Llama-2-7b-hf");
  expect(text).toContain("/v2/models/tensorrt_llm/generate");
  expect(text).not.toContain("trtllm-build");
});

test("commands of several ranks check and serve with all of them", () => {
  const text = explained(planned({ model: "llama-2-7b", tensorParallel: 2 }));
  expect(text).toContain("--tp_size 2");
  expect(text).toContain("mpirun");
  expect(text).toMatch(
    /none -n 1 \/opt\/tritonserver\/bin\/tritonserver [^:]+ : -n 1 \/opt\/\S+\/tritonserver /,
  );
  expect(text).toContain("the server, 2 ranks");
});

test("only models of the stack have commands", () => {
  const plan = planned({ model: "gpt2-medium" });
  expect(() => explain(plan, "encoders", "/data/store")).toThrow(
    'Unknown model "encoders". Choose from model.',
  );
});

describe("npx engine-room plan --device-plugin-config", () => {
  /**
   * The written part of NVIDIA's `Config`, by its Go structs and their UnmarshalJSON:
   * https://github.com/NVIDIA/k8s-device-plugin/tree/1b826acc6af3079d8923bac395c3124b8861a9a6/api/config/v1 (config.go, flags.go,
   * sharing.go, replicas.go, resources.go). It also has `rename` and `devices`, which it ignores with a warning.
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
  ] as const)(
    "the device plugin's configuration for %j with the resource %s has NVIDIA's form",
    (sharing, own, expected) => {
      const config = devicePluginConfig(sharing, own);
      expect(config).toEqual(expected);
      expect(pluginConfig.parse(config)).toEqual(config);
    },
  );

  test.each([
    [{ mode: "none" }, "nvidia.com/gpu.shared"],
    [{ mode: "timeSlicing", replicas: 4 }, "example.org/gpu"],
    [{ mode: "mig", profile: "3g.20gb" }, "nvidia.com/gpu.shared"],
  ] as const)("the device plugin can't name the resource of GPUs shared by %j %s", (sharing, own) => {
    expect(devicePluginConfig(sharing, own)).toBeNull();
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

  /** Values of the chart, and the comment before them. */
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

  test("the chart's values for one pool are the default of every machine", () => {
    const { config, text } = valuesOf([{ name: "first", sharing: shared }]);
    expect(config.default).toBe("first");
    expect(pluginConfig.parse(parse(config.map.first ?? ""))).toEqual(
      devicePluginConfig({ mode: "timeSlicing", replicas: 2 }, null),
    );
    expect(text).not.toContain("kubectl");
  });

  test("the chart's values for several pools are chosen by labels of machines, and a foreign resource name is reported", () => {
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

  test("`plan --device-plugin-config` prints the values of a stack whose GPU is time-sliced", async () => {
    const { exitCode, stdout } = await planExample("llama-2-7b-chat-kubernetes", "--device-plugin-config");
    expect(exitCode).toBe(0);
    const { config } = values.parse(parse(stdout));
    expect(parse(config.map.gpu ?? "")).toMatchObject({
      sharing: { timeSlicing: { resources: [{ name: "nvidia.com/gpu", replicas: 2 }] } },
    });
  });

  test("`plan --device-plugin-config` is refused outside a cluster with GPUs, and beside --json", async () => {
    const refused = { exitCode: 1, stderr: expect.stringContaining("stacks on GPUs in a cluster") };
    expect(await runCommand("plan", "--stack", "local", "--device-plugin-config")).toMatchObject(refused);
    expect(await planExample("ec2", "--device-plugin-config")).toMatchObject(refused);
    expect(await runCommand("plan", "--json", "--device-plugin-config")).toMatchObject({ exitCode: 2 });
  });
});
