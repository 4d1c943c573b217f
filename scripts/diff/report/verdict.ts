/** What a change does to a stack, in one line. */

import { NO_PRICE } from "../../plan/amounts.ts";
import type { PlanDifferences } from "../plan-differences.ts";
import type { ChangeKind, SecretChange, StackDiff } from "../types.ts";
import { counted, type Inline, joined, strong } from "./inline.ts";
import { KIND_WORDS } from "./kind-words.ts";
import { SECRET_WORDS } from "./notice-sections.ts";
import { amounts, isEarlierUnknown } from "./plan-sections.ts";

export function verdict(diff: StackDiff): Inline {
  const parts = [
    ...problemParts(diff),
    ...resourceParts(diff),
    ...planParts(diff),
    ...secretParts(diff),
    ...policyParts(diff),
  ];
  return joined(parts, "; ");
}

/** Whether merging leaves the stack exactly as it is, as far as both sides could be read. */
export function isUnchanged(diff: StackDiff): boolean {
  const { base, head, resources, plan, secrets, violations } = diff;
  const isSame =
    resources === null
      ? isPlannedAlone(diff)
      : resources.length === 0 && base.failure === null && head.failure === null;
  return (
    isSame &&
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
  return [
    ...[engines.added, engines.removed, engines.rebuilt, fit, cost, newBuilds, coldStarts],
    ...[warnings.appeared, warnings.gone, problems.appeared, problems.gone],
  ].every((list) => list.length === 0);
}

function problemParts({ head, plan }: StackDiff): readonly Inline[] {
  const count = Math.max(head.problems.length, plan?.problems.appeared.length ?? 0);
  return count === 0
    ? []
    : [[strong(`can't be deployed, for ${counted(count, "problem")} of the stack file`)]];
}

function resourceParts(diff: StackDiff): readonly Inline[] {
  const { head, resources, unchanged } = diff;
  if (resources === null && isUnchanged(diff))
    return [[strong("nothing in the plan changes"), "; its resources can't be rendered"]];
  // Problems of the head say it already, and a report's notes say why.
  if (resources === null) return head.problems.length > 0 ? [] : [[strong("resources can't be compared")]];
  if (isUnchanged(diff))
    return [
      [
        strong("nothing changes"),
        `: ${counted(unchanged, "resource stays as it is", "resources stay as they are")}`,
      ],
    ];
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

function secretParts({ secrets }: StackDiff): readonly Inline[] {
  return (Object.keys(SECRET_WORDS) as SecretChange["kind"][]).flatMap((kind) => {
    const count = secrets.filter((secret) => secret.kind === kind).length;
    return count === 0 ? [] : [[`${counted(count, "secret")} ${SECRET_WORDS[kind]}`]];
  });
}

function policyParts({ violations, uncheckedPolicies }: StackDiff): readonly Inline[] {
  const count = (state: boolean | null) => violations.filter(({ isNew }) => isNew === state).length;
  const [fresh, unknown, known] = [count(true), count(null), count(false)];
  const broken = (number: number) => `${counted(number, "policy", "policies")} broken`;
  return [
    ...(fresh === 0 ? [] : [[strong(broken(fresh))]]),
    ...(unknown === 0 ? [] : [[`${broken(unknown)}, perhaps before too`]]),
    ...(known === 0 ? [] : [[`${broken(known)} before and after`]]),
    ...(uncheckedPolicies.length === 0
      ? []
      : [[`${counted(uncheckedPolicies.length, "policy", "policies")} not checked`]]),
  ];
}
