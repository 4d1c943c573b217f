/** One comment of a pull request that is kept up to date, found again by a marker at its very beginning. */
import { z } from "zod";
import { UserError } from "../errors.ts";
import type { GitHub } from "./github.ts";

/** GitHub refuses longer ones; in UTF-16 code units, which are never fewer than its characters. */
export const MAX_COMMENT_CHARACTERS = 65_536;

/** Whoever comments with a job's own token. Anybody else could begin a comment with a marker. */
const AUTHOR = "github-actions[bot]";

type CommentSubject = "preview" | "preview-stack";

const commentSchema = z.object({
  id: z.number().int(),
  body: z.string().nullish(),
  user: z.object({ login: z.string() }).nullish(),
});

/** First line of a comment; Markdown shows nothing of it. */
function commentMarker(subject: CommentSubject): string {
  return `<!-- engine-room: ${subject} -->`;
}

/**
 * @param issue - Number of an issue or pull request.
 * @returns What was done.
 * @throws UserError where the text is too long.
 */
export async function upsertComment(
  github: GitHub,
  issue: number,
  { subject, text }: { readonly subject: CommentSubject; readonly text: string },
): Promise<"created" | "updated" | "unchanged"> {
  const marker = commentMarker(subject);
  const body = `${marker}\n${text}`;
  if (body.length > MAX_COMMENT_CHARACTERS)
    throw new UserError(
      `A comment has at most ${MAX_COMMENT_CHARACTERS} characters, and this one ${body.length}.`,
    );
  const own = await ownComment(github, issue, marker);
  if (own === undefined) {
    await github.send("POST", `/issues/${issue}/comments`, { body }, commentSchema);
    return "created";
  }
  if (own.body === body) return "unchanged";
  await github.send("PATCH", `/issues/comments/${own.id}`, { body }, commentSchema);
  return "updated";
}

async function ownComment(github: GitHub, issue: number, marker: string) {
  const comments = await github.list(`/issues/${issue}/comments`, commentSchema);
  return comments.find(
    ({ body, user }) => user?.login === AUTHOR && body?.startsWith(`${marker}\n`) === true,
  );
}
