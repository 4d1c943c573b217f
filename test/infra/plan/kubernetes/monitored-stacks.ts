/** Stacks that Prometheus watches, and every expression of theirs. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readStack } from "../../../../infra/config/config.ts";
import { RELEASE_TAGS } from "../../../../infra/plan/catalogue/releases.ts";
import { kubernetesStack } from "../../../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { MonitoringPlan } from "../../../../infra/plan/kubernetes/monitoring/monitoring.ts";
import { planStack } from "../../../../infra/plan/plan-stack.ts";
import type { ClusterPlan } from "../../../../infra/plan/stack-plan.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import {
  clusterPlan,
  clusterValues,
  cpuClusterValues,
  exampleValues,
  fullValues,
  lockedImages,
  type Values,
} from "./stacks.ts";

/** Names of the alerts in the file, sorted. */
export const ALERT_NAMES: readonly string[] = [
  ...new Set(
    Array.from(
      readFileSync(join(projectRoot, "infra/plan/kubernetes/monitoring/rules.yaml"), "utf8").matchAll(
        /- alert: (\w+)$/gm,
      ),
      ([, name = ""]) => name,
    ),
  ),
].sort();

export const WATCHED = { monitoring: "prometheus-operator" } as const;
export const watchedValues: Values = { ...clusterValues, ...WATCHED };

/** Everything that can have an autoscaler has one; the model may sleep. */
export const scaledValues: Values = {
  ...clusterValues,
  models: [{ ...clusterValues.models[0], replicas: 2, minReplicas: 0 }],
  encoders: { replicas: 2, minReplicas: 1 },
  gateway: { replicas: 2, minReplicas: 1 },
};
export const scaledCpuValues: Values = {
  ...cpuClusterValues,
  models: [{ ...cpuClusterValues.models[0], replicas: 2, minReplicas: 0 }],
  encoders: scaledValues.encoders,
  gateway: scaledValues.gateway,
};

interface WatchedStack {
  readonly plan: ClusterPlan;
  readonly monitoring: MonitoringPlan;
}

const known = new Map<Values, WatchedStack>();

/** Planned once for each object of values: tests only read it. */
export function watched(values: Values): WatchedStack {
  const stack = known.get(values) ?? watchedAnew(values);
  known.set(values, stack);
  return stack;
}

export function watchedAnew(values: Values): WatchedStack {
  const plan = clusterPlan({ ...WATCHED, ...values });
  const { monitoring } = kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
  if (monitoring === null) throw new Error("Nobody watches this stack.");
  return { plan, monitoring };
}

/** Whether the release can build the model. */
function canBePlanned(values: Values): boolean {
  const { config } = readStack(values);
  return config !== null && planStack(config).plan !== null;
}

export interface DashboardJson {
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

/** Files of the ConfigMaps of dashboards. */
export const dashboardTexts = ({ dashboards }: MonitoringPlan) =>
  dashboards.flatMap(({ data }) => Object.values(data ?? {}));

export const dashboardsOf = (monitoring: MonitoringPlan) =>
  dashboardTexts(monitoring).map((json) => JSON.parse(json) as DashboardJson);

const rulesOf = ({ rules }: MonitoringPlan) => rules.spec.groups.flatMap((group) => group.rules);

export interface AlertRule {
  readonly name: string;
  /** Tell rules of one name apart. */
  readonly labels: Readonly<Record<string, string>>;
  readonly severity: string | undefined;
  readonly expression: string;
  readonly forSeconds: number;
  readonly runbook: string | undefined;
}

export function alertsOf(monitoring: MonitoringPlan): readonly AlertRule[] {
  return rulesOf(monitoring).flatMap(
    ({ alert, expr, labels: { severity, ...labels }, annotations, ...rule }) => {
      if (alert === undefined) return [];
      const forSeconds = Number(/^(\d+)s$/.exec(rule.for ?? "0s")?.[1]);
      return [
        { name: alert, labels, severity, expression: expr, forSeconds, runbook: annotations?.runbook_url },
      ];
    },
  );
}

export const recordedOf = (monitoring: MonitoringPlan) =>
  rulesOf(monitoring).flatMap(({ record, expr, labels }) =>
    record === undefined ? [] : [{ record, expr, labels }],
  );

/** All expressions of alerts, rules, panels and annotations. */
export function expressionsOf(monitoring: MonitoringPlan): readonly string[] {
  return [
    ...alertsOf(monitoring).map(({ expression }) => expression),
    ...dashboardsOf(monitoring).flatMap(({ panels, annotations }) => [
      ...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
      ...annotations.list.map(({ expr }) => expr),
    ]),
  ];
}

export const STACKS: Readonly<Record<string, Values>> = {
  "mock databases, encoders": clusterValues,
  "databases elsewhere": fullValues,
  "autoscalers of all": scaledValues,
  "autoscalers, a release that does not say what waits": { ...scaledValues, release: "25.01" },
  "autoscalers, a model without batch manager": {
    ...scaledValues,
    models: [{ ...clusterValues.models[0], flavour: "gpt", replicas: 2, minReplicas: 0 }],
  },
  "no GPU": cpuClusterValues,
  "no GPU, autoscalers of all": scaledCpuValues,
  "no GPU, databases elsewhere": {
    ...cpuClusterValues,
    databases: "external",
    externalDatabases: fullValues.externalDatabases,
  },
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
