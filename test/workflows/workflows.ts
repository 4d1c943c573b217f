/** The workflows and local actions of the repository, parsed. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { projectRoot } from "../../scripts/program/stack-file.ts";

export interface Step {
  readonly if?: string;
  readonly uses?: string;
  readonly run?: string;
  readonly shell?: string;
  readonly with?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, unknown>>;
}

export interface Job {
  readonly permissions?: unknown;
  readonly "timeout-minutes"?: number;
  readonly environment?: unknown;
  readonly concurrency?: unknown;
  readonly env?: Readonly<Record<string, unknown>>;
  readonly if?: string;
  readonly needs?: string | readonly string[];
  readonly strategy?: { readonly matrix: Readonly<Record<string, unknown>> };
  readonly steps: readonly Step[];
}

export interface Workflow {
  /** `.github/workflows/ci.yml` */
  readonly file: string;
  readonly text: string;
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions?: unknown;
  readonly concurrency?: unknown;
  readonly jobs: Readonly<Record<string, Job>>;
}

/** @param text - Content of the file. */
export function parseWorkflow(file: string, text: string): Workflow {
  const parsed = parse(text) as Omit<Workflow, "file" | "text">;
  return { ...parsed, file, text };
}

export const WORKFLOWS: readonly Workflow[] = names(".github/workflows").map((name) => {
  const file = `.github/workflows/${name}`;
  return parseWorkflow(file, readFileSync(join(projectRoot, file), "utf8"));
});

/** Local actions as workflows of one job, for the rules that are about steps. */
export const ACTIONS: readonly Workflow[] = names(".github/actions").map((name) => {
  const file = `.github/actions/${name}/action.yml`;
  const text = readFileSync(join(projectRoot, file), "utf8");
  const { runs } = parse(text) as { readonly runs: { readonly steps: readonly Step[] } };
  return { file, text, on: {}, jobs: { action: { steps: runs.steps } } };
});

function names(folder: string): string[] {
  return readdirSync(join(projectRoot, folder)).toSorted();
}

/** Each step with its job, in order. */
export function stepsOf(workflow: Workflow): (readonly [Job, Step])[] {
  return Object.values(workflow.jobs).flatMap((job) => job.steps.map((step) => [job, step] as const));
}
