/** What findings say of questions that AWS did not answer. Pure. */
import type { Answer } from "../aws/session.ts";
import { type Finding, warning } from "./finding.ts";

/**
 * Nothing where there was an answer, or a plain "no such thing", which is the caller's to judge.
 *
 * @param so - What can't be said for want of it: `nobody knows …`.
 */
export function unanswered(
  check: string,
  answer: Answer<unknown> | undefined,
  so: string,
): readonly Finding[] {
  if (answer === undefined || answer.kind === "answer") return [];
  if (answer.kind === "absent")
    return [
      warning(check, "AWS knows nothing of what it was asked.", sentence(so), "Look at it in the console."),
    ];
  const { action, words } = answer;
  if (answer.kind === "denied")
    return [
      warning(
        check,
        `Your credentials may not ask ${action}.`,
        `AWS answers ${words.replace(/\.$/, "")}; so ${so}.`,
        `Allow ${action}, which only reads, or have somebody run preflight who may.`,
      ),
    ];
  return [
    warning(
      check,
      `${action} gives no answer.`,
      `${words.replace(/\.$/, "")}; so ${so}.`,
      "Try again; AWS_ENDPOINT_URL, proxies and the region decide who is asked.",
    ),
  ];
}

function sentence(so: string): string {
  return `${so[0]?.toUpperCase() ?? ""}${so.slice(1)}.`;
}
