/** A difference in the order in which a reviewer reads it, for every form alike. */
import type { Problem } from "../../../infra/problems.ts";
import { clipped, code, counted, type Inline, joined, strong } from "../../markdown.ts";
import { NO_PRICE } from "../../plan/amounts.ts";
import type {
  ChangeKind,
  ComparedTree,
  PlanDifferences,
  PolicyViolation,
  SecretChange,
  StackDiff,
} from "../types.ts";
import { amounts, isEarlierUnknown, planSections } from "./plan-sections.ts";
import { dangerSection, KIND_WORDS, machineSection, resourceSections } from "./resource-sections.ts";
import { grouped, list, type Section, type StackReport } from "./section.ts";

/** Names of stacks and branches are short; anything longer is no name. */
const LONGEST_NAME = 100;
/** Failures are texts of programs. */
const LONGEST_FAILURE = 400;
const COMMIT_DIGITS = 12;
/** Names that a reviewer knows a rule's violations by; more would hide the next rule. */
const MOST_NAMED_RESOURCES = 3;

const SECRET_WORDS: Readonly<Record<SecretChange["kind"], string>> = {
  add: "new",
  update: "changed",
  delete: "gone",
};

export function stackReport(diff: StackDiff): StackReport {
  const stack = clipped(diff.stack, LONGEST_NAME);
  const base = clipped(diff.base.ref ?? "REF", LONGEST_NAME);
  return {
    stack,
    verdict: joined(verdictParts(diff), "; "),
    isUnchanged: isUnchanged(diff),
    comparison: comparison(diff),
    notes: failures(diff),
    sections: sections(diff).filter(({ entries }) => entries.length > 0),
    command: `npx engine-room diff --stack ${stack} --base ${base} --format json`,
  };
}

