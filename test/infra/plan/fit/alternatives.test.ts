import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseConfig } from "../../../../infra/config/config.ts";
import { LANGUAGE_MODELS } from "../../../../infra/plan/catalogue/language-models.ts";
import { machineTypes } from "../../../../infra/plan/catalogue/machines.ts";
import type { Quantization } from "../../../../infra/plan/catalogue/types.ts";
import { memoryFit } from "../../../../infra/plan/fit/memory-fit.ts";
import { planStack } from "../../../../infra/plan/plan-stack.ts";
import type { GpuStackSpec, PoolSpec } from "../../../../infra/plan/spec.ts";
import { times } from "../../../harness/thorough.ts";
import { encodersOf, modelOf, poolOf, present, stackOf } from "./stacks.ts";

function alternativesOf(stack: GpuStackSpec) {
  return present(memoryFit(stack)[0], "fit").alternatives;
}

function changesOf(stack: GpuStackSpec): readonly string[] {
  return alternativesOf(stack).map(({ change }) => change);
}

/** One machine that is simply there. */
function hostOf(instanceType: string): PoolSpec {
  return poolOf(instanceType, { capacity: "owned", nodes: { min: 1, max: 1 } });
}

describe("alternatives to a GPU that is too small", () => {
  const tooLarge = modelOf("llama-3.2-11b-vision", { serving: { concurrentRequests: 8 } });
  const stack = stackOf([tooLarge], [poolOf("g5.2xlarge")]);

  test("alternatives that hold the model are listed, cheapest first", () => {
    const found = alternativesOf(stack);
    const prices = found.map(({ hourlyUsd }) => hourlyUsd ?? Infinity);
    expect(prices).toEqual([...prices].sort((a, b) => a - b));
    expect(found.map(({ change }) => change)).toEqual(
      expect.arrayContaining([
        "g6e.2xlarge: 1 × L40S with 44.70 GiB",
        "tensorParallel: 2 on g5.12xlarge: 4 × A10G",
        "quantization: int4",
      ]),
    );
  });

  test("alternatives fit with the whole error counted", () => {
    const changed = {
      "quantization: int4": stackOf(
        [{ ...tooLarge, engine: { ...tooLarge.engine, quantization: "int4" } }],
        stack.pools,
      ),
      "tensorParallel: 2 on g5.12xlarge: 4 × A10G": stackOf(
        [{ ...tooLarge, engine: { ...tooLarge.engine, tensorParallel: 2 } }],
        [poolOf("g5.12xlarge")],
      ),
      "g6e.2xlarge: 1 × L40S with 44.70 GiB": stackOf([tooLarge], [poolOf("g6e.2xlarge")]),
    };
    for (const [change, other] of Object.entries(changed)) {
      expect([change, memoryFit(other)[0]?.verdict]).toEqual([change, "fits"]);
    }
  });

  test("fp8 is not an alternative on a GPU that can't compute it", () => {
    const changes = alternativesOf(stack).map(({ change }) => change);
    expect(changes).not.toContain("quantization: fp8");
  });

  test("the alternative of fewer concurrent requests is the most that fit", () => {
    // Short sequences: the step from one number to the next is smaller than the error.
    const limits = { maxInputTokens: 192, maxOutputTokens: 64 };
    const many = modelOf("llama-2-7b", { limits, serving: { concurrentRequests: 100 } });
    const on = [poolOf("g5.2xlarge")];
    const change = alternativesOf(stackOf([many], on)).find((one) =>
      one.change.startsWith("concurrentRequests"),
    );
    const fitting = Number(present(change, "alternative").change.split(": ")[1]);
    const verdict = (concurrentRequests: number) =>
      memoryFit(stackOf([modelOf("llama-2-7b", { limits, serving: { concurrentRequests } })], on))[0]
        ?.verdict;
    expect([verdict(fitting), verdict(fitting + 1)]).toEqual(["fits", "tight"]);
  });

  test("alternatives without a region have no price", () => {
    const found = alternativesOf({ ...stack, region: null });
    expect(found.length).toBeGreaterThan(0);
    expect(found.every(({ hourlyUsd }) => hourlyUsd === null)).toBe(true);
  });

  test("models on a shared GPU have a larger GPU as an alternative, and no tensor parallelism", () => {
    const pair = ["a", "b"].map((name) => modelOf("llama-2-7b", { name, gpuIndices: [0] }));
    const host = poolOf("g5.2xlarge", { capacity: "owned", nodes: { min: 1, max: 1 } });
    const found = alternativesOf(stackOf(pair, [host], { platform: "docker" }));
    expect(found.some(({ change }) => change.includes("L40S"))).toBe(true);
    expect(found.some(({ change }) => change.startsWith("tensorParallel"))).toBe(false);
  });

  test("a stack that fits has no alternatives", () => {
    expect(alternativesOf(stackOf([modelOf("gpt2-medium")], [poolOf("g5.xlarge")]))).toEqual([]);
  });
});

