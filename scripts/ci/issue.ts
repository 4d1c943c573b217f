/** One open issue about one thing, while there is something to say of it. */
import { z } from "zod";
import type { GitHub } from "./github.ts";

/** Longer than any report that a person reads to its end; GitHub refuses more than 65,536. */
const MAX_ISSUE_CHARACTERS = 60_000;

const issueSchema = z.object({
  number: z.number().int(),
  title: z.string(),
  body: z.string().nullish(),
  user: z.object({ login: z.string() }).nullish(),
  pull_request: z.unknown().optional(),
});

interface KeptIssue {
  /** By which it is found again, with its title. */
  readonly label: string;
  readonly title: string;
  /** Markdown; null where there is nothing to say. */
  readonly report: string | null;
}

/** Opens, updates or closes it. @returns What was done. */
export async function keepIssue(
  github: GitHub,
  { label, title, report }: KeptIssue,
): Promise<"opened" | "updated" | "unchanged" | "closed" | "nothing to do"> {
  const open = await github.list(`/issues?state=open&labels=${label}`, issueSchema);
  const own = open.find((issue) => issue.title === title && issue.pull_request === undefined);
  if (report === null) {
    if (own === undefined) return "nothing to do";
    await github.send(
      "PATCH",
      `/issues/${own.number}`,
      { state: "closed", state_reason: "completed" },
      issueSchema,
    );
    return "closed";
  }
  const body =
    report.length <= MAX_ISSUE_CHARACTERS ? report : `${report.slice(0, MAX_ISSUE_CHARACTERS)}\n… (cut)\n`;
  if (own === undefined) {
    await github.send("POST", "/issues", { title, body, labels: [label] }, issueSchema);
    return "opened";
  }
  if (own.body === body) return "unchanged";
  await github.send("PATCH", `/issues/${own.number}`, { body }, issueSchema);
  return "updated";
}
