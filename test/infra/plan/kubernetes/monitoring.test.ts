import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readStack } from "../../../../infra/config/config.ts";
import { kubernetesStack } from "../../../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { MonitoringPlan } from "../../../../infra/plan/kubernetes/monitoring/monitoring.ts";
import { dashboard } from "../../../../infra/plan/kubernetes/monitoring/templates.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import { debianProgram } from "../../../harness/debian-program.ts";
import { needs } from "../../../harness/requirements.ts";
import {
  FAULT_MINUTE,
  type Fired,
  faults,
  HEALTHY,
  LAST_MINUTE,
  NO_FAULTS,
  type Scene,
  steady,
  until,
  up,
  WANTED,
  WITHOUT_GPT,
} from "./alert-scenarios.ts";
import { unknownSeries } from "./known-series.ts";
import {
  ALERT_NAMES,
  type AlertRule,
  alertsOf,
  type DashboardJson,
  dashboardsOf,
  dashboardTexts,
  expressionsOf,
  recordedOf,
  STACKS,
  scaledCpuValues,
  scaledValues,
  WATCHED,
  watched,
  watchedAnew,
  watchedValues,
} from "./monitored-stacks.ts";
import { selectors } from "./promql-selectors.ts";
import {
  clusterPlan,
  clusterValues,
  containerOf,
  cpuClusterValues,
  first,
  fullValues,
  lockedImages,
  type Values,
} from "./stacks.ts";

const RUNBOOKS = join(projectRoot, "docs/runbooks");

const MONITORING = join(projectRoot, "infra/plan/kubernetes/monitoring");

