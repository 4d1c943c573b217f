/** What a change must not bring to a stack: for it `ci diff-policies` and `diff --fail-on mandatory` fail. */
import { clipped, code, counted, type Inline, joined } from "../markdown.ts";
import { goneProblems, problemText } from "./report.ts";
import type { StackDiff } from "./types.ts";
import { newMandatory } from "./violations.ts";

/** Texts of programs; a report has them in full. */
const LONGEST_REASON = 1_000;

/**
 * Each in a sentence, none where the change may be merged. A problem, a failure or a violation of the base is not the change's, and
 * a violation is not known to be the change's where the base could not be asked; a mandatory policy that nobody could check is
 * refused whatever the base does.
 */
export function refusals(diff: StackDiff): readonly Inline[] {
  const { base, head, uncheckedPolicies } = diff;
  const isNewFailure = !base.hasStack || (base.failure === null && base.problems.length === 0);
  const failure = clipped(head.failure ?? "", LONGEST_REASON);
  const unchecked = uncheckedPolicies.filter(({ level }) => level === "mandatory");
  return [
    ...goneProblems(head.problems, base.problems).map(
      (problem): Inline => ["The stack file has a new problem: ", ...problemText(problem)],
    ),
    ...(failure !== "" && isNewFailure
      ? [[`The stack can't be rendered${base.hasStack ? ", and the base can" : ""}: ${failure}`]]
      : []),
    ...(unchecked.length > 0
      ? [
          [
            `${counted(unchecked.length, "mandatory policy", "mandatory policies")} can't be checked, for the stack has no resources to look at: `,
            ...joined(
              unchecked.map(({ policy }): Inline => [code(policy)]),
              ", ",
            ),
            `.${isNewFailure ? "" : ` ${failure}`}`,
          ],
        ]
      : []),
    ...newMandatory(diff).map(
      ({ policy, resource, reason, fix }): Inline => [
        "The change breaks the mandatory policy ",
        code(policy),
        ...(resource === null ? [] : [" by ", code(resource)]),
        `: ${clipped(reason, LONGEST_REASON)} ${fix}`,
      ],
    ),
  ];
}
