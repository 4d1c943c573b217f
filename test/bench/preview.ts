/** Preview of an unchanged stack against the same preview of a program that registers nothing. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { median } from "../../scripts/bench/load.ts";
import { projectRoot, type StackReference } from "../../scripts/program/stack-file.ts";
import { tell } from "../harness/progress.ts";

interface PreviewResult {
  readonly pairs: number;
  readonly emptySeconds: number;
  readonly stackSeconds: number;
  /** Median over the pairs of stack divided by empty. */
  readonly medianRatio: number;
}

const PAIRS = 7;
const CHILD = [join(projectRoot, "loader/run.mjs"), "test/bench/preview-child.ts"];

/** @param stack - One that is up and unchanged, and whose state the try-out runner keeps. */
export function measurePreview(stack: StackReference): PreviewResult {
  const stackSeconds: number[] = [];
  const emptySeconds: number[] = [];
  for (let pair = 0; pair < PAIRS; pair++) {
    emptySeconds.push(seconds("empty", stack));
    stackSeconds.push(seconds("program", stack));
    tell(`stack ${stackSeconds.at(-1)?.toFixed(2)} s, empty program ${emptySeconds.at(-1)?.toFixed(2)} s`);
  }
  const ratios = stackSeconds.map((value, pair) => value / (emptySeconds[pair] ?? 1));
  return {
    pairs: PAIRS,
    emptySeconds: median(emptySeconds),
    stackSeconds: median(stackSeconds),
    medianRatio: median(ratios),
  };
}

/** One line for people. */
export function previewText({ pairs, stackSeconds, emptySeconds, medianRatio }: PreviewResult): string {
  return `preview of the unchanged stack against an empty program, ${pairs} pairs: ${stackSeconds.toFixed(2)} against ${emptySeconds.toFixed(2)} s, median ratio ${medianRatio.toFixed(2)}`;
}

function seconds(program: "empty" | "program", stack: StackReference): number {
  const started = performance.now();
  const run = spawnSync(process.execPath, [...CHILD, program, stack.name, stack.configFile], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (run.status !== 0) throw new Error(`The preview of ${stack.name} ended with exit code ${run.status}.`);
  return (performance.now() - started) / 1000;
}
