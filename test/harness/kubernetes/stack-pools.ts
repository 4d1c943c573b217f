import { checkedPlan } from "../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import type { PoolSpec } from "../../../infra/plan/spec.ts";
import { projectName, readStackFile, stackReference } from "../../../scripts/program/stack-file.ts";

/** Pools of a stack file, resolved; none for a stack without GPUs. @throws ConfigError with the problems of the file. */
export function poolsOf(stackFile: string): readonly PoolSpec[] {
  const { values } = readStackFile(stackReference("tests", stackFile));
  const { plan } = checkedPlan(fromRuntimeConfig(values, projectName()));
  return "spec" in plan ? plan.spec.pools : [];
}
