/** Streamed questions to one model at rising concurrency, until a latency limit is broken. */

import { counted } from "../../infra/problems.ts";
import type { AnswerFigures } from "../ask/send.ts";
import { UsageError, UserError } from "../errors.ts";
import { type Cell, measure, quantile } from "./load.ts";

/** In milliseconds; the 95th percentile of a load must not be above them. */
export interface Limits {
  readonly ttftMs?: number | undefined;
  readonly itlMs?: number | undefined;
}

interface Percentiles {
  readonly p50: number;
  readonly p95: number;
}

/** One load of a sweep; failed requests count only in `failed`. */
export interface SweepRow {
  readonly concurrency: number;
  readonly requests: number;
  readonly failed: number;
  /** Error of the last failed request. */
  readonly failure?: string;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  /** Mean of the requests, as the server counts them; null when it does not. */
  readonly promptTokens: number | null;
  /** Mean of the answers, which may end before `--output-tokens`. */
  readonly outputTokens: number;
  /** From sending a request to its first text. */
  readonly ttftMs: Percentiles;
  /**
   * By request, as GenAI-Perf: the time after the first token by the number of tokens after it. Null when no answer had
   * two tokens.
   */
  readonly itlMs: Percentiles | null;
}

const LATENCIES = { ttftMs: "time to first token", itlMs: "inter-token latency" } as const;
type Latency = keyof typeof LATENCIES;

/** The last load of a doubling that breaks no limit; the gateway answers no more requests at a time by default. */
const LARGEST_CONCURRENCY = 256;

/** @param list - `1,4,16`; undefined: doubled from 1. @throws UsageError for a list that does not rise. */
export function sweepLoads(list: string | undefined): readonly number[] {
  if (list === undefined)
    return Array.from({ length: Math.log2(LARGEST_CONCURRENCY) + 1 }, (_, power) => 2 ** power);
  const loads = list
    .split(",")
    .map((text) => (/^[1-9]\d{0,3}$/.test(text.trim()) ? Number(text) : Number.NaN));
  if (loads.some((load, index) => !(load > (loads[index - 1] ?? 0))))
    throw new UsageError(
      `--concurrency is ${JSON.stringify(list)}; it must be whole numbers from 1 to 9999 that rise, such as 1,4,16.`,
    );
  return loads;
}

/** @param answers - Figures of the requests that did not fail. */
export function sweepRow(cell: Cell, answers: readonly AnswerFigures[], failure?: string): SweepRow {
  const { concurrency, requests, failed, requestsPerSecond } = cell;
  const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  const tokens = mean(answers.map(({ completionTokens }) => completionTokens ?? 0));
  const prompts = answers.flatMap(({ promptTokens }) => promptTokens ?? []);
  const gaps = answers.flatMap(({ completionTokens, firstTextSeconds, totalSeconds }) => {
    const after = (completionTokens ?? 0) - 1;
    return firstTextSeconds === null || after < 1 ? [] : [((totalSeconds - firstTextSeconds) * 1000) / after];
  });
  return {
    concurrency,
    requests,
    failed,
    ...(failure === undefined ? {} : { failure }),
    requestsPerSecond,
    outputTokensPerSecond: requestsPerSecond * tokens,
    promptTokens: prompts.length === 0 ? null : mean(prompts),
    outputTokens: tokens,
    ttftMs: percentiles(answers.map(({ firstTextSeconds }) => (firstTextSeconds ?? 0) * 1000)),
    itlMs: gaps.length === 0 ? null : percentiles(gaps),
  };
}

function percentiles(values: readonly number[]): Percentiles {
  const sorted = values.toSorted((a, b) => a - b);
  return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95) };
}

/** Limits that a load breaks, each as the end of a sentence about it; empty: it keeps them. */
function broken(row: SweepRow, limits: Limits): readonly string[] {
  const above = (name: Latency) => {
    const limit = limits[name];
    if (limit === undefined) return [];
    const p95 = row[name]?.p95;
    if (p95 === undefined) return ["no answer had two tokens"];
    return p95 <= limit ? [] : [`the p95 of the ${LATENCIES[name]} is ${p95.toFixed(1)} ms, above ${limit}`];
  };
  const { failed, requests, failure } = row;
  return [
    ...(failed === 0
      ? []
      : [
          `${failed} of ${counted(failed + requests, "request")} failed${failure === undefined ? "" : ` (${failure})`}`,
        ]),
    ...above("ttftMs"),
    ...above("itlMs"),
  ];
}

/** The largest load that keeps the limits as all smaller ones do; undefined: the smallest breaks one. */
export function largestLoad(rows: readonly SweepRow[], limits: Limits): SweepRow | undefined {
  const first = rows.findIndex((row) => broken(row, limits).length > 0);
  return rows[(first === -1 ? rows.length : first) - 1];
}

