/** A plan as text for people; the same plan, the same bytes. */

import { knownSum, monthOf } from "../../infra/plan/cost/cost.ts";
import { asleepNodes, canSleep, plannedNodes } from "../../infra/plan/cost/pool-price.ts";
import type { FirstUp } from "../../infra/plan/cost/types.ts";
import type { CpuPlan } from "../../infra/plan/cpu-stack.ts";
import type { GpuPlan, ModelPlan } from "../../infra/plan/gpu-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import type { Problem } from "../../infra/problems.ts";
import { counted } from "../../infra/problems.ts";
import { asleepHour, HOURLY_DIGITS, isLowerBound, SUM_DIGITS, sumUsd } from "./amounts.ts";
import {
  advisorySection,
  autoscalerSection,
  awsSection,
  coldStartSection,
  costSection,
  engineSection,
  isNotPriced,
  memorySection,
  type Section,
  VERDICTS,
} from "./sections.ts";
import {
  duration,
  figure,
  PAGE_COLUMNS,
  paragraph,
  shownSeconds,
  textTable,
  wrapText,
} from "./text-table.ts";

/**
 * Builds and servers, their cost and cold start, then warnings, the serious ones first, and the next command. With
 * `isFull` also memory term by term, cost part by part, and each vulnerability of the release.
 *
 * @param stack - Its name, the options by which commands know it (`--stack dev`), and its file as the user would type
 *   it.
 * @param warnings - With lines of the stack file, as far as they are known.
 * @returns Lines of at most {@link PAGE_COLUMNS} characters, except commands and longer single words.
 */
export function planReport(
  stack: { readonly name: string; readonly options: string; readonly file: string },
  plan: StackPlan,
  warnings: readonly Problem[],
  isFull: boolean,
): string {
  const isOnGpus = plan.tier === "gpu";
  const sections = [
    isOnGpus ? modelSection(plan) : cpuSection(plan),
    ...(isFull && isOnGpus ? [engineSection(plan), memorySection(plan), costSection(plan)] : []),
    ...(isFull && isOnGpus ? [coldStartSection(plan)] : []),
    ...(isFull ? [autoscalerSection(stack.name, plan), awsSection(plan)] : []),
    warningSection(warnings, stack.file, isFull),
    ...(isFull && isOnGpus ? [advisorySection(plan)] : []),
  ].filter(({ lines }) => lines.length > 0);
  const commands = [
    ...(!isFull && isOnGpus ? [`All details: npx engine-room plan ${stack.options} --full`] : []),
    `Next: npx engine-room ${plan.platform === "local" ? "start" : "preflight"} ${stack.options}`,
  ];
  const lines = [
    ...wrapText(`Stack ${stack.name}: ${headline(plan)}`, PAGE_COLUMNS),
    ...summaryLines(plan),
    ...sections.flatMap((section) => ["", section.title, ...section.lines]),
    "",
    ...commands,
  ];
  return `${lines.join("\n")}\n`;
}

function headline(plan: StackPlan): string {
  if (plan.tier === "cpu")
    return `platform ${plan.platform}${plan.platform === "local" ? "" : ", tier cpu"}, ${plan.release}`;
  const { tag, tensorRtLlm, tensorRt } = plan.release;
  const where = plan.spec.region === null ? "" : ` in ${plan.spec.region}`;
  return `platform ${plan.platform}${where}, release ${tag} (TensorRT-LLM ${tensorRtLlm}, TensorRT ${tensorRt ?? "unknown"})`;
}

/** Machines, cost and the time of a first `up`, a paragraph each. */
export function summaryLines(plan: StackPlan): readonly string[] {
  const texts =
    plan.tier === "cpu"
      ? [`Cost: your own ${plan.platform === "kubernetes" ? "cluster" : "machine"}, not priced.`]
      : [machineWords(plan), costWords(plan), timeWords(plan)];
  return texts.flatMap((text) => paragraph(text));
}

