/** A difference in the order in which a reviewer reads it, for every form alike. */
import type { ComparedTree, StackDiff } from "../types.ts";
import { dangerSections } from "./danger-section.ts";
import { clipped, code, counted, type Inline } from "./inline.ts";
import { machineSections } from "./machine-section.ts";
import {
  knownPolicySections,
  policySections,
  problemSections,
  secretSections,
  warningSections,
} from "./notice-sections.ts";
import { isEarlierUnknown, planSections } from "./plan-sections.ts";
import { resourceSections } from "./resource-sections.ts";
import type { StackReport } from "./section.ts";
import { verdict } from "./verdict.ts";

/** Names of stacks and branches are short; anything longer is no name. */
const LONGEST_NAME = 100;
/** Failures are texts of programs. */
const LONGEST_FAILURE = 400;
const COMMIT_DIGITS = 12;

export function stackReport(diff: StackDiff): StackReport {
  const resources = diff.resources ?? [];
  const stack = clipped(diff.stack, LONGEST_NAME);
  return {
    stack,
    verdict: verdict(diff),
    comparison: comparison(diff),
    notes: failures(diff),
    sections: [
      ...problemSections(diff),
      ...dangerSections(resources),
      ...machineSections(resources),
      ...(diff.plan === null ? [] : planSections(diff.plan, isEarlierUnknown(diff.base, diff.plan))),
      ...policySections(diff),
      ...warningSections(diff.plan),
      ...secretSections(diff.secrets),
      ...resourceSections(resources),
      // Nobody decides about the change by what it finds and leaves.
      ...knownPolicySections(diff),
    ],
    command: `npx engine-room diff --stack ${stack} --base ${clipped(diff.base.ref ?? "REF", LONGEST_NAME)} --format json`,
  };
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
  const [left, right] = [baseFailure(base), cutFailure(head)];
  if (left !== null && left === right) return [[`Both sides: ${left}`]];
  return [
    ...(left === null ? [] : [[`The base: ${left}`]]),
    ...(right === null ? [] : [[`The change: ${right}`]]),
  ];
}

/** Problems of the head are a section of their own; those of the base are gone with it, or are the head's too. */
function baseFailure(base: ComparedTree): string | null {
  const { length } = base.problems;
  return cutFailure(base) ?? (length === 0 ? null : `Its stack file has ${counted(length, "problem")}.`);
}

function cutFailure({ failure }: ComparedTree): string | null {
  return failure === null ? null : clipped(failure, LONGEST_FAILURE);
}
