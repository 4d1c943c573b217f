/** Stack files of tests, and what the plan makes of them. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import type { GpuStackSpec, PoolSpec } from "../../../infra/plan/spec.ts";
import { projectName, readStackFile, stackReference } from "../../../scripts/program/stack-file.ts";

/** Writes values of the project's configuration into a folder, as a stack file. @returns Its path. */
export function writtenStackFile(folder: string, values: Readonly<Record<string, unknown>>): string {
  const file = join(folder, "stack.yaml");
  const entries = Object.entries(values).map(([key, value]) => [`engine-room:${key}`, value]);
  writeFileSync(file, stringify({ config: Object.fromEntries(entries) }));
  return file;
}

/** A stack file, resolved; null for a stack without GPUs. @throws ConfigError with the problems of the file. */
export function gpuSpecOf(stackFile: string): GpuStackSpec | null {
  const { values } = readStackFile(stackReference("tests", stackFile));
  const { plan } = checkedPlan(fromRuntimeConfig(values, projectName()));
  return "spec" in plan ? plan.spec : null;
}

/** Pools of a stack file, resolved; none for a stack without GPUs. @throws ConfigError with the problems of the file. */
export function poolsOf(stackFile: string): readonly PoolSpec[] {
  return gpuSpecOf(stackFile)?.pools ?? [];
}
