/** What people have to know or mend: rules that are broken, problems, advisories, secrets. */
import type { Problem } from "../../../infra/problems.ts";
import type { ComparedTree, PolicyViolation, SecretChange, StackDiff } from "../types.ts";
import { code, type Inline, joined, strong } from "./inline.ts";
import { listSection, type Section } from "./section.ts";

/** What a change breaks, or may; of these the ones that forbid a deployment first. */
export function policySections({
  violations,
  uncheckedPolicies,
}: Pick<StackDiff, "violations" | "uncheckedPolicies">): readonly Section[] {
  const items = (state: PolicyViolation["isNew"]) =>
    mandatoryFirst(violations.filter(({ isNew }) => isNew === state)).map((violation, index, sorted) =>
      violationItem(violation, sorted[index + 1]),
    );
  return [
    ...listSection("Policies that this change breaks", items(true), { folded: "never" }),
    ...listSection("Policies that are broken; the base could not be asked", items(null), { folded: "long" }),
    ...listSection(
      "Policies that were not checked, for there are no resources to look at",
      unchecked(uncheckedPolicies),
    ),
  ];
}

/** What a change leaves as it found it: how often each rule is broken, and by which resources. */
export function knownPolicySections({ violations }: Pick<StackDiff, "violations">): readonly Section[] {
  const known = mandatoryFirst(violations.filter(({ isNew }) => isNew === false));
  const items = known
    .map((violation) => known.filter((other) => isOfSameRule(violation, other)))
    .filter(([first], index) => first === known[index])
    .map(ruleItem);
  return listSection("Policies that the base breaks too", items, { folded: "always" });
}

function isOfSameRule(a: PolicyViolation, b: PolicyViolation): boolean {
  return a.policy === b.policy && a.level === b.level;
}

function mandatoryFirst(violations: readonly PolicyViolation[]): readonly PolicyViolation[] {
  return violations.toSorted((a, b) => Number(a.level === "advisory") - Number(b.level === "advisory"));
}

/** Names that a reviewer knows a rule's violations by; more would hide the next rule. */
const MOST_NAMED_RESOURCES = 3;

/** @param violations - Of one rule and level. */
function ruleItem(violations: readonly PolicyViolation[]): Inline {
  const [first] = violations;
  if (first === undefined) return [];
  const resources = [...new Set(violations.flatMap(({ resource }) => resource ?? []))];
  const more = resources.length - MOST_NAMED_RESOURCES;
  const names = [
    ...resources.slice(0, MOST_NAMED_RESOURCES).map((resource): Inline => [code(resource)]),
    ...(more > 0 ? [[`${more} more`]] : []),
  ];
  const { length } = violations;
  return [
    ...ruleName(first),
    length === 1 ? " once" : ` ${length} times`,
    ...(names.length === 0 ? [] : [": ", ...joined(names, ", ")]),
  ];
}

function unchecked(policies: readonly string[]): readonly Inline[] {
  return policies.map((name) => [code(name)]);
}

/** @param next - What follows in the list: where it is mended in the same way, it says so, or the one after it does. */
function violationItem(violation: PolicyViolation, next: PolicyViolation | undefined): Inline {
  const { policy, resource, reason, fix } = violation;
  const where: Inline = resource === null ? [] : [" by ", code(resource)];
  const words = next?.policy === policy && next.fix === fix ? reason : `${reason} ${fix}`;
  return [...ruleName(violation), ...where, `: ${words}`];
}

function ruleName({ level, policy }: PolicyViolation): Inline {
  return [level === "mandatory" ? strong(level) : level, " ", code(policy)];
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
