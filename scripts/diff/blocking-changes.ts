/** Reasons for which `ci diff-policies` and `diff --fail-on mandatory` fail. */
import { counted } from "../../infra/problems.ts";
import { clipped, code, type Inline, joined } from "../markdown.ts";
import { goneProblems, problemText } from "./report.ts";
import type { PolicyViolation, StackDiff } from "./types.ts";
import { newMandatory, perhapsNewMandatory } from "./violations.ts";

/** Errors of programs; a report has them in full. */
const LONGEST_REASON = 1_000;

/**
 * One sentence each; empty if the change may be merged. A problem, a failure or a violation of the base is not the
 * change's. A violation is also refused if the base has the stack and could not be asked, and so is a mandatory
 * policy that could not be checked, whatever the base does.
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
    ...newMandatory(diff).map((violation): Inline => ["The change breaks ", ...brokenText(violation)]),
    ...perhapsNewMandatory(diff).map(
      (violation): Inline => [
        "The stack breaks ",
        ...brokenText(violation),
        " The base could not be rendered, so whether it breaks the policy too is unknown: run the check again, or fix the violation.",
      ],
    ),
  ];
}

function brokenText({ policy, resource, reason, fix }: PolicyViolation): Inline {
  return [
    "the mandatory policy ",
    code(policy),
    ...(resource === null ? [] : [" by ", code(resource)]),
    `: ${clipped(reason, LONGEST_REASON)} ${fix}`,
  ];
}
