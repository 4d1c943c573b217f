/** From the values of a stack file to its plan, or to every problem of it at once. */
import { type GpuStackConfig, readStack, type StackConfig } from "./config/config.ts";
import type { Remainder } from "./config/remainder.ts";
import { findAll } from "./plan/checks/find-problems.ts";
import type { Finding } from "./plan/checks/finding.ts";
import { restsOnAny } from "./plan/checks/rests-on.ts";
import { memoryFit } from "./plan/fit/memory-fit.ts";
import { resolveWithFindings } from "./plan/resolve-stack.ts";
import { type PlanResult, planStack, type StackPlan } from "./plan/stack-plan.ts";
import { ConfigError, formatPath, type Problem } from "./problems.ts";

interface CheckedPlan extends PlanResult {
  readonly plan: StackPlan;
  /** What was planned. */
  readonly config: StackConfig;
}

/**
 * Parses and plans.
 *
 * @param values - Keys without the project's prefix; objects and arrays as such, not as JSON text.
 * @throws ConfigError with every problem at once: path, value, reason, fix. Where the schema refuses a part, the rest is
 * planned all the same, and what is found in it comes after the schema's problems.
 */
export function checkedPlan(values: Readonly<Record<string, unknown>>): CheckedPlan {
  const read = readStack(values);
  if (read.config === null) {
    const further = read.remainder === null ? [] : remainingProblems(read.remainder);
    throw new ConfigError(distinct([...read.problems, ...further]));
  }
  const result = planStack(read.config);
  const { plan, problems } = result;
  if (plan === null || problems.length > 0) throw new ConfigError(distinct(problems));
  return { ...result, plan, config: read.config };
}

/** Problems of what remains, without those that rest on what was taken out. */
function remainingProblems({ config, dropped, restorePaths }: Remainder<GpuStackConfig>): Problem[] {
  const { spec, findings } = resolveWithFindings(config);
  const gone = dropped.map(formatPath);
  return [...findings, ...findAll({ config, spec, fit: memoryFit(spec) })]
    .map((found): Finding => ({ ...found, problem: withPaths(found.problem, restorePaths) }))
    .filter((found) => found.severity === "problem" && !restsOnAny(found, gone))
    .map(({ problem }) => problem);
}

function withPaths({ path, value, reason, fix }: Problem, restore: (text: string) => string): Problem {
  return { path: restore(path), value, reason: restore(reason), fix: restore(fix) };
}

/** A mistake may be found twice, as by a schema and by a check of the same key. */
function distinct(problems: readonly Problem[]): Problem[] {
  const seen = new Set<string>();
  return problems.filter(({ path, reason }) => {
    const text = `${path}\n${reason}`;
    return !seen.has(text) && seen.add(text);
  });
}