/** Returns the result of the sweep in a sentence or two. */
export function sweepVerdict(rows: readonly SweepRow[], limits: Limits): string {
  const largest = largestLoad(rows, limits);
  const next = rows.find((row) => broken(row, limits).length > 0);
  const why =
    next === undefined
      ? "No larger load was measured."
      : `At a concurrency of ${next.concurrency}, ${broken(next, limits).join(", and ")}.`;
  if (largest === undefined) return `No load keeps the limits. ${why}`;
  const kept = (["ttftMs", "itlMs"] as const).flatMap((name) => {
    const limit = limits[name];
    return limit === undefined
      ? []
      : [`the p95 of the ${LATENCIES[name]} is ${(largest[name]?.p95 ?? 0).toFixed(1)} of ${limit} ms`];
  });
  return `The largest load that keeps the limits is a concurrency of ${largest.concurrency}, with ${largest.outputTokensPerSecond.toFixed(1)} output tokens a second: ${kept.join(", and ")}. ${why}`;
}

interface Sweep {
  readonly loads: readonly number[];
  /** Whether a load that breaks a limit ends it. */
  readonly endsAtLimit: boolean;
  readonly limits: Limits;
  /** Duration of each load. */
  readonly seconds: number;
  /** Sends one request. @param index - Differs for each. */
  ask(index: number): Promise<AnswerFigures>;
  /** Takes each load as it is measured. */
  onRow(row: SweepRow, rows: readonly SweepRow[]): void;
}

/** @throws UserError if the first request, which no load counts, fails. */
export async function sweep({
  loads,
  endsAtLimit,
  limits,
  seconds,
  ask,
  onRow,
}: Sweep): Promise<readonly SweepRow[]> {
  let index = 0;
  const requireText = async () => {
    const figures = await ask(index++);
    if (figures.firstTextSeconds === null) throw new UserError("The model ended its answer without any text");
    return figures;
  };
  await requireText();
  const rows: SweepRow[] = [];
  for (const concurrency of loads) {
    const answers: AnswerFigures[] = [];
    let failure: string | undefined;
    const cell = await measure(
      async () => {
        try {
          answers.push(await requireText());
        } catch (error) {
          failure = (error as Error).message;
          throw error;
        }
      },
      concurrency,
      seconds,
    );
    const row = sweepRow(cell, answers, failure);
    rows.push(row);
    onRow(row, rows);
    if (endsAtLimit && broken(row, limits).length > 0) break;
  }
  return rows;
}

interface Column {
  readonly name: string;
  /** Title in the table. */
  readonly title: string;
  value(row: SweepRow): number | null;
  /** Digits after the point. */
  readonly digits: number;
}

const COLUMNS: readonly Column[] = [
  { name: "concurrency", title: "concurrency", digits: 0, value: (row) => row.concurrency },
  { name: "requests", title: "requests", digits: 0, value: (row) => row.requests },
  { name: "failed", title: "failed", digits: 0, value: (row) => row.failed },
  { name: "requests_per_second", title: "req/s", digits: 2, value: (row) => row.requestsPerSecond },
  {
    name: "output_tokens_per_second",
    title: "tokens/s",
    digits: 1,
    value: (row) => row.outputTokensPerSecond,
  },
  { name: "prompt_tokens", title: "in", digits: 0, value: (row) => row.promptTokens },
  { name: "output_tokens", title: "out", digits: 0, value: (row) => row.outputTokens },
  { name: "ttft_p50_ms", title: "TTFT p50", digits: 1, value: (row) => row.ttftMs.p50 },
  { name: "ttft_p95_ms", title: "p95 ms", digits: 1, value: (row) => row.ttftMs.p95 },
  { name: "itl_p50_ms", title: "ITL p50", digits: 1, value: (row) => row.itlMs?.p50 ?? null },
  { name: "itl_p95_ms", title: "p95 ms", digits: 1, value: (row) => row.itlMs?.p95 ?? null },
];

/** A line of the table; undefined: that of the titles. */
export function sweepLine(row?: SweepRow): string {
  return COLUMNS.map(({ title, digits, value }) =>
    (row === undefined ? title : (value(row)?.toFixed(digits) ?? "")).padStart(Math.max(title.length, 8)),
  ).join(" ");
}

/** The rows with all digits, for spreadsheets. */
export function sweepCsv(rows: readonly SweepRow[]): string {
  const lines = [
    COLUMNS.map(({ name }) => name),
    ...rows.map((row) => COLUMNS.map(({ value }) => value(row) ?? "")),
  ];
  return lines.map((cells) => `${cells.join(",")}\n`).join("");
}