function machineWords({ spec }: GpuPlan): string {
  const machines = [
    ...spec.pools.map((pool) => ({
      count: plannedNodes(spec, pool),
      asleep: asleepNodes(spec, pool),
      pool: spec.runsOn === "host" ? "" : `pool ${pool.name}: `,
      type: pool.instanceType,
      owner: pool.capacity === "owned" ? " (your own)" : "",
    })),
    ...spec.rented.machines.map(({ count, asleepCount: asleep, instanceType: type }) => ({
      count,
      asleep,
      pool: "",
      type,
      owner: "",
    })),
  ];
  const list = (of: "count" | "asleep") =>
    machines
      .filter((each) => each[of] > 0)
      .map(({ [of]: count, pool, type, owner }) =>
        type === null ? `${pool}${counted(count, "machine")}${owner}` : `${count} × ${type}${owner}`,
      )
      .join(" + ") || "none";
  return `Machines: ${list("count")}${spec.isRented ? `; asleep ${list("asleep")}` : ""}.`;
}

/** Parts that are billed by use are in no sum, so a sum with such parts is a lower bound. */
function costWords({ cost, spec }: GpuPlan): string {
  const { elsewhere, withoutPrice, lines, builds } = cost;
  const own = spec.pools.filter(isNotPriced).map(({ name }) => name);
  if (!spec.isRented && own.length === spec.pools.length)
    return "Cost: your own machines, not priced; `hourlyUsd` of a host or pool sets a price.";
  const amounts = (hour: number | null, month: number | null, asleep: string) =>
    `${sumUsd(hour, HOURLY_DIGITS, isLowerBound(cost))} an hour (${sumUsd(month, SUM_DIGITS, isLowerBound(cost))} a month)${canSleep(spec) ? `, ${asleep} asleep (\`npx engine-room sleep\`)` : ""}`;
  const prices = builds.map((build) => build.usd);
  const once =
    builds.length === 0
      ? ""
      : `; engines, built once: ${sumUsd(knownSum(prices), SUM_DIGITS, prices.includes(null))}`;
  // A sum of the few parts with a price would be read as the cost of the stack.
  const known =
    elsewhere === null
      ? `${amounts(cost.hourlyUsd, cost.monthlyUsd, asleepHour(cost))}${once}`
      : `no price table for ${spec.region}; in ${elsewhere.region} it would be ${amounts(elsewhere.hourlyUsd, monthOf(elsewhere.hourlyUsd), sumUsd(elsewhere.asleepHourlyUsd, HOURLY_DIGITS, isLowerBound(cost)))}`;
  const missing =
    withoutPrice.length === 0
      ? ""
      : ` Without a price: ${withoutPrice.length} of ${counted(lines.length, "part")}.`;
  const ownWords = own.length === 0 ? "" : ` Your own machines are not priced: ${own.join(", ")}.`;
  return `Cost: ${known}.${missing}${ownWords}`;
}

const FIRST_STEPS: Readonly<Record<FirstUp["steps"][number]["what"], string>> = {
  network: "network",
  controlPlane: "control plane",
  machines: "its first machines",
  builds: "engines",
  coldStart: "cold start",
};

/**
 * The sum is that of the shown steps, so that a reader can add them up. A Docker host has no registry before it: its cold
 * start downloads the images.
 */
function timeWords({ firstUp: { steps }, platform }: GpuPlan): string {
  const seconds = steps.reduce((sum, step) => sum + shownSeconds(step.seconds), 0);
  const parts = steps.map((step) => `${FIRST_STEPS[step.what]} ${duration(step.seconds)}`).join(" + ");
  const images = platform === "docker" ? "" : " after `npx engine-room images --push`";
  return `First \`up\`: about ${duration(seconds)} until its models answer (estimate: ${parts})${images}.`;
}

