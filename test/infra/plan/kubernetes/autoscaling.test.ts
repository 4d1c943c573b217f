import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import { cpuEncoders } from "../../../../infra/plan/repository/cpu-models.ts";
import { stackProblems } from "../../thrown-problems.ts";
import {
  clusterPlan,
  clusterStack,
  clusterValues,
  configOf,
  cpuClusterValues,
  first,
  type Values,
} from "./stacks.ts";

const model = { ...clusterValues.models[0], replicas: 2 };
const scaled = (minReplicas: number, more: Values = {}) =>
  clusterStack({ ...clusterValues, models: [{ ...model, minReplicas }], ...more });

const WAITING =
  'sum(nv_trt_llm_request_metrics{namespace="engine-room", service="gpt", model="tensorrt_llm", request_type="waiting"})';
const PENDING = 'sum(gateway_pending_requests{namespace="engine-room", service="gateway", model="gpt"})';

interface Trigger {
  readonly type: string;
  readonly metadata: { readonly query: string; readonly activationThreshold?: string };
}

/** Queries of the first ScaledObject, each with the value above which there is at least one replica. */
const triggersOf = (stack: ReturnType<typeof clusterStack>) => {
  const { triggers } = first(stack.autoscalers).object.spec as { readonly triggers?: readonly Trigger[] };
  return (triggers ?? [])
    .filter(({ type }) => type === "prometheus")
    .map(({ metadata: { query, activationThreshold } }) => [query, activationThreshold]);
};

test("a model with `minReplicas` below `replicas` has an autoscaler and no fixed number of replicas", () => {
  const stack = scaled(1);
  expect(stack.autoscalers).toMatchObject([
    {
      name: "gpt",
      mechanism: "keda",
      replicas: { min: 1, max: 2 },
      object: {
        metadata: { name: "gpt" },
        spec: {
          scaleTargetRef: { name: "gpt" },
          cooldownPeriod: 600,
          triggers: [{ metadata: { serverAddress: "http://prometheus-operated.monitoring.svc:9090" } }],
        },
      },
    },
  ]);
  expect(first(stack.models)).toMatchObject({ replicas: null, maxReplicas: 2 });
  expect([stack.encoders?.replicas, stack.gateway.replicas]).toEqual([1, 1]);
});

test("a model without a range of replicas has a fixed number and no autoscaler", () => {
  for (const stack of [scaled(2), clusterStack({ ...clusterValues, models: [model] })]) {
    expect(stack.autoscalers).toEqual([]);
    expect(first(stack.models).replicas).toBe(2);
  }
});

test("a model scales by requests waiting in the engine, and from zero also by those pending at the gateway", () => {
  expect(triggersOf(scaled(1))).toEqual([[WAITING, undefined]]);
  expect(triggersOf(scaled(0))).toEqual([
    [WAITING, "0"],
    [PENDING, "0"],
  ]);
});

test("a model scales by the gateway's pending requests on a release that does not report waiting requests", () => {
  const older = scaled(1, { release: "25.01" });
  expect(triggersOf(older)).toEqual([[PENDING, undefined]]);
});

test("a model of the flavour gpt scales by the queues of its Triton", () => {
  const queued = scaled(1, { models: [{ ...model, flavour: "gpt", minReplicas: 1 }] });
  expect(triggersOf(queued)).toEqual([
    ['sum(nv_inference_pending_request_count{namespace="engine-room", service="gpt"})', undefined],
  ]);
});

test("a model on the LLM API scales by the gateway's pending requests", () => {
  const weights = { from: "folder", path: "/store/own/llama", revision: "1" };
  const own = { name: "gpt", model: "llama-2-7b-chat", runtime: "llmapi", weights, replicas: 2 };
  expect(triggersOf(scaled(1, { models: [{ ...own, minReplicas: 1 }] }))).toEqual([[PENDING, undefined]]);
});

test("the quota counts the most replicas of a model", () => {
  const most = clusterStack({ ...clusterValues, models: [model] });
  expect(scaled(0).quota).toEqual(most.quota);
});

test("the gateway knows the cold start of a model that may have no server", () => {
  const gatewayModel = (minReplicas: number) =>
    configOf(scaled(minReplicas).gateway.pod, "gateway.json").models[0];
  expect(gatewayModel(0).coldStartSeconds).toBeGreaterThan(30);
  expect(gatewayModel(1)).not.toHaveProperty("coldStartSeconds");
});

