import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readStack } from "../../../../infra/config/config.ts";
import { RELEASE_TAGS } from "../../../../infra/plan/catalogue/releases.ts";
import type { ClusterGpuPlan } from "../../../../infra/plan/gpu-stack.ts";
import { kubernetesStack } from "../../../../infra/plan/kubernetes/kubernetes-stack.ts";
import { ALERT_NAMES, type MonitoringPlan } from "../../../../infra/plan/kubernetes/monitoring/types.ts";
import { planStack } from "../../../../infra/plan/stack-plan.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import { unknownSeries } from "./known-series.ts";
import { selectors } from "./promql-selectors.ts";
import {
  clusterPlan,
  clusterValues,
  exampleValues,
  first,
  fullValues,
  lockedImages,
  type Values,
} from "./stacks.ts";

const RUNBOOKS = join(projectRoot, "docs/runbooks");
const WATCHED = { monitoring: "prometheus-operator" } as const;
const watchedValues: Values = { ...clusterValues, ...WATCHED };

function watched(values: Values): { readonly plan: ClusterGpuPlan; readonly monitoring: MonitoringPlan } {
  const plan = clusterPlan({ ...WATCHED, ...values });
  if (plan.tier !== "gpu") throw new Error("no stack on GPUs");
  const { monitoring } = kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
  if (monitoring === null) throw new Error("Nobody watches this stack.");
  return { plan, monitoring };
}

/** Not every release can build the model. */
function canBePlanned(values: Values): boolean {
  const { config } = readStack(values);
  return config !== null && planStack(config).plan !== null;
}

interface DashboardJson {
  readonly uid: string;
  readonly title: string;
  readonly annotations: { readonly list: readonly { readonly expr: string }[] };
  readonly panels: readonly {
    readonly id: number;
    readonly title: string;
    readonly type: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
    readonly targets?: readonly {
      readonly expr: string;
      readonly refId: string;
      readonly legendFormat: string;
    }[];
  }[];
}

const dashboardsOf = ({ dashboards }: MonitoringPlan) =>
  dashboards.map(({ json }) => JSON.parse(json) as DashboardJson);

/** All of alerts, rules, panels and annotations. */
function expressionsOf(monitoring: MonitoringPlan): readonly string[] {
  return [
    ...monitoring.rules.alerts.map(({ expression }) => expression),
    ...dashboardsOf(monitoring).flatMap(({ panels, annotations }) => [
      ...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
      ...annotations.list.map(({ expr }) => expr),
    ]),
  ];
}

const STACKS: Readonly<Record<string, Values>> = {
  "mock databases, encoders": clusterValues,
  "databases elsewhere": fullValues,
  "databases in containers": { ...clusterValues, databases: "container" },
  "neither encoders nor exporter of GPUs": {
    ...clusterValues,
    encoders: false,
    monitoringOptions: { gpuExporter: false },
  },
  "the walkthrough's example": exampleValues("llama-2-7b-chat-kubernetes"),
  "two models, of which one has no batch manager": {
    ...clusterValues,
    models: [
      ...clusterValues.models,
      {
        name: "own",
        model: "llama-2-7b-chat",
        runtime: "llmapi",
        weights: { from: "folder", path: "/store/own/llama", revision: "1" },
      },
    ],
  },
  ...Object.fromEntries(
    RELEASE_TAGS.map(
      (release) => [`release ${release}`, { ...clusterValues, release, acceptUnverified: true }] as const,
    ).filter(([, values]) => canBePlanned(values)),
  ),
};

describe.each(Object.entries(STACKS))("%s", (_, values) => {
  const { plan, monitoring } = watched(values);

  test("reads only series that the tables have for it, in PromQL", () => {
    const read = expressionsOf(monitoring).flatMap(selectors);
    expect(read.length).toBeGreaterThan(30);
    expect([...new Set(read.flatMap((selector) => unknownSeries(plan, selector) ?? []))]).toEqual([]);
  });

  test("records what is planned, in PromQL without series", () => {
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

  test("refuses what is no PromQL", () => {
    for (const wrong of ["sum(", "up{a=}", "rate(up[5])) > 1", "sum by (a (up)"])
      expect(() => selectors(wrong)).toThrow(/is no PromQL/);
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
    expect([...new Set(monitoring.rules.alerts.map(({ name }) => name))]).toEqual([...ALERT_NAMES]);
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

  test("say when a series is absent by which servers are scaled", () => {
    expect(
      named("EngineRoomScalingSeriesAbsent").map(({ labels, expression }) => [labels, expression]),
    ).toEqual([
      [
        { scaling_series: "waiting-requests", service: "gpt" },
        'up{namespace="engine-room", service="gpt"} == 1 unless on (namespace, service, pod) nv_trt_llm_request_metrics{namespace="engine-room", service="gpt", request_type="waiting"}',
      ],
      [
        { scaling_series: "pending-requests", service: "gpt" },
        expect.stringContaining(
          'nv_inference_pending_request_count{namespace="engine-room", service="gpt", model=',
        ),
      ],
    ]);
    const old = watched({ ...clusterValues, release: "25.03", acceptUnverified: true }).monitoring;
    expect(named("EngineRoomScalingSeriesAbsent", old).map(({ labels }) => labels.scaling_series)).toEqual([
      "pending-requests",
    ]);
    expect(named("EngineRoomRequestsWait", old)).toEqual([]);
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