function sections(diff: StackDiff): readonly Section[] {
  const { base, plan, secrets, violations, uncheckedPolicies } = diff;
  const resources = diff.resources ?? [];
  const own = unique([...diff.head.problems, ...(plan?.problems.appeared ?? [])]);
  const gone = unique([...base.problems, ...(plan?.problems.gone ?? [])]).filter(
    (problem) => !own.some((other) => isSame(problem, other)),
  );
  // Those that forbid a deployment first.
  const sorted = violations.toSorted(
    (a, b) => Number(a.level === "advisory") - Number(b.level === "advisory"),
  );
  const broken = (state: PolicyViolation["isNew"]) => sorted.filter(({ isNew }) => isNew === state);
  const never = { folded: "never" } as const;
  return [
    list("Problems of the stack file", own.map(problemItem), never),
    list("Problems that are gone", gone.map(problemItem)),
    dangerSection(resources),
    machineSection(resources),
    ...(plan === null ? [] : planSections(plan, isEarlierUnknown(base, plan))),
    list("Policies that this change breaks", violationItems(broken(true)), never),
    list("Policies that are broken; the base could not be asked", violationItems(broken(null))),
    list(
      "Policies that were not checked, for there are no resources to look at",
      uncheckedPolicies.map((policy) => [code(policy)]),
    ),
    list("New warnings", (plan?.warnings.appeared ?? []).map(problemItem)),
    list("Warnings that are gone", (plan?.warnings.gone ?? []).map(problemItem)),
    list(
      "Secrets",
      secrets.map(({ path, kind }) => [code(path), `: ${SECRET_WORDS[kind]}`]),
    ),
    ...resourceSections(resources),
    // Last, for they say nothing of the change.
    list("Policies that the base breaks too", ruleItems(broken(false)), { folded: "always" }),
  ];
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

/** Neighbours that are mended in the same way say so once, behind the last of them. */
function violationItems(violations: readonly PolicyViolation[]): readonly Inline[] {
  return violations.map((violation, index) => {
    const { policy, resource, reason, fix } = violation;
    const next = violations[index + 1];
    const where: Inline = resource === null ? [] : [" by ", code(resource)];
    const words = next?.policy === policy && next.fix === fix ? reason : `${reason} ${fix}`;
    return [...ruleName(violation), ...where, `: ${words}`];
  });
}

/** How often each rule is broken, and by which resources. */
function ruleItems(violations: readonly PolicyViolation[]): readonly Inline[] {
  return grouped(violations, ({ level, policy }) => `${level} ${policy}`).map((all) => {
    const [first] = all;
    const resources = [...new Set(all.flatMap(({ resource }) => resource ?? []))];
    const more = resources.length - MOST_NAMED_RESOURCES;
    const names = [
      ...resources.slice(0, MOST_NAMED_RESOURCES).map((resource): Inline => [code(resource)]),
      ...(more > 0 ? [[`${more} more`]] : []),
    ];
    return [
      ...(first === undefined ? [] : ruleName(first)),
      all.length === 1 ? " once" : ` ${all.length} times`,
      ...(names.length === 0 ? [] : [": ", ...joined(names, ", ")]),
    ];
  });
}

function ruleName({ level, policy }: PolicyViolation): Inline {
  return [level === "mandatory" ? strong(level) : level, " ", code(policy)];
}

function comparison({ base, source }: StackDiff): Inline {
  const commit: Inline = base.commit === null ? [] : [" at ", code(base.commit.slice(0, COMMIT_DIGITS))];
  const ref = base.ref === null ? "the base" : code(clipped(base.ref, LONGEST_NAME));
  const how =
    source === "rendered"
      ? "; both trees' own programs say so, and no cloud was asked."
      : "; resources as `pulumi preview` found them against the stack's state.";
  return ["Compared with ", ref, ...commit, how];
}

function failures({ base, head }: StackDiff): readonly Inline[] {
  const cut = ({ failure }: ComparedTree) => (failure === null ? null : clipped(failure, LONGEST_FAILURE));
  // Problems of the head are a section of their own.
  const ofFile =
    base.problems.length === 0 ? null : `Its stack file has ${counted(base.problems.length, "problem")}.`;
  const [left, right] = [cut(base) ?? ofFile, cut(head)];
  if (left !== null && left === right) return [[`Both sides: ${left}`]];
  return [
    ...(left === null ? [] : [[`The base: ${left}`]]),
    ...(right === null ? [] : [[`The change: ${right}`]]),
  ];
}

function isUnchanged(diff: StackDiff): boolean {
  const { base, head, resources, plan, secrets, violations } = diff;
  const isSameGraph =
    resources === null
      ? isPlannedAlone(diff)
      : resources.length === 0 && base.failure === null && head.failure === null;
  return (
    isSameGraph &&
    (plan === null || isEmptyPlan(plan)) &&
    secrets.length === 0 &&
    !violations.some(({ isNew }) => isNew) &&
    [base, head].every(({ problems }) => problems.length === 0)
  );
}

/** Whether both sides have a plan and, for the same reason, no resources. */
function isPlannedAlone({ base, head, plan }: StackDiff): boolean {
  const hasBoth = plan !== null && !isEarlierUnknown(base, plan);
  return hasBoth && base.failure !== null && base.failure === head.failure;
}

function isEmptyPlan({
  engines,
  fit,
  cost,
  newBuilds,
  coldStarts,
  warnings,
  problems,
}: PlanDifferences): boolean {
  const { added, removed, rebuilt } = engines;
  const differences = [added, removed, rebuilt, fit, cost, newBuilds, coldStarts];
  return [...differences, warnings.appeared, warnings.gone, problems.appeared, problems.gone].every(
    (found) => found.length === 0,
  );
}

/** Of one line: problems, resources, engines, money, secrets and policies, each where there is something to say. */
function verdictParts(diff: StackDiff): readonly Inline[] {
  const { head, plan, secrets, violations, uncheckedPolicies } = diff;
  const problems = Math.max(head.problems.length, plan?.problems.appeared.length ?? 0);
  const broken = (state: PolicyViolation["isNew"]) =>
    violations.filter(({ isNew }) => isNew === state).length;
  const policies = (count: number, words: string) => `${counted(count, "policy", "policies")} ${words}`;
  const [fresh, unknown, known] = [broken(true), broken(null), broken(false)];
  return [
    ...(problems === 0
      ? []
      : [[strong(`can't be deployed, for ${counted(problems, "problem")} of the stack file`)]]),
    ...resourceParts(diff),
    ...planParts(diff),
    ...(Object.keys(SECRET_WORDS) as SecretChange["kind"][]).flatMap((kind) => {
      const count = secrets.filter((secret) => secret.kind === kind).length;
      return count === 0 ? [] : [[`${counted(count, "secret")} ${SECRET_WORDS[kind]}`]];
    }),
    ...(fresh === 0 ? [] : [[strong(policies(fresh, "broken"))]]),
    ...(unknown === 0 ? [] : [[policies(unknown, "broken, perhaps before too")]]),
    ...(known === 0 ? [] : [[policies(known, "broken before and after")]]),
    ...(uncheckedPolicies.length === 0 ? [] : [[policies(uncheckedPolicies.length, "not checked")]]),
  ];
}

function resourceParts(diff: StackDiff): readonly Inline[] {
  const { head, resources, unchanged } = diff;
  if (resources === null && isUnchanged(diff))
    return [[strong("nothing in the plan changes"), "; its resources can't be rendered"]];
  // Problems of the head say it already, and a report's notes say why.
  if (resources === null) return head.problems.length > 0 ? [] : [[strong("resources can't be compared")]];
  if (isUnchanged(diff))
    return [[strong("nothing changes"), `: ${counted(unchanged, "resource")} unchanged`]];
  if (resources.length === 0) return [[strong("no resource changes")]];
  const kinds = (["create", "update", "replace", "may-replace", "delete"] satisfies ChangeKind[]).flatMap(
    (kind) => {
      const count = resources.filter((change) => change.kind === kind).length;
      return count === 0 ? [] : [`${count} ${KIND_WORDS[kind]}`];
    },
  );
  return [[strong(counted(resources.length, "resource")), `: ${kinds.join(", ")}`]];
}

function planParts({ base, plan }: StackDiff): readonly Inline[] {
  if (plan === null) return [];
  const { engines, fit, cost } = plan;
  const month = cost.find(({ what }) => what === "monthlyUsd");
  const [before, after] = month === undefined ? [null, null] : amounts(month);
  const overfull = fit.filter((change) => change.after?.verdict === "doesNotFit").length;
  const none = isEarlierUnknown(base, plan) ? "unknown" : "nothing";
  return [
    ...(engines.rebuilt.length === 0 ? [] : [[`${counted(engines.rebuilt.length, "engine")} rebuilt`]]),
    ...(overfull === 0 ? [] : [[strong(`${counted(overfull, "GPU")} too small`)]]),
    ...(after === null ? [] : [[`${before ?? none} → ${after}${after === NO_PRICE ? "" : " a month"}`]]),
  ];
}