test("gateways scale by requests in flight, at half of their places", () => {
  const stack = clusterStack({
    ...clusterValues,
    pools: [clusterValues.pools[0], { ...clusterValues.pools[1], nodes: { min: 1, max: 2 } }],
    gateway: { replicas: 5, minReplicas: 2, limits: { concurrentRequests: 300 } },
    autoscaling: { mechanism: "hpa", scaleDownSeconds: 60 },
  });
  expect(stack.gateway.replicas).toBeNull();
  expect(stack.autoscalers).toMatchObject([
    {
      name: "gateway",
      mechanism: "hpa",
      replicas: { min: 2, max: 5 },
      object: {
        spec: {
          scaleTargetRef: { kind: "Deployment", name: "gateway" },
          behavior: { scaleDown: { stabilizationWindowSeconds: 60 } },
        },
      },
      metrics: [
        {
          series: {
            name: "gateway_http_requests_in_flight",
            labels: { namespace: "engine-room", service: "gateway" },
          },
          target: 150,
        },
      ],
    },
  ]);
});

describe("encoders", () => {
  const encodersOf = (values: Values, encoders: Values) => {
    const stack = clusterStack({ ...values, encoders: { replicas: 3, minReplicas: 1, ...encoders } });
    expect(stack.encoders).toMatchObject({ replicas: null, maxReplicas: 3 });
    return first(stack.autoscalers);
  };

  test.each([
    ["on machines without GPU", clusterValues],
    ["of a stack on CPUs", cpuClusterValues],
  ])("encoders %s scale by the pending requests of all their models", (_, values) => {
    expect(encodersOf(values, {})).toMatchObject({
      name: "encoders",
      replicas: { min: 1, max: 3 },
      metrics: [
        { query: 'sum(nv_inference_pending_request_count{namespace="engine-room", service="encoders"})' },
      ],
      object: { spec: { triggers: [{ metadata: { activationThreshold: undefined } }] } },
    });
  });

  // Images have the smaller batches, of at most 16.
  test.each<[string, Values, Values, number]>([
    ["batches of 16 images", clusterValues, {}, 4],
    ["small batches on a GPU", clusterValues, { device: "gpu", maxBatchSize: 8 }, 2],
    ["batches of two", clusterValues, { maxBatchSize: 2 }, 1],
    ["the batches of a CPU", cpuClusterValues, { maxBatchSize: 12 }, 3],
    ["unbatched requests", cpuClusterValues, { dynamicBatching: false }, 1],
  ])("encoders with %s scale up at a quarter of a batch", (_, values, encoders, target) => {
    expect(encodersOf(values, encoders).metrics.map((metric) => metric.target)).toEqual([target]);
  });

  test("encoders have no decoupled model, whose queue is always empty", () => {
    const cpu = clusterPlan(cpuClusterValues);
    const gpu = clusterPlan(clusterValues);
    if (cpu.tier !== "cpu" || gpu.tier !== "gpu") throw new Error("The tiers are others.");
    const texts = cpuEncoders(cpu.encoders).map(({ config }) => config);
    expect(texts.filter((text) => text.includes("max_batch_size"))).toHaveLength(3);
    expect(texts.join()).not.toContain("decoupled");
    const configs = gpu.encoders?.tritonModels.map(({ config }) => config) ?? [];
    expect(configs.length).toBeGreaterThan(3);
    expect(configs.join()).not.toContain("decoupled");
  });

  test("the quota counts the most replicas of encoders, and a schedule leaves them out", () => {
    const schedule = { start: "0 8 * * *", end: "0 20 * * *", timeZone: "UTC" };
    const models = [{ ...model, minReplicas: 0 }];
    const values = { ...clusterValues, models, schedule, encoders: { replicas: 3 } };
    const scaledEncoders = clusterStack({ ...values, encoders: { replicas: 3, minReplicas: 2 } });
    expect(scaledEncoders.quota).toEqual(clusterStack(values).quota);
    expect(scaledEncoders.autoscalers.map((one) => [one.name, one.schedule !== null])).toEqual([
      ["gpt", true],
      ["encoders", false],
    ]);
  });
});

