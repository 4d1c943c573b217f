import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readStack } from "../../../../infra/config/config.ts";
import { kubernetesStack } from "../../../../infra/plan/kubernetes/kubernetes-stack.ts";
import { ALERT_NAMES, type MonitoringPlan } from "../../../../infra/plan/kubernetes/monitoring/types.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import { unknownSeries } from "./known-series.ts";
import { selectors } from "./promql-selectors.ts";
import {
  clusterPlan,
  clusterValues,
  cpuClusterValues,
  first,
  fullValues,
  lockedImages,
  type Values,
} from "./stacks.ts";
import {
  dashboardsOf,
  expressionsOf,
  STACKS,
  scaledCpuValues,
  scaledValues,
  WATCHED,
  watched,
  watchedValues,
} from "./watched-stacks.ts";

const RUNBOOKS = join(projectRoot, "docs/runbooks");
describe.each(Object.entries(STACKS))("%s", (_, values) => {
  const { plan, monitoring } = watched(values);

  test("reads only series that the tables have for it", () => {
    const read = expressionsOf(monitoring).flatMap(selectors);
    expect(read.length).toBeGreaterThan(30);
    expect([...new Set(read.flatMap((selector) => unknownSeries(plan, selector) ?? []))]).toEqual([]);
  });

  test("records what is planned, without series", () => {
    for (const { expression } of monitoring.rules.recorded) expect(selectors(expression)).toEqual([]);
  });

  test("has the same dashboards, to the byte, in two renders", () => {
    expect(watched(values).monitoring.dashboards).toEqual(monitoring.dashboards);
  });

  test("lays out panels without overlap, each under a name and a number of its own", () => {
    for (const { panels, uid } of dashboardsOf(monitoring)) {
      expect(uid.length).toBeLessThanOrEqual(40);
      expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
      expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
      const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
        Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)} ${y + Math.floor(cell / w)}`),
      );
      expect(new Set(cells).size).toBe(cells.length);
      for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    }
  });

  test("tells rules of one name apart by their labels", () => {
    const rules = monitoring.rules.alerts.map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`);
    expect(new Set(rules).size).toBe(rules.length);
  });
});

describe("the check of series", () => {
  const { plan } = watched(clusterValues);
  const fault = (expression: string) => unknownSeries(plan, first(selectors(expression)));

  test("refuses a metric of which no label is asked", () => {
    for (const wrong of ["up", 'sum(up) / up{a="b"}', "rate(up[5m]) > 1", 'up{a="b"} unless on (a) down'])
      expect(() => selectors(wrong)).toThrow(/ has (up|down) without labels\.$/);
  });

  test("finds names, labels, values and Services that a stack does not have", () => {
    const at = 'namespace="engine-room", service="gateway"';
    expect(fault(`gateway_places_taken{${at}}`)).toBeNull();
    expect(fault('up{service="gateway"}')).toBe("up of any namespace");
    expect(fault(`gateway_places{${at}}`)).toBe("gateway_places");
    expect(fault(`gateway_tokens_total{${at}, route="/"}`)).toBe("route of gateway_tokens_total");
    expect(fault('gateway_places_taken{namespace="engine-room", service="gpt"}')).toBe(
      "gateway_places_taken of gpt",
    );
    expect(fault('gateway_places_taken{namespace="engine-room"}')).toBe("gateway_places_taken of no server");
    const requests = 'nv_trt_llm_request_metrics{namespace="engine-room", service="gpt", request_type=';
    expect(fault(`${requests}"waiting"}`)).toBeNull();
    expect(fault(`${requests}"sleeping"}`)).toContain("sleeping");
  });
});

