/** What jobs write into GitHub's threads: one comment of a pull request, or one open issue, each kept up to date. */
import { z } from "zod";
import { UserError } from "../errors.ts";
import type { GitHub } from "./github.ts";

/** GitHub refuses longer texts; in UTF-16 code units, which are never fewer than its characters. */
export const MAX_COMMENT_CHARACTERS = 65_536;

/** Longer than any report that a person reads to its end. */
const MAX_ISSUE_CHARACTERS = 60_000;

/** Whoever comments with a job's own token. Anybody else could begin a comment with a marker. */
const AUTHOR = "github-actions[bot]";

const user = z.object({ login: z.string() }).nullish();
const commentSchema = z.object({ id: z.number().int(), body: z.string().nullish(), user });
const issueSchema = z.object({
  number: z.number().int(),
  title: z.string(),
  body: z.string().nullish(),
  user,
  pull_request: z.unknown().optional(),
});

interface Comment {
  /** By which it is found again, in its first line, of which Markdown shows nothing. */
  readonly subject: "preview" | "preview-stack";
  readonly text: string;
}

/**
 * @param issue - Number of an issue or pull request.
 * @returns What was done.
 * @throws UserError where the text is too long.
 */
export async function upsertComment(
  github: GitHub,
  issue: number,
  { subject, text }: Comment,
): Promise<"created" | "updated" | "unchanged"> {
  const marker = `<!-- engine-room: ${subject} -->\n`;
  const body = `${marker}${text}`;
  if (body.length > MAX_COMMENT_CHARACTERS)
    throw new UserError(
      `A comment has at most ${MAX_COMMENT_CHARACTERS} characters, and this one ${body.length}.`,
    );
  const comments = await github.list(`/issues/${issue}/comments`, commentSchema);
  const own = comments.find((one) => one.user?.login === AUTHOR && one.body?.startsWith(marker) === true);
  if (own === undefined) {
    await github.send("POST", `/issues/${issue}/comments`, { body }, commentSchema);
    return "created";
  }
  if (own.body === body) return "unchanged";
  await github.send("PATCH", `/issues/comments/${own.id}`, { body }, commentSchema);
  return "updated";
}

interface KeptIssue {
  /** By which it is found again, with its title. */
  readonly label: string;
  readonly title: string;
  /** Markdown; null where there is nothing to say. */
  readonly report: string | null;
}

/** Opens, updates or closes one issue about one thing. @returns What was done. */
export async function keepIssue(
  github: GitHub,
  { label, title, report }: KeptIssue,
): Promise<"opened" | "updated" | "unchanged" | "closed" | "nothing to do"> {
  const open = await github.list(`/issues?state=open&labels=${label}`, issueSchema);
  const own = open.find((issue) => issue.title === title && issue.pull_request === undefined);
  const change = (fields: object) => github.send("PATCH", `/issues/${own?.number}`, fields, issueSchema);
  if (report === null) {
    if (own === undefined) return "nothing to do";
    await change({ state: "closed", state_reason: "completed" });
    return "closed";
  }
  const body =
    report.length <= MAX_ISSUE_CHARACTERS ? report : `${report.slice(0, MAX_ISSUE_CHARACTERS)}\n… (cut)\n`;
  if (own === undefined) {
    await github.send("POST", "/issues", { title, body, labels: [label] }, issueSchema);
    return "opened";
  }
  if (own.body === body) return "unchanged";
  await change({ body });
  return "updated";
}

/**
 * Tells the repository while expired stacks could not be ended.
 *
 * @param result - Of the job that called `npx engine-room expire`; cancelled and skipped jobs have a later run.
 * @param runUrl - Of its run, whose log says which stacks, and why.
 * @returns What was done.
 */
export function reportExpired(
  github: GitHub,
  { result, runUrl }: { readonly result: string; readonly runUrl: string },
): ReturnType<typeof keepIssue> {
  if (result !== "success" && result !== "failure")
    throw new UserError(`The job's result is success or failure, not ${JSON.stringify(result)}.`);
  const report = `\`npx engine-room expire --down\` could not end every expired stack, or could not tell: [the run](${runUrl}) says which, and why.
They cost money until they are gone. \`npx engine-room expire\` lists them with the cost of an hour; the next run that ends them all closes this issue.
`;
  return keepIssue(github, {
    label: "expire",
    title: "A stack whose time is over was not ended",
    report: result === "success" ? null : report,
  });
}