describe("order of alternatives", () => {
  const tooLarge = modelOf("llama-3.2-11b-vision", { serving: { concurrentRequests: 8 } });
  const unpriced = [
    "quantization: int4",
    "g6e.2xlarge: 1 × L40S with 44.70 GiB",
    "tensorParallel: 2 on g5.12xlarge: 4 × A10G",
    "p5.4xlarge: 1 × H100 with 80.00 GiB",
    "p4d.24xlarge: 8 × A100-SXM4-40GB with 40.00 GiB",
    "p4de.24xlarge: 8 × A100-SXM4-80GB with 80.00 GiB",
  ];

  test.each([
    ["a Docker host", stackOf([tooLarge], [hostOf("g5.4xlarge")], { platform: "docker", region: null })],
    ["a cluster", stackOf([tooLarge], [poolOf("g5.4xlarge")], { platform: "kubernetes", region: null })],
    [
      "a machine in a region without prices",
      stackOf([tooLarge], [poolOf("g5.4xlarge")], { region: "sa-east-1" }),
    ],
  ])(
    "alternatives on %s are in the order of us-east-1's prices, settings first, and show none of them",
    (_, stack) => {
      expect(changesOf(stack)).toEqual(unpriced);
      expect(alternativesOf(stack).every(({ hourlyUsd }) => !hourlyUsd)).toBe(true);
    },
  );

  test("the first alternative is a setting that needs no other engine, even if the stack's own machine has a price", () => {
    const model = modelOf("llama-2-7b", {
      limits: { maxInputTokens: 768, maxOutputTokens: 256 },
      serving: { concurrentRequests: 20 },
    });
    const pool = poolOf("g5.4xlarge", { hourlyUsd: 500 });
    const found = changesOf(stackOf([model], [pool], { platform: "kubernetes", region: null }));
    expect(found.slice(0, 3)).toEqual(["concurrentRequests: 13", "quantization: int8", "quantization: int4"]);
    expect(found.length).toBeGreaterThan(3);
  });

  test("a machine that a priced region does not have is not an alternative", () => {
    const offered = changesOf(stackOf([tooLarge], [poolOf("g5.4xlarge")], { region: "us-east-1" }));
    expect(offered.join()).not.toContain("p5e.48xlarge");
  });
});

const vision = modelOf("llama-3.2-11b-vision");

test("alternatives have the host memory that converting takes: 41.5 GiB are more than g6e.xlarge leaves", () => {
  const found = changesOf(stackOf([vision], [poolOf("g5.xlarge")]));
  expect(found).toContain("g6e.2xlarge: 1 × L40S with 44.70 GiB");
  expect(found.join()).not.toContain("g6e.xlarge");
});

