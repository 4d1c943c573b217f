/** What people have to know or mend: rules that are broken, problems, advisories, secrets. */
import type { Problem } from "../../../infra/problems.ts";
import type { ComparedTree, PolicyViolation, SecretChange, StackDiff } from "../types.ts";
import { code, type Inline, strong } from "./inline.ts";
import { listSection, type Section } from "./section.ts";

/** New violations first, and of these the ones that forbid a deployment. */
export function policySections({
  violations,
  uncheckedPolicies,
}: Pick<StackDiff, "violations" | "uncheckedPolicies">): readonly Section[] {
  const items = (state: PolicyViolation["isNew"]) =>
    violations
      .filter(({ isNew }) => isNew === state)
      .toSorted((a, b) => Number(a.level === "advisory") - Number(b.level === "advisory"))
      .map((violation, index, sorted) => violationItem(violation, sorted[index + 1]));
  return [
    ...listSection("Policies that this change breaks", items(true), { folded: "never" }),
    ...listSection("Policies that are broken; the base could not be asked", items(null), { folded: "long" }),
    ...listSection("Policies that the base breaks too", items(false), { folded: "always" }),
    ...listSection(
      "Policies that were not checked, for there are no resources to look at",
      unchecked(uncheckedPolicies),
    ),
  ];
}

function unchecked(policies: readonly string[]): readonly Inline[] {
  return policies.map((name) => [code(name)]);
}

/** @param next - What follows in the list: where it is mended in the same way, it says so, or the one after it does. */
function violationItem(
  { policy, level, resource, reason, fix }: PolicyViolation,
  next: PolicyViolation | undefined,
): Inline {
  const where: Inline = resource === null ? [] : [" by ", code(resource)];
  const words = next?.policy === policy && next.fix === fix ? reason : `${reason} ${fix}`;
  return [level === "mandatory" ? strong(level) : level, " ", code(policy), ...where, `: ${words}`];
}

/** Problems of the head forbid a deployment; those of the base that it does not have are gone. */
export function problemSections({ base, head, plan }: StackDiff): readonly Section[] {
  const own = unique([...head.problems, ...(plan?.problems.appeared ?? [])]);
  const gone = unique([...base.problems, ...(plan?.problems.gone ?? [])]).filter(
    (problem) => !own.some((other) => isSame(problem, other)),
  );
  return [
    ...listSection("Problems of the stack file", own.map(problemItem), { folded: "never" }),
    ...listSection("Problems that are gone", gone.map(problemItem)),
  ];
}

/** Advisories, ends of life and other warnings. */
export function warningSections(plan: StackDiff["plan"]): readonly Section[] {
  if (plan === null) return [];
  return [
    ...listSection("New warnings", plan.warnings.appeared.map(problemItem)),
    ...listSection("Warnings that are gone", plan.warnings.gone.map(problemItem)),
  ];
}

/** Each kind as people say it of a secret. */
export const SECRET_WORDS: Readonly<Record<SecretChange["kind"], string>> = {
  add: "new",
  update: "changed",
  delete: "gone",
};

/** Paths only. */
export function secretSections(secrets: readonly SecretChange[]): readonly Section[] {
  return listSection(
    "Secrets",
    secrets.map(({ path, kind }) => [code(path), `: ${SECRET_WORDS[kind]}`]),
  );
}

function problemItem({ path, value, reason, fix }: Problem): Inline {
  const found: Inline = value === "" ? [code(path)] : [code(path), " = ", code(value)];
  return [...found, `: ${[reason, fix].filter((sentence) => sentence !== "").join(" ")}`];
}

function unique(problems: ComparedTree["problems"]): readonly Problem[] {
  return problems.filter((problem, index) => problems.findIndex((other) => isSame(problem, other)) === index);
}

function isSame(a: Problem, b: Problem): boolean {
  return a.path === b.path && a.value === b.value && a.reason === b.reason && a.fix === b.fix;
}
