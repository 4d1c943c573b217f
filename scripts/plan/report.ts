/** A plan as text for people; the same plan, the same bytes. */
import { monthOf } from "../../infra/plan/cost/cost.ts";
import { asleepNodes, plannedNodes } from "../../infra/plan/cost/pool-price.ts";
import type { FirstUp } from "../../infra/plan/cost/types.ts";
import type { GpuPlan, ModelPlan } from "../../infra/plan/gpu-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import type { Problem } from "../../infra/problems.ts";
import {
  asleepHour,
  buildSum,
  HOURLY_DIGITS,
  isNotPriced,
  isWhollyUnpriced,
  SUM_DIGITS,
  sumUsd,
} from "./amounts.ts";
import { costSection } from "./cost-section.ts";
import {
  advisorySection,
  coldStartSection,
  encoderSection,
  engineSection,
  fitSection,
  servingSection,
  VERDICTS,
} from "./gpu-sections.ts";
import { awsSection, cpuSections, operationsSection } from "./platform-sections.ts";
import {
  duration,
  figure,
  PAGE_COLUMNS,
  paragraph,
  type Section,
  textTable,
  wrapText,
} from "./text-table.ts";

/**
 * What is built and run, its cost and its cold start, then warnings, the serious ones first, and the next command. With `isFull`
 * every part of the plan: memory term by term, cost part by part, each vulnerability of the release.
 *
 * @param stack - Its name, and the options by which commands know it: `--stack dev`.
 * @returns Lines of at most {@link PAGE_COLUMNS} characters, but for single words that are longer, and commands.
 */
export function planReport(
  stack: { readonly name: string; readonly options: string },
  plan: StackPlan,
  warnings: readonly Problem[],
  isFull: boolean,
): string {
  const sections = [
    ...(plan.tier === "cpu" ? cpuSections(plan) : isFull ? fullSections(plan) : [modelSection(plan)]),
    ...(isFull ? [...operationsSection(stack.name, plan), ...awsSection(plan)] : []),
    ...warningSection(warnings),
    ...(isFull && plan.tier === "gpu" ? advisorySection(plan) : []),
  ];
  const hasMore = !isFull && (plan.tier === "gpu" || "cluster" in plan);
  const commands = [
    ...(hasMore ? [`All details: npx engine-room plan ${stack.options} --full`] : []),
    ...(plan.platform === "local" ? [] : [`Next: npx engine-room preflight ${stack.options}`]),
  ];
  const lines = [
    ...wrapText(`Stack ${stack.name}: ${headline(plan)}`, PAGE_COLUMNS),
    ...summaryLines(plan),
    ...sections.flatMap((section) => ["", section.title, ...section.lines]),
    ...(commands.length === 0 ? [] : ["", ...commands]),
  ];
  return `${lines.join("\n")}\n`;
}

function headline(plan: StackPlan): string {
  if (plan.tier === "cpu") {
    return `platform ${plan.platform}${plan.platform === "local" ? "" : ", tier cpu"}, ${plan.release}`;
  }
  const { tag, tensorRtLlm, tensorRt } = plan.release;
  const where = plan.spec.region === null ? "" : ` in ${plan.spec.region}`;
  return `platform ${plan.platform}${where}, release ${tag} (TensorRT-LLM ${tensorRtLlm}, TensorRT ${tensorRt ?? "unknown"})`;
}

function fullSections(plan: GpuPlan): Section[] {
  return [
    engineSection(plan),
    servingSection(plan),
    ...encoderSection(plan),
    fitSection(plan),
    costSection(plan),
    coldStartSection(plan),
  ];
}

/** A row for each model: where it runs, and how long it takes to build and to start. */
function modelSection(plan: GpuPlan): Section {
  const { models, encoders, spec } = plan;
  const columns = [
    { title: "MODEL" },
    { title: "SERVERS", align: "right" },
    { title: "POOL" },
    { title: "ENGINE" },
    { title: "BUILD", align: "right" },
    { title: "COLD START", align: "right" },
    { title: "GPU MEMORY" },
  ] as const;
  const rows = models.map((model) => [
    model.name,
    String(model.spec.serving.replicas),
    model.spec.pool,
    model.engine?.shortKey ?? "none",
    buildTime(plan, model),
    duration(model.coldStart.seconds),
    memoryWords(plan, model),
  ]);
  const device = encoders?.gpu === null ? "the CPU" : `a GPU (${encoders?.gpu})`;
  return {
    title: "Models (times and memory are estimates)",
    lines: [
      ...textTable(columns, rows),
      ...(encoders === null ? [] : paragraph(`Encoders: on ${device}, pool ${spec.encoders?.pool}.`)),
    ],
  };
}

/** Of an engine that several models share it is the same build. */
function buildTime({ cost }: GpuPlan, { engine }: ModelPlan): string {
  const build = cost.builds.find((one) => one.engine === `${engine?.model}/${engine?.shortKey}`);
  return build === undefined ? "" : duration(build.seconds);
}

