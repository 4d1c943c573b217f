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

/**
 * As {@link unanswered} for questions that are asked of many things: one finding for all that got the same words.
 *
 * @param answers - By what was asked about. @param so - What can't be said of these.
 */
export function unansweredOf(
  check: string,
  answers: ReadonlyMap<string, Answer<unknown> | undefined>,
  so: (names: string) => string,
): readonly Finding[] {
  const wordsOf = (answer: Answer<unknown>) =>
    "words" in answer ? `${answer.kind} ${answer.action} ${answer.words}` : answer.kind;
  const groups = new Map<string, { readonly answer: Answer<unknown>; readonly names: string[] }>();
  for (const [name, answer] of answers) {
    if (answer === undefined || answer.kind === "answer") continue;
    const group = groups.get(wordsOf(answer));
    if (group === undefined) groups.set(wordsOf(answer), { answer, names: [name] });
    else group.names.push(name);
  }
  return [...groups.values()].flatMap(({ answer, names }) => unanswered(check, answer, so(names.join(", "))));
}

function sentence(so: string): string {
  return `${so[0]?.toUpperCase() ?? ""}${so.slice(1)}.`;
}
