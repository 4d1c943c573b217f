/** Checks of a stack file: their type, and how findings become problems. */
import type { GpuStackConfig, StackConfig } from "../../config/config.ts";
import { distinct, type Problem, pathParts, shownValue } from "../../problems.ts";
import type { MemoryFit } from "../fit/memory-fit.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";

/** A stack file of either tier. */
export interface CheckedFile<Config = StackConfig> {
  readonly config: Config;
  /** Its values without the defaults of the schema. */
  readonly written: Readonly<Record<string, unknown>>;
}

/** A stack file on GPUs, and its plan so far. */
export interface CheckedStack<Config = GpuStackConfig> extends CheckedFile<Config> {
  /** Names that could not be resolved are missing here; they are reported already. */
  readonly spec: GpuStackSpec;
  readonly fit: readonly MemoryFit[];
}

/** A problem whose value may still be looked up in the stack file. */
export interface Finding {
  /** Absent: a problem, which forbids to create anything. `note`: a warning that may need no action, shown after the others. */
  readonly severity?: "warning" | "note" | undefined;
  /** `models[0].tensorParallel` */
  readonly path: string;
  /** Absent: the value that the configuration has at the path. */
  readonly value?: string;
  readonly reason: string;
  readonly fix: string;
  /** `plan --full` lists all that the reason counts. */
  readonly isListedByFull?: true;
}

/** Result of a check; `false` without findings. */
export type Findings = Finding | false | readonly Findings[];

export type Check<Stack = CheckedStack> = (stack: Stack) => Findings;

/** Checks by their names, in the order in which their findings are shown. */
export type Checks<Stack = CheckedStack> = Readonly<Record<string, Check<Stack>>>;

/** Checks of another platform, of a stack file in that platform's form. */
export function checksAs<Config, Other>(
  form: (config: Config) => Other,
  checks: Checks<CheckedStack<Other>>,
): Checks<CheckedStack<Config>> {
  return Object.fromEntries(
    Object.entries(checks).map(([name, check]) => [
      name,
      (stack: CheckedStack<Config>) => check({ ...stack, config: form(stack.config) }),
    ]),
  );
}

/** A check of every model by itself. */
export function eachModel<Config = GpuStackConfig>(
  check: (model: ModelSpec, stack: CheckedStack<Config>) => Findings,
): Check<CheckedStack<Config>> {
  return (stack) => stack.spec.models.map((model) => check(model, stack));
}

/** A check of every pool by itself. */
export function eachPool(check: (pool: PoolSpec, stack: CheckedStack) => Findings): Check {
  return (stack) => stack.spec.pools.map((pool) => check(pool, stack));
}

export function flatFindings(findings: Findings): readonly Finding[] {
  if (findings === false) return [];
  return "path" in findings ? [findings] : findings.flatMap(flatFindings);
}

/** Findings as problems and warnings, with their values. */
export function asProblems(
  findings: readonly Finding[],
  config: unknown,
): { readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  const of = (severity: Finding["severity"]) =>
    distinct(findings.filter((finding) => finding.severity === severity)).map(
      ({ severity: _, path, value = shownValue(pathParts(path), config), ...rest }) => ({
        path,
        value,
        ...rest,
      }),
    );
  return { problems: of(undefined), warnings: [...of("warning"), ...of("note")] };
}