/** Of the fullest GPU that the model's server is on. */
function memoryWords({ fit }: GpuPlan, { name, spec }: ModelPlan): string {
  const [fullest] = fit
    .filter(({ pool, terms }) => pool === spec.pool && terms.some(({ tenant }) => tenant === name))
    .toSorted((one, other) => other.needGiB / other.capacityGiB - one.needGiB / one.capacityGiB);
  if (fullest === undefined) return "";
  const { needGiB, capacityGiB, verdict } = fullest;
  return `${figure(needGiB, 1)} of ${figure(capacityGiB, 1)} GiB, ${VERDICTS[verdict]}`;
}

const FIRST_STEPS: Readonly<Record<FirstUp["steps"][number]["what"], string>> = {
  network: "network",
  controlPlane: "control plane",
  machines: "its first machines",
  builds: "engines",
  coldStart: "cold start",
};

/** Machines, cost and the time of a first `up`, a paragraph each; nothing for stacks without engines. */
export function summaryLines(plan: StackPlan): readonly string[] {
  if (plan.tier === "cpu") return [];
  return [machineWords(plan), costWords(plan), timeWords(plan)].flatMap((text) => paragraph(text));
}

function machineWords({ spec }: GpuPlan): string {
  const pools = spec.pools.map((pool) => {
    const type = pool.instanceType ?? `machine of ${pool.name}`;
    const own = pool.capacity === "owned" ? " (your own)" : "";
    return { count: plannedNodes(spec, pool), asleep: asleepNodes(spec, pool), type: `${type}${own}` };
  });
  const always = spec.rented.machines.map(({ count, instanceType }) => ({
    count,
    asleep: count,
    type: instanceType,
  }));
  const list = (of: "count" | "asleep") =>
    [...pools, ...always]
      .filter((machines) => machines[of] > 0)
      .map((machines) => `${machines[of]} × ${machines.type}`)
      .join(" + ") || "none";
  const asleep = spec.isRented ? `; asleep ${list("asleep")}` : "";
  return `Machines: ${list("count")}${asleep}.`;
}

/** What is billed by use is in no sum, so that a sum is a lower bound wherever there is any of it. */
function costWords({ cost, spec }: GpuPlan): string {
  if (isWhollyUnpriced(spec))
    return "Cost: your own machines, not priced; `hourlyUsd` of a host or pool sets a price.";
  const isAtLeast = cost.withoutPrice.length > 0 || cost.besides.length > 0;
  const hour = (amount: number | null) => `${sumUsd(amount, HOURLY_DIGITS, isAtLeast)} an hour`;
  const month = (amount: number | null) => `${sumUsd(amount, SUM_DIGITS, isAtLeast)} a month`;
  const once = cost.builds.length === 0 ? "" : `; engines, built once: ${buildSum(cost.builds)}`;
  const own = spec.pools.filter(isNotPriced).map(({ name }) => name);
  const ownWords = own.length === 0 ? "" : ` Your own machines are not priced: ${own.join(", ")}.`;
  const { elsewhere, hourlyUsd, monthlyUsd, withoutPrice, lines } = cost;
  const here = `${hour(hourlyUsd)} (${month(monthlyUsd)}), ${asleepHour(cost)} asleep (\`npx engine-room sleep\`)${once}`;
  if (withoutPrice.length === 0) return `Cost: ${here}.${ownWords}`;
  const isOne = withoutPrice.length === 1;
  const missing = `${withoutPrice.length} of its ${lines.length} parts ${isOne ? "has" : "have"} no price`;
  if (elsewhere === null) return `Cost: ${here}. ${missing}.${ownWords}`;
  const there = `${hour(elsewhere.hourlyUsd)} (${month(monthOf(elsewhere.hourlyUsd))}), ${sumUsd(elsewhere.asleepHourlyUsd, HOURLY_DIGITS, isAtLeast)} asleep`;
  // A sum of nothing, or of parts that cost nothing, says nothing.
  const others = hourlyUsd === null || hourlyUsd === 0 ? "" : `; the others: ${here}`;
  return `Cost: no price table for ${spec.region}; in ${elsewhere.region} it would be ${there}. ${missing} in ${spec.region}${others}.${ownWords}`;
}

/** A Docker host has no registry before it: its cold start downloads the images. */
function timeWords({ firstUp: { steps, seconds }, platform }: GpuPlan): string {
  const parts = steps.map((step) => `${FIRST_STEPS[step.what]} ${duration(step.seconds)}`).join(" + ");
  const images = platform === "docker" ? "" : ", once images are in their registry";
  return `First \`up\`: about ${duration(seconds)} until its models answer (estimate: ${parts})${images}.`;
}

/** Several warnings about one key are listed below it. */
function warningSection(warnings: readonly Problem[]): Section[] {
  if (warnings.length === 0) return [];
  const byKey = new Map<string, Problem[]>();
  for (const warning of warnings) {
    const key = `${warning.path} = ${warning.value}`;
    byKey.set(key, [...(byKey.get(key) ?? []), warning]);
  }
  const lines = [...byKey].flatMap(([key, about]) => [...paragraph(key), ...about.flatMap(point)]);
  return [{ title: `Warnings (${warnings.length})`, lines }];
}

function point({ reason, fix }: Problem): string[] {
  const [first = "", ...rest] = paragraph(reason, 6);
  return [`    - ${first.trimStart()}`, ...rest, ...paragraph(fix, 6)];
}