describe("alerts", () => {
  const { monitoring } = watched(clusterValues);
  const named = (name: string, from = monitoring) => from.rules.alerts.filter((alert) => alert.name === name);

  test("have a runbook each, under their name, and there is no other", () => {
    const files = readdirSync(RUNBOOKS).filter((file) => file !== "README.md");
    expect(files.sort()).toEqual(ALERT_NAMES.map((name) => `${name}.md`).sort());
    for (const name of ALERT_NAMES) {
      const text = readFileSync(join(RUNBOOKS, `${name}.md`), "utf8");
      expect(text.split("\n")[0]).toBe(`# ${name}`);
    }
    for (const { name, runbook } of monitoring.rules.alerts) expect(runbook).toBe(`docs/runbooks/${name}.md`);
  });

  test("are all made of a stack that has everything", () => {
    const { monitoring: all } = watched(scaledValues);
    expect([...new Set(all.rules.alerts.map(({ name }) => name))]).toEqual([...ALERT_NAMES]);
  });

  test("link to the web where the stack file says so", () => {
    const runbookUrl = "https://git.example.org/docs/runbooks/";
    const { rules } = watched({ ...clusterValues, monitoringOptions: { runbookUrl } }).monitoring;
    expect(first(rules.alerts).runbook).toBe(`${runbookUrl}EngineRoomBuildFailed.md`);
  });

  test("wait for a server that loads its model", () => {
    const [seconds] = named("EngineRoomTargetDown")
      .filter(({ labels }) => labels.service === "gpt")
      .map(({ forSeconds }) => forSeconds);
    const { models } = kubernetesStack(clusterPlan(watchedValues), {
      stack: "demo",
      images: lockedImages(clusterPlan(watchedValues)),
    });
    const startup = first(models).pod.probes?.startup;
    expect(seconds).toBe(Math.max(300, (startup?.periodSeconds ?? 0) * (startup?.failureThreshold ?? 0)));
  });

  test.each([
    ["a model", scaledValues],
    ["a model whose release does not say what waits", { ...scaledValues, release: "25.01" }],
    ["a model on CPUs", scaledCpuValues],
  ])("miss the very series that autoscalers ask for: %s", (_, values) => {
    const plan = clusterPlan({ ...WATCHED, ...values });
    const { autoscalers } = kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
    const selectorsOf = (query: string) => selectors(query).filter(({ metric }) => metric !== "up");
    const asked = autoscalers.flatMap(({ name, metrics }) =>
      metrics.map((metric) => [name, metric.name, selectorsOf(metric.query)]),
    );
    expect(asked.length).toBeGreaterThan(2);
    expect(
      named("EngineRoomScalingSeriesAbsent", watched(values).monitoring).map(({ labels, expression }) => [
        labels.autoscaler,
        labels.scaling_series,
        selectorsOf(expression),
      ]),
    ).toEqual(asked);
  });

  test("miss a series of a model or of encoders where a server is read, and one of the gateway at any time", () => {
    const { monitoring: scaled } = watched(scaledValues);
    const at = (service: string) => `{namespace="engine-room", service="${service}"`;
    const read = (service: string) => `up${at(service)}} == 1 unless on (namespace, service, pod)`;
    expect(
      named("EngineRoomScalingSeriesAbsent", scaled).map(({ labels, expression }) => [labels, expression]),
    ).toEqual([
      [
        { autoscaler: "gpt", scaling_series: "waiting-requests" },
        `${read("gpt")} nv_trt_llm_request_metrics${at("gpt")}, model="tensorrt_llm", request_type="waiting"}`,
      ],
      [
        { autoscaler: "gpt", scaling_series: "gateway-pending-requests" },
        `absent(gateway_pending_requests${at("gateway")}, model="gpt"})`,
      ],
      [
        { autoscaler: "encoders", scaling_series: "pending-requests" },
        `${read("encoders")} nv_inference_pending_request_count${at("encoders")}}`,
      ],
      [
        { autoscaler: "gateway", scaling_series: "in-flight-requests" },
        `absent(gateway_http_requests_in_flight${at("gateway")}})`,
      ],
    ]);
    expect(named("EngineRoomScalingSeriesAbsent")).toEqual([]);
  });

  test("leave out what waits in the engine where the release does not say it", () => {
    const old = watched({ ...clusterValues, release: "25.03", acceptUnverified: true }).monitoring;
    expect(named("EngineRoomRequestsWait", old)).toEqual([]);
  });

  test.each([
    ["on GPUs", scaledValues, "gpt"],
    ["on CPUs", scaledCpuValues, "smollm2"],
  ])("leave a model in peace that may sleep, until it should have woken: %s", (_, values, name) => {
    const { plan, monitoring: scaled } = watched(values);
    const { models } = kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
    const absent = first(named("EngineRoomTargetAbsent", scaled)).expression;
    expect(absent).toContain('service="encoders"');
    expect(absent).not.toContain(`service="${name}"`);
    expect(
      named("EngineRoomModelAway", scaled).map(({ labels, expression, forSeconds }) => [
        labels,
        /upstream="([^"]*)"/.exec(expression)?.[1],
        forSeconds,
      ]),
    ).toEqual([
      [{}, "encoders", 300],
      [{ upstream: name }, name, 300 + first(models).progressDeadlineSeconds],
    ]);
    const awake = { ...values, models: [{ ...first(values.models as Values[]), minReplicas: 1 }] };
    const { monitoring: always } = watched(awake);
    expect(first(named("EngineRoomTargetAbsent", always)).expression).toContain(`service="${name}"`);
    expect(named("EngineRoomModelAway", always)).toHaveLength(1);
  });

  test("look at the limits of the stack file", () => {
    const limits = { concurrentRequests: 40 };
    const { monitoring: small } = watched({ ...clusterValues, gateway: { limits } });
    expect(first(named("EngineRoomGatewayFull", small)).expression).toMatch(/ >= 36$/);
  });
});

