/** Sections that `plan --full` adds to the short report; a section without lines is not shown. */
import { type Advisory, openAdvisories } from "../../infra/plan/catalogue/advisories.ts";
import {
  CHART_NAMES,
  installedCharts,
  isInstalled,
  kubernetesVersions,
} from "../../infra/plan/catalogue/aws.ts";
import { HOURS_PER_MONTH } from "../../infra/plan/cost/cost.ts";
import { canSleep } from "../../infra/plan/cost/pool-price.ts";
import type { ColdStart } from "../../infra/plan/cost/types.ts";
import type { MemoryFit } from "../../infra/plan/fit/memory-fit.ts";
import type { MemoryTerm } from "../../infra/plan/fit/terms.ts";
import type { Verdict } from "../../infra/plan/fit/verdicts.ts";
import type { AwsPlan, GpuPlan } from "../../infra/plan/gpu-stack.ts";
import { neededImages } from "../../infra/plan/images.ts";
import { kubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { PoolSpec } from "../../infra/plan/spec.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { HOURLY_DIGITS, SUM_DIGITS, sumUsd, usd } from "./amounts.ts";
import { duration, figure, paragraph, textTable } from "./text-table.ts";

/** Part of a report: a heading and the lines below it. */
export interface Section {
  readonly title: string;
  readonly lines: readonly string[];
}

/** The form of each engine, its limits and the steps that make it. */
export function engineSection({ models }: GpuPlan): Section {
  const rows = models.map(({ name, spec, engine: built }) => {
    const { engine, serving } = spec;
    const { target, limits, quantization, dtype } = engine;
    return [
      name,
      [target.gpu.name, target.gpu.computeCapability, target.migProfile].join(" ").trimEnd(),
      `${engine.tensorParallel} x ${engine.pipelineParallel}`,
      quantization === "none" ? dtype : `${quantization}/${dtype}`,
      String(limits.maxBatchSize),
      String(limits.maxInputTokens),
      String(limits.maxInputTokens + limits.maxOutputTokens),
      built === null
        ? `none: runtime ${serving.runtime} loads the weights themselves`
        : [...new Set(built.steps.map((step) => step.name))].join(", "),
    ];
  });
  const columns = ["MODEL", "GPU", "TP x PP", "FORMAT", ">BATCH", ">INPUT", ">SEQUENCE", "STEPS"];
  return { title: "Engines", lines: textTable(columns, rows) };
}

/** Texts of the verdicts. */
export const VERDICTS: Readonly<Record<Verdict, string>> = {
  fits: "fits",
  tight: "tight: within the error of the estimate",
  doesNotFit: "DOES NOT FIT",
};

const TERMS: Readonly<Record<MemoryTerm["what"], string>> = {
  weights: "weights",
  visionEncoder: "visual encoder",
  visionActivations: "visual activations",
  activations: "activations",
  kvCache: "KV cache",
  crossKvCache: "cross KV cache",
  memoryPool: "memory pool",
  cudaContext: "CUDA context",
};

/** Equal GPUs are shown once, with their number. */
export function memorySection({ fit }: GpuPlan): Section {
  const keys = fit.map((each) => JSON.stringify(each));
  const lines = fit.flatMap((each, index) =>
    keys.indexOf(keys[index] ?? "") < index
      ? []
      : [...(index === 0 ? [] : [""]), ...gpuLines(each, keys.filter((key) => key === keys[index]).length)],
  );
  return { title: "Memory of each GPU (estimate, GiB)", lines };
}

function gpuLines(fit: MemoryFit, count: number): string[] {
  const { pool, gpu, capacityGiB, needGiB, errorGiB, terms, verdict, alternatives, notes } = fit;
  const rows = terms.map(({ tenant, what, gib, arithmetic }) => [
    tenant,
    TERMS[what],
    figure(gib, 2),
    arithmetic,
  ]);
  const times = count === 1 ? "" : `${count} of `;
  return [
    ...paragraph(
      `${times}${pool}, ${gpu}: need ${figure(needGiB, 2)} of ${figure(capacityGiB, 2)}, error ${figure(errorGiB, 2)}: ${VERDICTS[verdict]}`,
    ),
    ...textTable(["TENANT", "TERM", ">GiB", "HOW"], rows, { indent: 4 }),
    ...notes.flatMap((note) => paragraph(note, 4)),
    ...alternatives.flatMap(({ change, hourlyUsd }) =>
      paragraph(
        `would fit: ${change}${hourlyUsd === null ? "" : `, ${usd(hourlyUsd, HOURLY_DIGITS)} an hour`}`,
        4,
      ),
    ),
  ];
}

/** Whether the machines of a pool are the user's own, without a price: a plan counts them as 0. */
export function isNotPriced({ capacity, hourlyUsd }: PoolSpec): boolean {
  return capacity === "owned" && hourlyUsd === undefined;
}

/** Parts by the hour, awake and, if the stack can sleep, asleep; engines, built once; and parts in no sum. */
export function costSection({ cost, spec }: Pick<GpuPlan, "cost" | "spec">): Section {
  const own = spec.pools.filter(isNotPriced).map(({ name }) => `pool ${name}`);
  const sum = (amount: number | null, digits: number) => sumUsd(amount, digits, cost.withoutPrice.length > 0);
  const sleeps = canSleep(spec);
  const rows = [
    ...cost.lines.map(({ what, arithmetic, hourlyUsd, asleepHourlyUsd }) =>
      own.includes(what)
        ? [what, "not priced", "", arithmetic.replace(/\bowned$/, "your own")]
        : [what, usd(hourlyUsd, HOURLY_DIGITS), usd(asleepHourlyUsd, HOURLY_DIGITS), arithmetic],
    ),
    ...(own.length === cost.lines.length
      ? []
      : [
          [
            "sum",
            sum(cost.hourlyUsd, HOURLY_DIGITS),
            sum(cost.asleepHourlyUsd, HOURLY_DIGITS),
            `a month of ${HOURS_PER_MONTH} hours: ${sum(cost.monthlyUsd, SUM_DIGITS)}${sleeps ? `, asleep ${sum(cost.asleepMonthlyUsd, SUM_DIGITS)}` : ""}`,
          ],
        ]),
  ];
  const table = [["WHAT", ">AN HOUR", ">ASLEEP", "HOW"], ...rows].map((row) =>
    sleeps ? row : row.toSpliced(2, 1),
  );
  const notes = [
    ...cost.builds.map(({ engine, seconds, usd: price }) =>
      // A build on machines without a price costs nothing.
      [`built once: ${engine}`, duration(seconds), ...(price === 0 ? [] : [usd(price, SUM_DIGITS)])].join(
        ", ",
      ),
    ),
    ...cost.notIncluded.map((what) => `not in the sums: ${what}`),
  ];
  const source = cost.pricesAsOf === null ? "" : `, prices of ${cost.pricesAsOf}`;
  return {
    title: `Cost (US dollars${source})`,
    lines: [
      ...textTable(table[0] ?? [], table.slice(1)),
      ...(notes.length === 0 ? [] : ["", ...notes.flatMap((note) => paragraph(note))]),
    ],
  };
}

const START_STEPS: Readonly<Record<ColdStart["steps"][number]["what"], string>> = {
  node: "machine",
  imagePull: "image",
  engineCopy: "engine copy",
  load: "load",
};

/** Every step of every model, and their sums. */
export function coldStartSection({ models }: GpuPlan): Section {
  const rows = models.flatMap(({ name, coldStart: { steps, seconds, onRunningMachine } }) => [
    ...steps.map(({ what, seconds: each, arithmetic }, index) => [
      index === 0 ? name : "",
      START_STEPS[what],
      figure(each, 0),
      arithmetic,
    ]),
    ["", "sum", figure(seconds, 0), onRunningMachine.length === 0 ? "" : "on a new machine"],
    ...onRunningMachine.map((each) => [
      "",
      "sum",
      figure(each.seconds, 0),
      `on a machine that runs${each.hasImage ? " and has the image" : ""}`,
    ]),
  ]);
  return {
    title: "Cold start, engine built (estimate)",
    lines: textTable(["MODEL", "STEP", ">SECONDS", "HOW"], rows),
  };
}

const SEVERITIES: readonly Advisory["severity"][] = ["critical", "high", "medium", "low"];

/** Each known vulnerability of the release, the worst first. */
export function advisorySection({ release }: GpuPlan): Section {
  const open = openAdvisories(release).toSorted(
    (a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity),
  );
  const rows = open.map(({ id, severity, component, fixedIn, summary }) => [
    id,
    severity,
    `${component === "triton" ? "Triton" : "TensorRT-LLM"} ${fixedIn}`,
    summary,
  ]);
  return {
    title: `Vulnerabilities of ${release.tag} (${open.length})`,
    lines: open.length === 0 ? [] : textTable(["ID", "SEVERITY", "FIXED IN", "WHAT"], rows),
  };
}

/**
 * Autoscalers with their series; empty for stacks without.
 *
 * @throws ConfigError if Kubernetes has no label of the stack's name.
 */
export function autoscalerSection(stack: string, plan: StackPlan): Section {
  const title = "Autoscaling";
  if (!("cluster" in plan)) return { title, lines: [] };
  // Autoscalers do not depend on the registry of images.
  const images = neededImages(plan).map((name) => ({ name, reference: name }));
  const { autoscalers } = kubernetesStack(plan, { stack, images });
  const rows = autoscalers.flatMap(({ name, replicas, schedule, metrics }) =>
    metrics.map(({ series, target }, index) => [
      index === 0 ? name : "",
      index === 0 ? `${replicas.min} to ${replicas.max}` : "",
      index === 0 && schedule !== null ? `${schedule.replicas} to ${replicas.max}` : "",
      String(target),
      `${series.name} of ${series.labels.service}`,
    ]),
  );
  const columns = ["AUTOSCALER", ">SERVERS", ">BY SCHEDULE", ">EACH TAKES", "OF THE SUM OF"];
  return { title, lines: rows.length === 0 ? [] : textTable(columns, rows) };
}

/**
 * Consequences over time: the end of a version, parts that a chart set to `none` leaves out, and expiry. Empty for
 * other platforms.
 */
export function awsSection(plan: StackPlan): Section {
  if (plan.platform !== "aws") return { title: "", lines: [] };
  const { account, guard } = plan.config;
  const texts = [
    ...(plan.compute === "eks" ? clusterWords(plan.config.cluster) : []),
    ...(guard.ttlHours === undefined
      ? []
      : [
          `Expiry: \`npx engine-room expire --down\` destroys the stack ${guard.ttlHours} h after its last \`up\` (guard.ttlHours).`,
        ]),
  ];
  return { title: `Account ${account}`, lines: texts.flatMap((text) => paragraph(text)) };
}

/** Effect of a chart that is `none` on a cluster. */
const MISSING: Readonly<Record<(typeof CHART_NAMES)[number], string>> = {
  "device-plugin": "no pod is given a GPU",
  "dcgm-exporter": "no metrics of GPUs, so no alerts on them and nothing on their board",
  "cluster-autoscaler": "machines are not started or ended by load",
  "load-balancer-controller": "no load balancer before the gateway",
  keda: "no server scales with its load",
  "kube-prometheus-stack": "no Prometheus, so no monitors, alerts and dashboards",
};

/** A date is not checked: a plan has no clock. */
function clusterWords({
  version,
  charts,
  existing,
}: Extract<AwsPlan, { compute: "eks" }>["config"]["cluster"]): string[] {
  const missing = CHART_NAMES.filter((name) => !isInstalled(name, charts));
  const installed = [...(existing?.addOns ?? []), ...installedCharts({ charts, existing })];
  return [
    existing === undefined
      ? `Kubernetes ${version}: AWS's standard support ends on ${kubernetesVersions[version].standardSupportUntil}; AWS then updates the cluster to the next version by itself, so write that one before.`
      : `Cluster ${existing.name}: it exists, and \`npx engine-room down\` leaves it. Installed in it: ${installed.join(", ") || "nothing"}.`,
    ...(missing.length === 0
      ? []
      : [`Not installed: ${missing.map((name) => `${name} (${MISSING[name]})`).join("; ")}.`]),
  ];
}
