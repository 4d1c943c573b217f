/** Preview of an unchanged stack against the same preview of a program that registers nothing. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { projectRoot, type StackReference } from "../program/stack-file.ts";
import { median } from "./load.ts";

interface PreviewResult {
  readonly pairs: number;
  readonly emptySeconds: number;
  readonly stackSeconds: number;
  /** Median over the pairs of stack divided by empty. */
  readonly medianRatio: number;
}

const PAIRS = 7;
const CHILD = [join(projectRoot, "loader/run.mjs"), "scripts/bench/preview-child.ts"];

/** @param stack - One that is up and unchanged, and whose state the try-out runner keeps. */
export function measurePreview(stack: StackReference): PreviewResult {
  const stackSeconds: number[] = [];
  const emptySeconds: number[] = [];
  for (let pair = 0; pair < PAIRS; pair++) {
    emptySeconds.push(seconds("empty", stack));
    stackSeconds.push(seconds("program", stack));
  }
  const ratios = stackSeconds.map((value, pair) => value / (emptySeconds[pair] ?? 1));
  return {
    pairs: PAIRS,
    emptySeconds: median(emptySeconds),
    stackSeconds: median(stackSeconds),
    medianRatio: median(ratios),
  };
}

function seconds(program: "empty" | "program", stack: StackReference): number {
  const started = performance.now();
  const run = spawnSync(process.execPath, [...CHILD, program, stack.name, stack.configFile], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (run.status !== 0) throw new Error(`The preview of ${stack.name} ended with exit code ${run.status}.`);
  return (performance.now() - started) / 1000;
}
