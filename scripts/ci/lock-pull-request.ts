/** Opens a pull request with a new images.lock.json, only through GitHub's API: no git, and no credentials on disk. */
import { z } from "zod";
import { UserError } from "../errors.ts";
import type { GitHub } from "./github.ts";

const LOCK_PATH = "images.lock.json";
export const LOCK_BRANCH = "images-lock";

const refSchema = z.object({ object: z.object({ sha: z.string() }) });
const fileSchema = z.object({ sha: z.string(), content: z.string() });
const pullRequestSchema = z.object({ number: z.number().int() });

/** The file comes from a job that runs other programs. */
const lockSchema = z.strictObject({
  version: z.literal(1),
  images: z.record(
    z.string(),
    z.strictObject({
      contentHash: z.string().regex(/^[0-9a-f]{64}$/),
      reference: z.string().regex(/@sha256:[0-9a-f]{64}$/),
    }),
  ),
});

/**
 * One branch, and one pull request, that always has the newest lock file on top of the default branch.
 *
 * @param lockFile - Written by `npx engine-room images --push`.
 * @returns Sentence for the log.
 * @throws UserError for an invalid lock file, one without digests, or one that lacks an image of the default branch's.
 */
export async function openLockPullRequest(github: GitHub, lockFile: Buffer): Promise<string> {
  const images = requireLock(lockFile);
  const { default_branch: base } = await github.get("", z.object({ default_branch: z.string() }));
  const current = await github.get(`/contents/${LOCK_PATH}?ref=${encodeURIComponent(base)}`, fileSchema);
  const currentFile = Buffer.from(current.content, "base64");
  if (currentFile.equals(lockFile)) return `Nothing to do: ${base} has this ${LOCK_PATH}.`;
  const lost = Object.keys(lockedImages(currentFile)).filter((name) => !(name in images));
  if (lost.length > 0)
    throw new UserError(
      `${LOCK_PATH} lacks digests that ${base} has, of ${lost.join(", ")}: a pull request only adds images to those of ${base}. If ${base} got them since the images were built, start the workflow \`images\` again, on ${base}.`,
    );
  await resetBranch(github, base);
  const content = lockFile.toString("base64");
  const message = "Images as they were pushed";
  await github.send("PUT", `/contents/${LOCK_PATH}`, {
    message,
    content,
    sha: current.sha,
    branch: LOCK_BRANCH,
  });
  const head = encodeURIComponent(`${github.repository.split("/")[0]}:${LOCK_BRANCH}`);
  const [own] = await github.list(`/pulls?state=open&head=${head}`, pullRequestSchema);
  if (own !== undefined) return `Updated #${own.number}.`;
  const body =
    "The images of `containers/` were built and pushed; these are their digests. After the merge the stacks use them.";
  const made = await github.send("POST", "/pulls", { title: message, head: LOCK_BRANCH, base, body });
  return `Opened #${pullRequestSchema.parse(made).number}.`;
}

type LockedImages = z.infer<typeof lockSchema>["images"];

/** Returns undefined for an invalid lock file, which is then replaced. */
function lockedImages(lockFile: Buffer): LockedImages {
  try {
    return requireLock(lockFile);
  } catch {
    return {};
  }
}

function requireLock(lockFile: Buffer): LockedImages {
  let reason: string;
  try {
    const result = lockSchema.safeParse(JSON.parse(lockFile.toString("utf8")));
    if (result.success && Object.keys(result.data.images).length > 0) return result.data.images;
    reason = result.success ? "it has no image." : z.prettifyError(result.error);
  } catch (error) {
    reason = (error as Error).message;
  }
  throw new UserError(`${LOCK_PATH} is not a list of digests: ${reason}`);
}

/** Resets the branch to the default branch: an older lock file on it would conflict. */
async function resetBranch(github: GitHub, base: string): Promise<void> {
  const { object } = await github.get(`/git/ref/heads/${encodeURIComponent(base)}`, refSchema);
  const existing = await github.find(`/git/ref/heads/${LOCK_BRANCH}`, refSchema);
  if (existing === undefined)
    await github.send("POST", "/git/refs", { ref: `refs/heads/${LOCK_BRANCH}`, sha: object.sha });
  else await github.send("PATCH", `/git/refs/heads/${LOCK_BRANCH}`, { sha: object.sha, force: true });
}