/** A row for each model: where it runs, and how long it takes to build and to start. */
function modelSection(plan: GpuPlan): Section {
  const { models, encoders, spec } = plan;
  const rows = models.map((model) => [
    model.name,
    String(model.spec.serving.replicas),
    [model.spec.pool, model.spec.gpuIndices?.map((index) => `GPU ${index}`)].flat().join(" "),
    model.engine?.shortKey ?? "none",
    buildTime(plan, model),
    duration(model.coldStart.seconds),
    memoryWords(plan, model),
  ]);
  const device = encoders?.gpu === null ? "the CPU" : `a GPU (${encoders?.gpu})`;
  return {
    title: "Models (times and memory are estimates)",
    lines: [
      ...textTable(["MODEL", ">SERVERS", "POOL", "ENGINE", ">BUILD", ">COLD START", "GPU MEMORY"], rows),
      ...(encoders === null
        ? []
        : paragraph(`Encoders: ${encoders.precision} on ${device}, pool ${spec.encoders?.pool}.`)),
    ],
  };
}

/** Models that share an engine have the same build. */
function buildTime({ cost }: GpuPlan, { engine }: ModelPlan): string {
  const build = cost.builds.find((each) => each.engine === `${engine?.model}/${engine?.shortKey}`);
  return build === undefined ? "" : duration(build.seconds);
}

/** Memory of the fullest GPU that the model's server uses. */
function memoryWords({ fit }: GpuPlan, { name, spec }: ModelPlan): string {
  const [fullest] = fit
    .filter(({ pool, terms }) => pool === spec.pool && terms.some(({ tenant }) => tenant === name))
    .toSorted((a, b) => b.needGiB / b.capacityGiB - a.needGiB / a.capacityGiB);
  if (fullest === undefined) return "";
  const { needGiB, capacityGiB, verdict } = fullest;
  return `${figure(needGiB, 1)} of ${figure(capacityGiB, 1)} GiB, ${VERDICTS[verdict]}`;
}

function cpuSection({ models, encoders }: CpuPlan): Section {
  const rows = models.map((model) => [
    model.name,
    model.model,
    String(model.parallelRequests),
    counted(model.contextTokens, "token"),
    counted(model.maxTokens, "token"),
    model.threads === 0 ? "CPUs - 1" : String(model.threads),
  ]);
  const { text, vision, maxBatchSize, dynamicBatching } = encoders;
  const batches = dynamicBatching ? `batches of up to ${maxBatchSize}` : "no batching";
  return {
    title: "Models (each on a Triton server of its own, on the CPU, without an engine)",
    lines: [
      ...textTable(["MODEL", "WEIGHTS", ">REQUESTS AT A TIME", ">CONTEXT", ">ANSWER", "THREADS"], rows),
      ...paragraph(
        `Encoders: text_encoder (${text.dimension} dimensions), vision_encoder (${vision.dimension} dimensions), ${batches}.`,
      ),
    ],
  };
}

/** Several warnings about a key are listed below it. */
function warningSection(warnings: readonly Problem[], file: string, isFull: boolean): Section {
  const byKey = new Map<string, Problem[]>();
  for (const warning of warnings) {
    const { path, value, line } = warning;
    const key = `${line === undefined ? "" : `${file}:${line}  `}${path} = ${value}`;
    byKey.set(key, [...(byKey.get(key) ?? []), warning]);
  }
  const lines = [...byKey].flatMap(([key, about]) => [
    ...paragraph(key),
    ...about.flatMap(({ reason, fix, isListedByFull }) => {
      const hint = isListedByFull && !isFull ? " `npx engine-room plan --full` lists each." : "";
      const [first = "", ...rest] = paragraph(`${reason}${hint}`, 6);
      return [`    - ${first.trimStart()}`, ...rest, ...paragraph(fix, 6)];
    }),
  ]);
  return { title: `Warnings (${warnings.length})`, lines };
}