test("alternatives need no memory for a build if another pool builds, whose GPU changes too", () => {
  const served = modelOf("llama-3.2-11b-vision", { pool: "serve", buildPool: "build" });
  const pools = [
    poolOf("g5.2xlarge", { name: "serve" }),
    poolOf("g5.8xlarge", { name: "build", path: "pools[1]" }),
  ];
  const found = changesOf(stackOf([served], pools));
  expect(found).toContain("g6e.xlarge: 1 × L40S with 44.70 GiB, in build too");
  expect(found).toContain("tensorParallel: 2 on g5.12xlarge: 4 × A10G");
});

test("alternatives of a Docker host hold all of its servers", () => {
  // A server takes 8 GiB of memory, and g6e.xlarge leaves 29,317 MiB: room for three.
  const serving = { concurrentRequests: 40, maxTokensInPagedKvCache: 40 * 1024 };
  const l40s = (servers: number) => {
    const models = Array.from({ length: servers }, (_, index) =>
      modelOf("gpt2-medium", { name: `m${index}`, gpuIndices: [0], serving }),
    );
    const stack = stackOf(models, [hostOf("g4dn.8xlarge")], { platform: "docker", region: null });
    return changesOf(stack).find((change) => change.includes("L40S"));
  };
  expect(l40s(3)).toMatch(/^g6e\.xlarge/);
  expect(l40s(4)).toMatch(/^g6e\.2xlarge/);
});

test("alternatives have a GPU for every pod and build that had one", () => {
  // One machine with four GPUs: three serve, and one builds.
  const servers = modelOf("llama-3.2-11b-vision", { serving: { replicas: 3 } });
  const pool = poolOf("g5.12xlarge", { nodes: { min: 0, max: 1 } });
  const found = changesOf(stackOf([servers], [pool]));
  expect(found).toContain("g6e.12xlarge: 4 × L40S with 44.70 GiB");
  expect(found).toContain("tensorParallel: 2 on g5.48xlarge: 8 × A10G");
  expect(found.join()).not.toContain("p5.4xlarge");
  expect(found).not.toContain("tensorParallel: 2");
});

test("alternatives to an unsupported GPU are other machines only", () => {
  const found = changesOf(stackOf([modelOf("llama-2-7b")], [poolOf("g4dn.2xlarge")]));
  expect(found).toContain("g5.4xlarge: 1 × A10G with 22.35 GiB");
  for (const change of found) expect(change).not.toMatch(/T4|quantization|tensorParallel/);
});

test("alternatives have no less memory for the models on the same GPU", () => {
  const beside = modelOf("gpt2-medium", { name: "beside" });
  const small = modelOf("gpt2-medium", { serving: { concurrentRequests: 200 } });
  const on = [poolOf("g6e.2xlarge", { sharing: { mode: "mps", replicas: 8 } })];
  for (const change of changesOf(stackOf([small, beside], on))) expect(change).not.toMatch(/T4|L4 |A10G/);
});

describe("alternatives on shared GPUs", () => {
  const pair = (changes: { readonly gpuIndices?: readonly number[] } = {}) =>
    ["a", "b"].map((name) => modelOf("llama-2-7b", { name, ...changes }));
  const docker = { platform: "docker", region: null } as const;

  test("alternatives for models on one GPU are machines with one GPU each", () => {
    expect(changesOf(stackOf(pair(), [hostOf("g5.4xlarge")], docker))).toContain(
      "g5.12xlarge: 4 × A10G with 22.35 GiB",
    );
    expect(changesOf(stackOf(pair({ gpuIndices: [0] }), [hostOf("g5.4xlarge")], docker))).toContain(
      "g5.12xlarge: 4 × A10G with 22.35 GiB, without gpuIndices",
    );
  });

  test("an alternative with more ranks leaves gpuIndices out", () => {
    const numbered = modelOf("llama-3.2-11b-vision", { gpuIndices: [1] });
    expect(changesOf(stackOf([numbered], [hostOf("g5.12xlarge")], docker))).toContain(
      "tensorParallel: 2, without gpuIndices",
    );
  });

  test.each(["mps", "timeSlicing"] as const)(
    "an alternative to a GPU shared by %s is to stop sharing",
    (mode) => {
      const models = Array.from({ length: 4 }, (_, index) =>
        modelOf("gpt2-medium", { name: `m${index}`, serving: { concurrentRequests: 40 } }),
      );
      const pool = poolOf("g5.2xlarge", { nodes: { min: 0, max: 5 }, sharing: { mode, replicas: 8 } });
      expect(changesOf(stackOf(models, [pool]))).toContain("sharing.mode: none");
    },
  );

  test("alternatives to time slicing on one machine have a GPU for each model", () => {
    const sliced = poolOf("g5.4xlarge", {
      nodes: { min: 0, max: 1 },
      sharing: { mode: "timeSlicing", replicas: 2 },
    });
    const found = changesOf(stackOf(pair(), [sliced]));
    expect(found).toContain("sharing.mode: none on g5.12xlarge: 4 × A10G");
    expect(found).not.toContain("sharing.mode: none");
  });

  test("an alternative to a MIG partition is to stop sharing", () => {
    const pool = poolOf("p4d.24xlarge", { sharing: { mode: "mig", profile: "1g.5gb" } });
    expect(changesOf(stackOf([modelOf("llama-2-7b")], [pool]))).toContain("sharing.mode: none");
  });
});