test("a model on CPUs scales by the gateway's pending requests, at the number that it answers in parallel", () => {
  const stack = clusterStack({
    ...cpuClusterValues,
    models: [{ ...cpuClusterValues.models[0], parallelRequests: 6, replicas: 3, minReplicas: 0 }],
  });
  expect(first(stack.autoscalers).metrics.map(({ target }) => target)).toEqual([6]);
  expect(triggersOf(stack)).toEqual([[PENDING.replace("gpt", "smollm2"), "0"]]);
});

test("a schedule wakes models that may sleep and leaves gateways out", () => {
  const schedule = { start: "0 8 * * 1-5", end: "0 20 * * 1-5", timeZone: "Europe/Berlin" };
  const stack = scaled(0, {
    schedule: { ...schedule, replicas: 9 },
    gateway: { replicas: 2, minReplicas: 1 },
  });
  expect(stack.autoscalers.map((one) => [one.name, one.schedule])).toEqual([
    ["gpt", { ...schedule, replicas: 2 }],
    ["gateway", null],
  ]);
});

test("a schedule without a model that may sleep, or with HorizontalPodAutoscalers, is refused", () => {
  const schedule = { start: "0 8 * * *", end: "0 20 * * *", timeZone: "UTC" };
  const pathsOf = (more: Values) =>
    stackProblems({ ...clusterValues, schedule, ...more }).map(({ path }) => path);
  expect(pathsOf({})).toEqual(["schedule"]);
  expect(pathsOf({ models: [{ ...model, minReplicas: 1 }] })).toEqual([]);
  expect(pathsOf({ models: [{ ...model, minReplicas: 1 }], autoscaling: { mechanism: "hpa" } })).toEqual([
    "schedule",
  ]);
  expect(pathsOf({ schedule: { ...schedule, start: "at eight" } })).toContain("schedule.start");
});

const problemsOf = (minReplicas: number, more: Values = {}) =>
  stackProblems({ ...clusterValues, models: [{ ...model, minReplicas }], ...more });

test("`minReplicas` above `replicas` is refused", () => {
  expect(problemsOf(3)).toMatchObject([
    { path: "models[0].minReplicas", value: "3", reason: expect.stringContaining("replicas, which is 2") },
  ]);
  expect(problemsOf(1, { gateway: { minReplicas: 2 } })).toMatchObject([{ path: "gateway.minReplicas" }]);
  for (const values of [clusterValues, cpuClusterValues])
    expect(stackProblems({ ...values, encoders: { replicas: 2, minReplicas: 3 } })).toMatchObject([
      { path: "encoders.minReplicas", reason: expect.stringContaining("replicas, which is 2") },
    ]);
});

test("`minReplicas: 0` of encoders is refused", () => {
  for (const values of [clusterValues, cpuClusterValues])
    expect(stackProblems({ ...values, encoders: { minReplicas: 0 } })).toMatchObject([
      { path: "encoders.minReplicas", fix: "Use 1 or more." },
    ]);
  expect(problemsOf(1, { encoders: false })).toEqual([]);
});

test.each([
  ["on GPUs", { ...clusterValues, models: [{ ...model, minReplicas: 0 }] }],
  ["on CPUs", { ...cpuClusterValues, encoders: { replicas: 2, minReplicas: 1 } }],
])("a stack %s with autoscalers and without monitoring is warned about", (_, values) => {
  const scaledNames = clusterStack(values).autoscalers.map(({ name }) => name);
  expect(checkedPlan(values).warnings).toContainEqual(
    expect.objectContaining({
      path: "monitoring",
      value: '"none"',
      reason: expect.stringContaining(`${scaledNames.join()} would not scale`),
    }),
  );
  expect(clusterStack(values).notes.join()).toContain("autoscalers have nothing to go by");
  const read = { ...values, monitoring: "prometheus-operator" };
  expect(checkedPlan(read).warnings.map(({ path }) => path)).not.toContain("monitoring");
});

test("`minReplicas: 0` is refused without KEDA", () => {
  expect(problemsOf(0, { autoscaling: { mechanism: "hpa" } })).toMatchObject([
    { path: "models[0].minReplicas", fix: expect.stringContaining("keda") },
  ]);
  expect(problemsOf(0)).toEqual([]);
});
