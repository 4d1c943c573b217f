/** What the repository is told while stacks whose time is over could not be ended. */
import { UserError } from "../errors.ts";
import type { GitHub } from "./github.ts";
import { keepIssue } from "./issue.ts";

/** Results that say something; what was cancelled or skipped has a later run, which does. */
const RESULTS = ["success", "failure"] as const;

/**
 * @param result - Of the job that called `npx engine-room expire`.
 * @param runUrl - Of its run, whose log says which stacks, and why.
 * @returns What was done.
 */
export function reportExpired(
  github: GitHub,
  { result, runUrl }: { readonly result: string; readonly runUrl: string },
): ReturnType<typeof keepIssue> {
  if (!(RESULTS as readonly string[]).includes(result))
    throw new UserError(`The job's result is ${RESULTS.join(" or ")}, not ${JSON.stringify(result)}.`);
  return keepIssue(github, {
    label: "expire",
    title: "A stack whose time is over was not ended",
    report: result === "success" ? null : failureReport(runUrl),
  });
}

function failureReport(runUrl: string): string {
  return [
    `\`npx engine-room expire --down\` could not end every stack that has had its time, or could not tell: [the run](${runUrl}) says which, and why.`,
    "They cost money until they are gone. `npx engine-room expire` lists them with the cost of an hour; the next run that ends them all closes this issue.",
    "",
  ].join("\n");
}