function expectPanelsInOrder({ panels }: DashboardJson) {
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)} ${y + Math.floor(cell / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
  for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
}

test.each(readdirSync(join(MONITORING, "dashboards")))(
  "dashboards/%s has panels that do not overlap",
  (file) => {
    expectPanelsInOrder(JSON.parse(readFileSync(join(MONITORING, "dashboards", file), "utf8")));
  },
);

test("a placeholder that no value is planned for is an error", () => {
  expect(() => dashboard("overview", { values: { id: "" }, lists: {} })).toThrow(
    /^The placeholder \$\{namespace\} has no value\.$/,
  );
});

describe.each(Object.entries(STACKS))("stack: %s", (_, values) => {
  const { plan, monitoring } = watched(values);

  test("every expression reads only series that the tables list", () => {
    const read = expressionsOf(monitoring).flatMap(selectors);
    expect(read.length).toBeGreaterThan(30);
    expect([...new Set(read.flatMap((selector) => unknownSeries(plan, selector) ?? []))]).toEqual([]);
  });

  test("recorded rules read no series", () => {
    for (const { expr } of recordedOf(monitoring)) expect(selectors(expr)).toEqual([]);
  });

  test("dashboards are the same in two renders", () => {
    expect(watchedAnew(values).monitoring.dashboards).toEqual(monitoring.dashboards);
  });

  test("panels do not overlap and have unique ids and titles", () => {
    for (const dashboard of dashboardsOf(monitoring)) {
      expect(dashboard.uid.length).toBeLessThanOrEqual(40);
      expectPanelsInOrder(dashboard);
    }
  });

  test("alert rules of the same name have different labels", () => {
    const rules = alertsOf(monitoring).map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`);
    expect(new Set(rules).size).toBe(rules.length);
  });
});

const { plan } = watched(clusterValues);
const fault = (expression: string) => unknownSeries(plan, first(selectors(expression)));

test("a metric without labels is refused by the parser of expressions", () => {
  for (const wrong of ["up", 'sum(up) / up{a="b"}', "rate(up[5m]) > 1", 'up{a="b"} unless on (a) down'])
    expect(() => selectors(wrong)).toThrow(/ has (up|down) without labels\.$/);
});

test("unknown names, labels, values and Services of a series are found", () => {
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

describe("alerts", () => {
  const { monitoring } = watched(clusterValues);
  const named = (name: string, from = monitoring) => alertsOf(from).filter((alert) => alert.name === name);

  test("every alert has a runbook of its name, and every runbook has an alert", () => {
    const files = readdirSync(RUNBOOKS).filter((file) => file.startsWith("EngineRoom"));
    expect(files.sort()).toEqual(ALERT_NAMES.map((name) => `${name}.md`).sort());
    for (const name of ALERT_NAMES) {
      const text = readFileSync(join(RUNBOOKS, `${name}.md`), "utf8");
      expect(text.split("\n")[0]).toBe(`# ${name}`);
    }
    for (const { name, runbook } of alertsOf(monitoring)) expect(runbook).toBe(`docs/runbooks/${name}.md`);
  });

  test("a stack with everything has every alert", () => {
    const { monitoring: all } = watched(scaledValues);
    expect([...new Set(alertsOf(all).map(({ name }) => name))]).toEqual([...ALERT_NAMES]);
  });

  test("`runbookUrl` is the start of every alert's link", () => {
    const runbookUrl = "https://git.example.org/docs/runbooks/";
    const linked = watched({ ...clusterValues, monitoringOptions: { runbookUrl } }).monitoring;
    expect(first(alertsOf(linked)).runbook).toBe(`${runbookUrl}EngineRoomBuildFailed.md`);
  });

  test("EngineRoomTargetDown waits as long as a server may take to start", () => {
    const [seconds] = named("EngineRoomTargetDown")
      .filter(({ labels }) => labels.service === "gpt")
      .map(({ forSeconds }) => forSeconds);
    const { models } = kubernetesStack(clusterPlan(watchedValues), {
      stack: "demo",
      images: lockedImages(clusterPlan(watchedValues)),
    });
    const { periodSeconds = 0, failureThreshold = 0 } = containerOf(first(models).pod).startupProbe ?? {};
    expect(seconds).toBe(Math.max(300, periodSeconds * failureThreshold));
  });

  test.each([
    ["a model", scaledValues],
    ["a model on a release without waiting requests", { ...scaledValues, release: "25.01" }],
    ["a model on CPUs", scaledCpuValues],
  ])("EngineRoomScalingSeriesAbsent covers every series of the autoscalers of %s", (_, values) => {
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

  test("EngineRoomScalingSeriesAbsent of a server needs the server to be up, and of the gateway does not", () => {
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

  test("EngineRoomRequestsWait is left out on a release that does not report waiting requests", () => {
    const old = watched({ ...clusterValues, release: "25.03", acceptUnverified: true }).monitoring;
    expect(named("EngineRoomRequestsWait", old)).toEqual([]);
  });

  test.each([
    ["on GPUs", scaledValues, "gpt"],
    ["on CPUs", scaledCpuValues, "smollm2"],
  ])("alerts of a model %s that may sleep wait until its wake-up is overdue", (_, values, name) => {
    const { plan, monitoring: scaled } = watched(values);
    const { models } = kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
    const absent = first(named("EngineRoomTargetAbsent", scaled)).expression;
    expect(absent).toContain('service="encoders"');
    expect(absent).not.toContain(`service="${name}"`);
    expect(
      named("EngineRoomModelUnavailable", scaled).map(({ labels, expression, forSeconds }) => [
        labels,
        /upstream="([^"]*)"/.exec(expression)?.[1],
        forSeconds,
      ]),
    ).toEqual([
      [{}, "encoders", 300],
      [{ upstream: name }, name, 300 + (first(models).deployment.spec?.progressDeadlineSeconds ?? 0)],
    ]);
    const awake = { ...values, models: [{ ...first(values.models as Values[]), minReplicas: 1 }] };
    const { monitoring: always } = watched(awake);
    expect(first(named("EngineRoomTargetAbsent", always)).expression).toContain(`service="${name}"`);
    expect(named("EngineRoomModelUnavailable", always)).toHaveLength(1);
  });

  test("EngineRoomGatewayFull compares with the stack file's limit", () => {
    const limits = { concurrentRequests: 40 };
    const { monitoring: small } = watched({ ...clusterValues, gateway: { limits } });
    expect(first(named("EngineRoomGatewayFull", small)).expression).toMatch(/ >= 36$/);
  });
});

describe("recorded metrics", () => {
  const pools = [{ ...clusterValues.pools[0], capacity: "onDemand", hourlyUsd: 6 }, clusterValues.pools[1]];
  const { plan, monitoring } = watched({ ...clusterValues, pools });
  if (plan.tier !== "gpu") throw new Error("This is no stack on GPUs.");
  const rows = (record: string) => recordedOf(monitoring).filter((one) => one.record === record);

  test("a stack records its engines, images and price", () => {
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
    expect(rows("engine_room_hourly_usd").map(({ expr }) => expr)).toEqual([
      `vector(${plan.cost.hourlyUsd})`,
    ]);
  });

  test("an unknown price is not recorded, and a partial price is recorded as a lower bound", () => {
    const titles = (all: MonitoringPlan) =>
      dashboardTexts(all).flatMap((json) => json.match(/"(An hour|A month)[^"]*"/g) ?? []);
    const of = (changes: readonly object[]) =>
      watched({
        ...clusterValues,
        pools: clusterValues.pools.map((pool, at) => ({ ...pool, ...changes[at] })),
      }).monitoring;
    const priceOf = (all: MonitoringPlan) =>
      recordedOf(all).flatMap(({ record, expr, labels }) =>
        record === "engine_room_hourly_usd" ? [[expr, labels.bound]] : [],
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

  test("a CPU stack has no alerts, dashboards or monitors of engines and GPUs", () => {
    const names = new Set(alertsOf(monitoring).map(({ name }) => name));
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
    expect(monitoring.monitors.map(({ metadata }) => metadata.name)).toEqual(
      ["triton", "encoders", "gateway", "mongo", "vector"].map((role) => `engine-room-${role}`),
    );
  });

  test("the overview of a CPU stack has every row but the price", () => {
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

  test("a CPU stack records its models and images", () => {
    expect(
      recordedOf(monitoring).map(({ record, labels }) => [record, labels.model ?? labels.image]),
    ).toEqual([
      ["engine_room_model_info", "smollm2"],
      ...lockedImages(plan).map(({ name }) => ["engine_room_image_info", name]),
    ]);
    expect(first(recordedOf(monitoring)).labels).toEqual({
      stack: "demo",
      namespace: "engine-room",
      model: "smollm2",
      served: "smollm2-135m-instruct",
      release: plan.release,
    });
  });

  test("a CPU stack with external databases watches no volume", () => {
    const { externalDatabases } = fullValues;
    const elsewhere = watched({ ...cpuClusterValues, databases: "external", externalDatabases });
    expect(JSON.stringify(elsewhere.monitoring)).not.toContain("persistentvolumeclaim");
  });

  test("a CPU stack file with `gpuExporter` is refused", () => {
    const values = { ...cpuClusterValues, monitoringOptions: { gpuExporter: false } };
    expect(readStack(values).problems.map(({ path }) => path)).toEqual(["monitoringOptions.gpuExporter"]);
  });
});

const titles = (values: Values) => dashboardsOf(watched(values).monitoring).map(({ title }) => title);
const overview = (values: Values) => first(dashboardsOf(watched(values).monitoring));

test("the overview has a row for each question", () => {
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

test("a stack has dashboards and panels of its own parts only", () => {
  expect(titles(clusterValues)).toEqual([
    "Engine room (engine-room/demo)",
    "Engine room: models (engine-room/demo)",
    "Engine room: GPUs (engine-room/demo)",
    "Engine room: databases (engine-room/demo)",
  ]);
  expect(titles({ ...clusterValues, encoders: false })).toHaveLength(3);
  const text = (values: Values) => dashboardTexts(watched(values).monitoring).join();
  expect(text(clusterValues)).toContain("DCGM_FI_DEV_POWER_USAGE");
  expect(text({ ...clusterValues, monitoringOptions: { gpuExporter: false } })).not.toContain("DCGM");
});

test("the overview shows the queries of autoscalers if a stack has any", () => {
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

test("dashboards of another namespace have other ids", () => {
  expect(overview({ ...clusterValues, namespace: "models" }).uid).not.toBe(overview(clusterValues).uid);
});

test("`monitoring: none` creates no monitoring and adds a note", () => {
  const plan = clusterPlan(clusterValues);
  const { monitoring, notes } = kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
  expect(monitoring).toBeNull();
  expect(notes.join("\n")).toContain("The stack is not monitored");
  const { notes: withMonitoring } = kubernetesStack(clusterPlan(watchedValues), {
    stack: "demo",
    images: lockedImages(plan),
  });
  expect(withMonitoring.join("\n")).not.toContain("The stack is not monitored");
});

interface MonitorSpec {
  readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
  readonly endpoints: readonly { readonly port: string }[];
}

test("monitors match the labels and ports of a stack's Services", () => {
  for (const values of [clusterValues, { ...clusterValues, databases: "container" }]) {
    const plan = clusterPlan({ ...WATCHED, ...values });
    const stack = kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
    const services = [...stack.servers, ...stack.databases].map(({ service }) => service);
    const own = stack.monitoring?.monitors.filter(({ spec }) => spec.namespaceSelector === undefined) ?? [];
    const specs = own.map(({ spec }) => spec as unknown as MonitorSpec);
    const found = specs.flatMap(({ selector, endpoints }) =>
      endpoints.flatMap(({ port }) =>
        services
          .filter(
            ({ metadata: { labels }, spec }) =>
              spec?.ports?.some(({ name }) => name === port) &&
              Object.entries(selector.matchLabels).every(([label, value]) => labels[label] === value),
          )
          .map(({ metadata }) => `${metadata.name} ${port}`),
      ),
    );
    const mongo = values === clusterValues ? ["mongo metrics"] : [];
    expect(found).toEqual(["gpt metrics", "encoders metrics", "gateway http", ...mongo, "vector http"]);
  }
});

function stackOf(values: Values) {
  const { plan } = watched(values);
  return kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
}

/** Names of build Jobs contain a hash of the build. */
const BUILD = first(stackOf(scaledValues).builds).name;

const FAULTS = faults(BUILD);

/** A rate is visible a sample after the change. */
const SLACK_MINUTES = 3;
/** Minutes at which no alert may fire without a fault; several, to find alerts that fire for a short time. */
const QUIET_MINUTES = Array.from(
  { length: (LAST_MINUTE - FAULT_MINUTE) / 5 },
  (_, index) => FAULT_MINUTE + 5 * (index + 1),
);

interface NamedScene extends Omit<Scene, "title"> {
  readonly name: string;
  readonly values: Values;
}

const UNAVAILABLE: Fired = {
  alert: "EngineRoomTargetAbsent",
  labels: { namespace: "engine-room", service: "gpt" },
  summary: "Prometheus reads no pod of gpt.",
};
const withoutGpt = (name: string, changes: Scene["changes"], fires: readonly Fired[]): NamedScene => ({
  name,
  values: clusterValues,
  changes: { ...WITHOUT_GPT, ...changes },
  fires,
});

const SCENES: readonly NamedScene[] = [
  ...FAULTS.map(({ title, changes, fires }) => ({
    name: `${fires.map(({ alert }) => alert).join()} fires for ${title}`,
    values: scaledValues,
    changes,
    fires,
  })),
  ...NO_FAULTS.map(({ title, changes }) => ({
    name: `no alert fires ${title}`,
    values: scaledValues,
    changes,
    fires: [],
  })),
  withoutGpt(
    "no alert fires for a server that `npx engine-room sleep` has put at zero",
    { [WANTED]: steady(0) },
    [],
  ),
  ...[steady(1), null].map((wanted) =>
    withoutGpt(
      `EngineRoomTargetAbsent fires for a missing server ${wanted === null ? "without" : "with"} kube-state-metrics`,
      { [up("gpt")]: until(1), [WANTED]: wanted },
      [UNAVAILABLE],
    ),
  ),
];
/** Its alert fires and is not expected: a report of promtool without it would not be a whole one. */
const UNEXPECTED: NamedScene = withoutGpt("unexpected", { [up("gpt")]: until(1) }, []);

const WRONG = ["sum(", "up{a=}", "rate(up[5])) > 1", "sum by (a (up)", "rate(up) > 1", 'sum("up")'];

const promtool = await debianProgram("promtool");
const missing = "reason" in promtool ? promtool.reason : undefined;

/** Rules and expressions of stacks, by Prometheus' own promtool: whether it takes them, and what fires over given series. */
describe("promtool", needs(missing), () => {
  let folder = "";
  /** promtool's reports of all scenes, and of all wrong expressions: it runs once for each. */
  let failures: ReadonlyMap<string, string>;
  let refusals = "";

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-rules-"));
    failures = failuresOf([...SCENES, UNEXPECTED]);
    const wrong = WRONG.map((expr, index) =>
      written(`wrong-${index}`, { groups: [{ name: "wrong", rules: [{ record: "wrong", expr }] }] }),
    );
    refusals = run("check", "rules", ...wrong).text;
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("promtool accepts the rules of every stack and finds no duplicates", () => {
    const files = Object.values(STACKS).map((values, index) =>
      written(`rules-${index}`, { groups: watched(values).monitoring.rules.spec.groups }),
    );
    const { status, text } = run("check", "rules", "--lint=all", "--lint-fatal", ...files);
    expect(text.match(/SUCCESS: \d+ rules found/g) ?? text).toHaveLength(files.length);
    expect(status).toBe(0);
  });

  test("promtool accepts every expression of dashboards and autoscalers", () => {
    const expressions = new Set(
      Object.values(STACKS).flatMap((values) => {
        const queries = stackOf(values).autoscalers.flatMap(({ metrics }) =>
          metrics.map(({ query }) => query),
        );
        return [...expressionsOf(watched(values).monitoring), ...queries];
      }),
    );
    expect(expressions.size).toBeGreaterThan(100);
    const rules = [...expressions].map((expr, index) => ({ record: `expression_${index}`, expr }));
    const { status, text } = run(
      "check",
      "rules",
      written("expressions", { groups: [{ name: "all", rules }] }),
    );
    expect(text).toContain(`SUCCESS: ${expressions.size} rules found`);
    expect(status).toBe(0);
  });

  test.each(WRONG.map((expr, index) => [expr, index] as const))("promtool refuses %s", (_, index) => {
    expect(refusals).toMatch(new RegExp(`/wrong-${index}\\.yaml: .*could not parse expression`));
  });

  test("promtool reports an alert that fires and is not expected", () => {
    expect(failures.get(UNEXPECTED.name)).toContain('alertname="EngineRoomTargetAbsent"');
  });

  test.each(SCENES.map(({ name }) => name))("%s", (name) => {
    expect(failures.get(name)).toBeUndefined();
  });

  test("every alert has a scene in which it fires", () => {
    expect([...new Set(FAULTS.flatMap(({ fires }) => fires.map(({ alert }) => alert)))].sort()).toEqual([
      ...ALERT_NAMES,
    ]);
  });

  /** promtool's reports of failed scenes, by the scene's name. */
  function failuresOf(scenes: readonly NamedScene[]): ReadonlyMap<string, string> {
    const names = new Set(scenes.map(({ name }) => name));
    expect(names.size).toBe(scenes.length);
    const files = [...new Set(scenes.map(({ values }) => values))].map((values, index) =>
      written(`scenes-${index}`, {
        rule_files: [written(`rules-of-${index}`, { groups: watched(values).monitoring.rules.spec.groups })],
        evaluation_interval: "1m",
        tests: scenes.filter((scene) => scene.values === values).map(testOf),
      }),
    );
    const { status, text } = run("test", "rules", ...files);
    const [, ...reports] = text.split(/^ {4}name: /m);
    const failed = new Map(reports.map((report) => [report.slice(0, report.indexOf(",\n")), report]));
    // promtool ends with 1 when a scene fails, with 2 when it breaks; errors of reading name no scene.
    if (status !== 1 || [...failed.keys()].some((name) => !names.has(name)))
      throw new Error(`promtool ended with ${status}: ${text}`);
    return failed;
  }

  /** A test of promtool: nothing fires until it is time, and then what is expected and nothing else. */
  function testOf({ name, values, changes, fires }: NamedScene) {
    const alerts = alertsOf(watched(values).monitoring);
    const seconds = fires.map((fired) => ruleOf(alerts, fired).forSeconds);
    const quiet = fires.length === 0 ? QUIET_MINUTES : [FAULT_MINUTE + Math.min(...seconds) / 60 - 1];
    const firesAt = FAULT_MINUTE + Math.max(...seconds) / 60 + SLACK_MINUTES;
    const series = Object.entries({ ...HEALTHY, ...changes });
    return {
      name,
      interval: "1m",
      input_series: series.flatMap(([metric, of]) => (of === null ? [] : [{ series: metric, values: of }])),
      alert_rule_test: ALERT_NAMES.flatMap((alertname) => [
        ...quiet.map((minute) => ({ eval_time: `${minute}m`, alertname, exp_alerts: [] })),
        ...(fires.length === 0
          ? []
          : [
              {
                eval_time: `${firesAt}m`,
                alertname,
                exp_alerts: fires
                  .filter(({ alert }) => alert === alertname)
                  .map((fired) => expectedAlert(ruleOf(alerts, fired), fired)),
              },
            ]),
      ]),
    };
  }

  function expectedAlert({ labels, severity, runbook }: AlertRule, fired: Fired) {
    return {
      exp_labels: { ...labels, severity, ...fired.labels },
      exp_annotations: { summary: fired.summary, runbook_url: runbook },
    };
  }

  /** The rule of a fired alert, whose labels include the rule's. */
  function ruleOf(alerts: readonly AlertRule[], { alert, labels }: Fired): AlertRule {
    const rules = alerts.filter(
      (rule) =>
        rule.name === alert && Object.entries(rule.labels).every(([label, value]) => labels[label] === value),
    );
    const [rule] = rules.toSorted((a, b) => Object.keys(b.labels).length - Object.keys(a.labels).length);
    if (rule === undefined) throw new Error(`No rule is called ${alert}.`);
    return rule;
  }

  /** JSON is YAML. */
  function written(name: string, value: unknown): string {
    const file = join(folder, `${name}.yaml`);
    writeFileSync(file, JSON.stringify(value));
    return file;
  }

  function run(...words: readonly string[]) {
    const path = "path" in promtool ? promtool.path : "";
    // Its series are in TMPDIR; if that folder is gone, it ends with a nil pointer. Collecting garbage would take it as long as the rest.
    const env = { ...process.env, TMPDIR: folder, GOGC: "400", GOMAXPROCS: "1" };
    const { status, stdout, stderr } = spawnSync(path, words, { encoding: "utf8", cwd: folder, env });
    return { status, text: `${stdout}${stderr}` };
  }
});