const docker = {
  platform: "docker",
  models: [{ name: "vision", model: "llama-3.2-11b-vision" }],
  host: { instanceType: "g5.4xlarge" },
  engines: { whenFull: "stopServer" },
  hub: { tokenFile: "/run/secrets/hub-token" },
};

function problemsOf(values: Readonly<Record<string, unknown>>) {
  return planStack(parseConfig(values)).problems;
}

test("machines that a problem of memory offers have no problem with the whole stack", () => {
  const [problem, ...others] = problemsOf(docker);
  expect(others).toEqual([]);
  const types = [...(problem?.fix ?? "").matchAll(/(?:^|[ ;])((?:g|p)\d\w*\.\w+): /g)].map(
    ([, type]) => type,
  );
  expect(types).toContain("g6e.2xlarge");
  const machines = types.filter((type) => !problem?.fix?.includes(`on ${type}`));
  for (const instanceType of machines) {
    expect([instanceType, problemsOf({ ...docker, host: { instanceType } })]).toEqual([instanceType, []]);
  }
});

test("a model with more ranks than the host has GPUs has no further problem of memory", () => {
  const values = { ...docker, models: [{ name: "x", model: "llama-2-7b", tensorParallel: 4 }] };
  expect(problemsOf(values).map(({ path }) => path)).toEqual(["models[0].tensorParallel"]);
});

test("a problem of memory names each tenant once", () => {
  const models = [
    { name: "x", model: "llama-2-7b", replicas: 2 },
    { name: "y", model: "llama-2-7b" },
  ];
  const reasons = problemsOf({ ...docker, models }).map(({ reason }) => reason);
  expect(reasons).toContainEqual(expect.stringMatching(/^2 × x, y need about /));
});

/** Applies an alternative's text to the pool, or to some tenants of a GPU. */
function applied(stack: GpuStackSpec, tenants: readonly string[], change: string): GpuStackSpec {
  const settingOf = (key: string) => new RegExp(`${key}: (\\w+)`).exec(change)?.[1];
  const pool = present(stack.pools[0], "pool");
  const type = Object.keys(machineTypes).find((name) => change.includes(`${name}: `));
  const { instanceType, machine, gpu } = type === undefined ? pool : poolOf(type);
  const sharing = settingOf("sharing.mode") === undefined ? pool.sharing : ({ mode: "none" } as const);
  const unpinned = change.includes("without gpuIndices") ? { gpuIndices: undefined } : {};
  const changed = tenants.length === 1 ? tenants[0] : change.split(": ")[0];
  return {
    ...stack,
    pools: [{ ...pool, instanceType, machine, gpu, sharing }],
    encoders: stack.encoders && { ...stack.encoders, ...(tenants.includes("encoders") ? unpinned : {}) },
    models: stack.models.map((model) => {
      const { engine, serving } = model;
      const { tensorParallel, quantization } = engine;
      const spread = { ...model, ...(tenants.includes(serving.name) ? unpinned : {}) };
      if (serving.name !== changed) return spread;
      const requests = Number(settingOf("concurrentRequests") ?? serving.concurrentRequests);
      return {
        ...spread,
        engine: {
          ...engine,
          tensorParallel: Number(settingOf("tensorParallel") ?? tensorParallel),
          quantization: (settingOf("quantization") ?? quantization) as Quantization,
        },
        serving: { ...serving, concurrentRequests: requests },
      };
    }),
  };
}