describe("what a stack records", () => {
  const pools = [{ ...clusterValues.pools[0], capacity: "onDemand", hourlyUsd: 6 }, clusterValues.pools[1]];
  const { plan, monitoring } = watched({ ...clusterValues, pools });
  if (plan.tier !== "gpu") throw new Error("This is no stack on GPUs.");
  const rows = (record: string) => monitoring.rules.recorded.filter((one) => one.record === record);

  test("is its engines, its images and its price", () => {
    const { engine, spec } = first(plan.models);
    expect(rows("engine_room_model_info").map(({ labels }) => labels)).toEqual([
      {
        stack: "demo",
        namespace: "engine-room",
        model: "gpt",
        served: spec.engine.model,
        engine_key: engine?.key.slice(0, 12),
        release: plan.release.tag,
        pool: "gpu",
      },
    ]);
    expect(rows("engine_room_image_info").map(({ labels }) => labels.reference)).toEqual(
      lockedImages(plan).map(({ reference }) => reference),
    );
    expect(plan.cost.hourlyUsd).toBe(6);
    expect(rows("engine_room_hourly_usd").map(({ expression }) => expression)).toEqual([
      `vector(${plan.cost.hourlyUsd})`,
    ]);
  });

  test("is no price where none is known, and a lower bound under that name where some are not", () => {
    const titles = (all: MonitoringPlan) =>
      all.dashboards.flatMap(({ json }) => json.match(/"(An hour|A month)[^"]*"/g) ?? []);
    const of = (changes: readonly object[]) =>
      watched({
        ...clusterValues,
        pools: clusterValues.pools.map((pool, at) => ({ ...pool, ...changes[at] })),
      }).monitoring;
    const priceOf = ({ rules }: MonitoringPlan) =>
      rules.recorded.flatMap((row) =>
        row.record === "engine_room_hourly_usd" ? [[row.expression, row.labels.bound]] : [],
      );
    const spot = { capacity: "spot" };
    const [none, some] = [of([spot, spot]), of([{ ...spot, hourlyUsd: 6 }, spot])];
    expect([priceOf(none), titles(none)]).toEqual([[], []]);
    expect([priceOf(some), titles(some)]).toEqual([
      [["vector(6)", "at_least"]],
      ['"An hour, at least"', '"A month, at least"'],
    ]);
    expect(titles(monitoring)).toEqual(['"An hour"', '"A month"']);
  });
});

describe("a stack without GPUs", () => {
  const { plan, monitoring } = watched(cpuClusterValues);

  test("has no alert, dashboard or monitor of engines and GPUs", () => {
    const names = new Set(monitoring.rules.alerts.map(({ name }) => name));
    expect(ALERT_NAMES.filter((name) => !names.has(name))).toEqual([
      "EngineRoomBuildFailed",
      "EngineRoomGpuError",
      "EngineRoomGpuMemoryFault",
      "EngineRoomKvCacheFull",
      "EngineRoomRequestsWait",
      "EngineRoomScalingSeriesAbsent",
    ]);
    expect(dashboardsOf(monitoring).map(({ title }) => title)).toEqual([
      "Engine room (engine-room/demo)",
      "Engine room: models (engine-room/demo)",
      "Engine room: databases (engine-room/demo)",
    ]);
    expect(monitoring.monitors.map(({ name }) => name)).toEqual(
      ["triton", "encoders", "gateway", "mongo", "vector"].map((role) => `engine-room-${role}`),
    );
  });

  test("asks everything but the price, which nothing of it has", () => {
    const rows = first(dashboardsOf(monitoring)).panels.filter(({ type }) => type === "row");
    expect(rows.map(({ title }) => title)).toEqual([
      "Is it up?",
      "Is it slow?",
      "Is it full?",
      "Is it wrong?",
      "What changed?",
    ]);
    expect(JSON.stringify(monitoring)).not.toMatch(/usd|engine_key|nv_gpu|nv_trt_llm|DCGM/i);
  });

  test("records its models and images", () => {
    expect(
      monitoring.rules.recorded.map(({ record, labels }) => [record, labels.model ?? labels.image]),
    ).toEqual([
      ["engine_room_model_info", "smollm2"],
      ...lockedImages(plan).map(({ name }) => ["engine_room_image_info", name]),
    ]);
    expect(first(monitoring.rules.recorded).labels).toEqual({
      stack: "demo",
      namespace: "engine-room",
      model: "smollm2",
      served: "smollm2-135m-instruct",
      release: plan.release,
    });
  });

  test("has no volume to watch where its databases are elsewhere", () => {
    const { externalDatabases } = fullValues;
    const elsewhere = watched({ ...cpuClusterValues, databases: "external", externalDatabases });
    expect(JSON.stringify(elsewhere.monitoring)).not.toContain("persistentvolumeclaim");
  });

  test("has no exporter of GPUs in its file", () => {
    const values = { ...cpuClusterValues, monitoringOptions: { gpuExporter: false } };
    expect(readStack(values).problems.map(({ path }) => path)).toEqual(["monitoringOptions.gpuExporter"]);
  });
});

describe("dashboards", () => {
  const titles = (values: Values) => dashboardsOf(watched(values).monitoring).map(({ title }) => title);
  const overview = (values: Values) => first(dashboardsOf(watched(values).monitoring));

  test("ask what has to be known", () => {
    const rows = overview(clusterValues).panels.filter(({ type }) => type === "row");
    expect(rows.map(({ title }) => title)).toEqual([
      "Is it up?",
      "Is it slow?",
      "Is it full?",
      "Is it wrong?",
      "What does it cost?",
      "What changed?",
    ]);
  });

  test("are those of what a stack has", () => {
    expect(titles(clusterValues)).toEqual([
      "Engine room (engine-room/demo)",
      "Engine room: models (engine-room/demo)",
      "Engine room: GPUs (engine-room/demo)",
      "Engine room: databases (engine-room/demo)",
    ]);
    expect(titles({ ...clusterValues, encoders: false })).toHaveLength(3);
    const text = (values: Values) =>
      watched(values)
        .monitoring.dashboards.map(({ json }) => json)
        .join();
    expect(text(clusterValues)).toContain("DCGM_FI_DEV_POWER_USAGE");
    expect(text({ ...clusterValues, monitoringOptions: { gpuExporter: false } })).not.toContain("DCGM");
  });

  test("show what autoscalers ask, where there are any", () => {
    const panel = (values: Values) =>
      overview(values).panels.find(({ title }) => title === "Servers that the load asks for");
    for (const values of [scaledValues, scaledCpuValues]) {
      const plan = clusterPlan({ ...WATCHED, ...values });
      const { autoscalers } = kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
      expect(panel(values)?.targets?.map(({ expr }) => expr)).toEqual(
        autoscalers.flatMap(({ metrics }) => metrics.map(({ query, target }) => `${query} / ${target}`)),
      );
    }
    expect(panel(clusterValues)).toBeUndefined();
  });

  test("have addresses of their own in another namespace", () => {
    expect(overview({ ...clusterValues, namespace: "models" }).uid).not.toBe(overview(clusterValues).uid);
  });
});

test("`monitoring: none` makes nothing, and says so", () => {
  const plan = clusterPlan(clusterValues);
  const { monitoring, notes } = kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
  expect(monitoring).toBeNull();
  expect(notes.join("\n")).toContain("Nobody watches the stack");
  const { notes: withMonitoring } = kubernetesStack(clusterPlan(watchedValues), {
    stack: "demo",
    images: lockedImages(plan),
  });
  expect(withMonitoring.join("\n")).not.toContain("Nobody watches the stack");
});

test("monitors find the Services of a stack by labels and ports that they have", () => {
  for (const values of [clusterValues, { ...clusterValues, databases: "container" }]) {
    const plan = clusterPlan({ ...WATCHED, ...values });
    const stack = kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
    const servers = [...stack.models, ...(stack.encoders === null ? [] : [stack.encoders]), stack.gateway];
    const services = [...servers, ...stack.databases].map(({ service }) => service);
    const own = stack.monitoring?.monitors.filter(({ namespace }) => namespace === null) ?? [];
    const found = own.flatMap(({ selector, port }) =>
      services
        .filter(
          ({ labels, ports }) =>
            port in ports && Object.entries(selector).every(([label, value]) => labels[label] === value),
        )
        .map(({ name }) => `${name} ${port}`),
    );
    const mongo = values === clusterValues ? ["mongo metrics"] : [];
    expect(found).toEqual(["gpt metrics", "encoders metrics", "gateway http", ...mongo, "vector http"]);
  }
});
