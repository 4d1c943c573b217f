/** Memory of every GPU, term by term, so that a reader can add it up. */
import type { MemoryFit } from "../../infra/plan/fit/memory-fit.ts";
import type { MemoryTerm } from "../../infra/plan/fit/terms.ts";
import type { Verdict } from "../../infra/plan/fit/verdicts.ts";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import { figure, paragraph, type Section, textTable } from "./text-table.ts";

/** What each verdict means to people. */
export const VERDICTS: Readonly<Record<Verdict, string>> = {
  fits: "fits",
  tight: "tight: within the error of the estimate",
  doesNotFit: "DOES NOT FIT",
};

const TERMS: Readonly<Record<MemoryTerm["what"], string>> = {
  weights: "weights",
  visionEngine: "visual engine",
  visionActivations: "visual activations",
  activations: "activations",
  kvCache: "KV cache",
  crossKvCache: "cross KV cache",
  memoryPool: "memory pool",
  cudaContext: "CUDA context",
};

/** GPUs on which the very same lands are shown once, with their number. */
export function fitSection({ fit }: GpuPlan): Section {
  const kinds = new Map<string, { readonly fit: MemoryFit; count: number }>();
  for (const each of fit) {
    const kind = JSON.stringify(each);
    const known = kinds.get(kind);
    if (known === undefined) kinds.set(kind, { fit: each, count: 1 });
    else known.count++;
  }
  return {
    title: "Memory of each GPU (estimate, GiB)",
    lines: [...kinds.values()].flatMap(({ fit: each, count }, index) => [
      ...(index === 0 ? [] : [""]),
      ...gpuLines(each, count),
    ]),
  };
}

function gpuLines(fit: MemoryFit, count: number): string[] {
  const { pool, gpu, capacityGiB, needGiB, errorGiB, terms, verdict, alternatives } = fit;
  const rows = terms.map(({ tenant, what, gib, arithmetic }) => [
    tenant,
    TERMS[what],
    figure(gib, 2),
    arithmetic,
  ]);
  const columns = [
    { title: "TENANT" },
    { title: "TERM" },
    { title: "GiB", align: "right" },
    { title: "HOW" },
  ] as const;
  const heading =
    `${count === 1 ? "" : `${count} of `}${pool}, ${gpu}: need ${figure(needGiB, 2)} of ${figure(capacityGiB, 2)}, ` +
    `error ${figure(errorGiB, 2)}: ${VERDICTS[verdict]}`;
  return [
    ...paragraph(heading),
    ...textTable(columns, rows, { indent: 4 }),
    ...fit.notes.flatMap((note) => paragraph(note, 4)),
    ...alternatives.flatMap((alternative) => paragraph(`would fit: ${showAlternative(alternative)}`, 4)),
  ];
}

function showAlternative({ change, hourlyUsd }: MemoryFit["alternatives"][number]): string {
  return `${change}${hourlyUsd === null ? "" : `, $${figure(hourlyUsd, 3)} an hour`}`;
}