const sharings = fc.constantFrom<PoolSpec["sharing"]>(
  { mode: "none" },
  { mode: "timeSlicing", replicas: 3 },
  { mode: "mps", replicas: 2 },
);
const anyStack = fc
  .record({
    models: fc.array(
      fc.record({
        model: fc.constantFrom(...LANGUAGE_MODELS),
        concurrentRequests: fc.integer({ min: 1, max: 80 }),
        isPinned: fc.boolean(),
      }),
      { minLength: 1, maxLength: 4 },
    ),
    instanceType: fc.constantFrom("g4dn.2xlarge", "g5.2xlarge", "g5.12xlarge", "g6e.4xlarge", "p4d.24xlarge"),
    platform: fc.constantFrom("docker", "kubernetes"),
    sharing: sharings,
    hasEncoders: fc.boolean(),
  })
  .map(({ models, instanceType, platform, sharing, hasEncoders }) => {
    const isHost = platform === "docker";
    return stackOf(
      models.map(({ model, concurrentRequests, isPinned }, index) =>
        modelOf(model, {
          name: `m${index}`,
          serving: { concurrentRequests },
          ...(isHost && isPinned ? { gpuIndices: [0] } : {}),
        }),
      ),
      [isHost ? hostOf(instanceType) : poolOf(instanceType, { sharing })],
      { platform, encoders: hasEncoders ? encodersOf() : null },
    );
  });

test("each alternative, applied to the stack, lets all models on the GPU fit", () => {
  const kinds = new Set<string>();
  fc.assert(
    fc.property(anyStack, (stack) => {
      for (const { tenants, alternatives } of memoryFit(stack)) {
        for (const { change } of alternatives) {
          const landed = memoryFit(applied(stack, [...new Set(tenants)], change)).filter((fit) =>
            fit.tenants.some((tenant) => tenants.includes(tenant)),
          );
          const placed = landed.flatMap((fit) => fit.tenants);
          expect([change, placed]).toEqual([change, expect.arrayContaining([...tenants])]);
          expect([change, ...landed.map(({ verdict }) => verdict)]).toEqual([
            change,
            ...landed.map(() => "fits"),
          ]);
          kinds.add(/quantization|concurrentRequests|tensorParallel|sharing.mode|$/.exec(change)?.[0] ?? "");
        }
      }
    }),
    { numRuns: times(60, 1000) },
  );
  expect(kinds.size).toBe(5);
});

test.each([
  ["timeSlicing", "gpt2-medium", "g5.2xlarge", { mode: "timeSlicing", replicas: 8 }],
  ["none", "llama-2-7b", "g5.12xlarge", { mode: "none" }],
] as const)(
  "300 models on GPUs with sharing.mode %s have alternatives",
  (_, name, type, sharing) => {
    const models = Array.from({ length: 300 }, (_model, index) =>
      modelOf(name, { name: `m${index}`, serving: { concurrentRequests: 40 + (index % 20) } }),
    );
    const fits = memoryFit(stackOf(models, [poolOf(type, { sharing, nodes: { min: 0, max: 2500 } })]));
    expect(fits.length).toBeGreaterThan(290);
    expect(fits.every(({ alternatives }) => alternatives.length > 0)).toBe(true);
  },
  60_000,
);
