/**
 * Puts the result of `preview` for a pull request into its comment. The artifacts were written by code of the pull
 * request, so nothing in them is trusted: the pull request comes from the event and from GitHub, and artifacts have
 * differences as data, which this tree's own code checks, escapes and words.
 */

import { unzipSync } from "fflate";
import { z } from "zod";
import { counted } from "../../infra/problems.ts";
import { markdownComment } from "../diff/print.ts";
import { parsedDiff, type StackDiff } from "../diff/types.ts";
import { UserError } from "../errors.ts";
import { code, type Inline, link, markdownInline, strong } from "../markdown.ts";
import { type GitHub, GitHubError, MAX_COMMENT_CHARACTERS, upsertComment } from "./github.ts";

/** Name of the JSON within each artifact. */
const REPORT_FILE = "diff.json";
const MAX_ARTIFACT_BYTES = 4 * 2 ** 20;
const MAX_REPORT_BYTES = 8 * 2 ** 20;
const MAX_STACKS = 20;
/** For the marker, and what GitHub may count otherwise. */
const SPARE_CHARACTERS = 500;

/** `preview-<stack>`: from the two trees; `state-preview-<stack>`: by the Pulumi CLI, against the state. */
const ARTIFACT_NAME = /^(?<kind>preview|state-preview)-(?<stack>[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99})$/;

const repositorySchema = z.object({ id: z.number().int() });
const commitId = z.string().regex(/^[0-9a-f]{40}$/);

/** Part of an event `workflow_run` that is read. */
export const workflowRunEventSchema = z.object({
  repository: repositorySchema,
  workflow_run: z.object({
    id: z.number().int(),
    event: z.literal("pull_request"),
    conclusion: z.string(),
    html_url: z.url({ protocol: /^https?$/ }),
    head_sha: commitId,
    head_branch: z.string().min(1),
    head_repository: repositorySchema.extend({ owner: z.object({ login: z.string().min(1) }) }),
  }),
});
type WorkflowRunEvent = z.infer<typeof workflowRunEventSchema>;

const pullRequestSchema = z.object({
  number: z.number().int().positive(),
  head: z.object({ sha: z.string(), repo: repositorySchema.nullable() }),
  base: z.object({ ref: z.string().min(1), repo: repositorySchema }),
});

/** Comparison of two commits: how the second relates to the first. */
const comparisonSchema = z.object({ status: z.enum(["ahead", "behind", "diverged", "identical"]) });

const artifactSchema = z.object({
  id: z.number().int(),
  name: z.string(),
  size_in_bytes: z.number().int(),
  expired: z.boolean(),
});

/**
 * @param stacks - Stacks of the default branch: each has a preview, or the comment says that its preview is missing.
 * @returns Sentence for the log: what was done, or why nothing was.
 */
export async function postPreviewComment(
  github: GitHub,
  event: WorkflowRunEvent,
  stacks: readonly string[],
): Promise<string> {
  const run = event.workflow_run;
  const pullRequests = await pullRequestsOf(github, event);
  const [pullRequest, ...others] = pullRequests;
  if (pullRequest === undefined)
    return `No comment: no open pull request has ${run.head_sha} as its head; a newer commit has a run of its own.`;
  if (others.length > 0) {
    const numbers = pullRequests.map(({ number }) => `#${number}`).join(" and ");
    const text = sharedText(numbers, { headSha: run.head_sha, runUrl: run.html_url });
    // Each of them: a comment on an earlier commit would otherwise seem to be about this commit.
    for (const { number } of pullRequests) await upsertComment(github, number, { subject: "preview", text });
    return `No preview: ${numbers} share the commit ${run.head_sha}, and whose preview this is can't be told.`;
  }
  const write = (text: string) => upsertComment(github, pullRequest.number, { subject: "preview", text });
  // First, so that an error of this job leaves no text about an earlier commit.
  const begun = await write(unreadText({ headSha: run.head_sha, runUrl: run.html_url }));
  const { reports, missing, unread } = await readReports(github, event, pullRequest.base.ref, stacks);
  const text = previewText(reports, {
    headSha: run.head_sha,
    runUrl: run.html_url,
    hasFailed: run.conclusion !== "success",
    missing,
    unread,
  });
  const done = await write(text);
  const names = (list: readonly string[]) => list.join(", ") || "no stack";
  return `The comment of #${pullRequest.number} is ${begun === "created" ? begun : done}, with previews of: ${names(reports.map(({ stack }) => stack))}; without one: ${names(missing)}.`;
}

/** Open pull requests whose head is the run's commit. An event names none for a fork. */
async function pullRequestsOf(github: GitHub, { repository, workflow_run: run }: WorkflowRunEvent) {
  const head = encodeURIComponent(`${run.head_repository.owner.login}:${run.head_branch}`);
  const candidates = await github.list(`/pulls?state=open&head=${head}`, pullRequestSchema);
  return candidates.filter(
    (candidate) =>
      candidate.head.sha === run.head_sha &&
      candidate.head.repo?.id === run.head_repository.id &&
      candidate.base.repo.id === repository.id,
  );
}

interface PreviewReport {
  readonly stack: string;
  /** Null when no difference could be read. */
  readonly diff: StackDiff | null;
  /** Reason, in one sentence. */
  readonly failure: string | null;
}

interface PreviewReports {
  /** Sorted by stack. */
  readonly reports: readonly PreviewReport[];
  /** Stacks of the default branch without an artifact. */
  readonly missing: readonly string[];
  /** Number of further stacks, which are not read. */
  readonly unread: number;
}

/**
 * Differences against the state replace those between the two trees. The default branch's own stacks are read before
 * others, so that no pull request can crowd them out.
 */
async function readReports(
  github: GitHub,
  { repository, workflow_run: run }: WorkflowRunEvent,
  baseRef: string,
  stacks: readonly string[],
): Promise<PreviewReports> {
  // A run may have more than a page of other artifacts before those of the stacks.
  const artifacts = await github.list(`/actions/runs/${run.id}/artifacts`, artifactSchema, "artifacts");
  const isFromHere = run.head_repository.id === repository.id;
  const byStack = new Map<string, FoundArtifact>();
  for (const { id, name, size_in_bytes: bytes, expired } of artifacts) {
    const { kind, stack } = ARTIFACT_NAME.exec(name)?.groups ?? {};
    if (stack === undefined || expired) continue;
    const isOfState = kind === "state-preview";
    // Only a run with the repository's own credentials has read the state; a fork that claims it has not.
    if (isOfState && !isFromHere) continue;
    if (isOfState || !byStack.has(stack)) byStack.set(stack, { id, name, bytes, isOfState });
  }
  const found = [...byStack].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const own = found.filter(([stack]) => stacks.includes(stack));
  const others = found.filter(([stack]) => !stacks.includes(stack));
  const read = [...own, ...others].slice(0, MAX_STACKS);
  const reports: PreviewReport[] = [];
  for (const [stack, artifact] of found.filter((one) => read.includes(one)))
    try {
      const diff = await readDiff(github, stack, artifact);
      const base = { ...diff.base, ...(await baseOf(github, baseRef, diff)) };
      const shown = { ...diff, base };
      // Inputs of resources have any form, also forms that can't be reported.
      markdownComment([shown]);
      reports.push({ stack, diff: shown, failure: null });
    } catch (error) {
      // An artifact that can't be read costs the comment only its own part; an error of GitHub is not the artifact's
      // fault.
      if (error instanceof GitHubError) throw error;
      const { message } = error as Error;
      const isTold = error instanceof UserError;
      reports.push({
        stack,
        diff: null,
        failure: isTold ? message : `Its resources have another form than the providers' (${message}).`,
      });
    }
  return {
    reports,
    missing: stacks.filter((stack) => !byStack.has(stack)),
    unread: found.length - read.length,
  };
}

interface FoundArtifact {
  readonly id: number;
  readonly name: string;
  /** As GitHub says it. */
  readonly bytes: number;
  readonly isOfState: boolean;
}

/** An artifact's content is untrusted; the artifact's name says which stack it is about. */
async function readDiff(
  github: GitHub,
  stack: string,
  { id, name, bytes: size, isOfState }: FoundArtifact,
): Promise<StackDiff> {
  if (size > MAX_ARTIFACT_BYTES)
    throw new UserError(
      `The artifact ${name} has ${size} bytes, and ${MAX_ARTIFACT_BYTES} are the most that is read.`,
    );
  const zip = await github.download(`/actions/artifacts/${id}/zip`, MAX_ARTIFACT_BYTES);
  const diff = parsedDiff(`${REPORT_FILE} of the stack ${stack}`, reportOf(zip));
  return { ...diff, stack, source: isOfState ? "pulumi-preview" : "rendered" };
}

/** @throws UserError if the archive is damaged, has no report, or has one that is too large. */
function reportOf(zip: Buffer): Buffer {
  let isTooLarge = false;
  let report: Uint8Array | undefined;
  try {
    // Nothing else is unpacked, and at most the sizes in the archive's directory.
    const filter = ({ name, originalSize }: { readonly name: string; readonly originalSize: number }) => {
      if (name === REPORT_FILE) isTooLarge = originalSize > MAX_REPORT_BYTES;
      return name === REPORT_FILE && !isTooLarge;
    };
    report = unzipSync(zip, { filter })[REPORT_FILE];
  } catch (error) {
    throw new UserError(`The archive is damaged, or not a zip file: ${(error as Error).message}.`);
  }
  if (isTooLarge)
    throw new UserError(
      `${REPORT_FILE} of the archive is larger than ${MAX_REPORT_BYTES} bytes, the most that is read.`,
    );
  if (report === undefined) throw new UserError(`The archive has no ${REPORT_FILE}.`);
  return Buffer.from(report);
}

/** The commit is shown only when it is on the pull request's branch: only GitHub knows what is merged into what. */
async function baseOf(
  github: GitHub,
  ref: string,
  { base: { commit } }: StackDiff,
): Promise<Pick<StackDiff["base"], "ref" | "commit">> {
  if (commit === null || !commitId.safeParse(commit).success) return { ref, commit: null };
  const path = `/compare/${commit}...${encodeURIComponent(ref)}?per_page=1`;
  const comparison = await github.find(path, comparisonSchema);
  const isOfBranch = comparison?.status === "ahead" || comparison?.status === "identical";
  return { ref, commit: isOfBranch ? commit : null };
}

interface PreviewRun extends Pick<PreviewReports, "missing" | "unread"> {
  readonly headSha: string;
  readonly runUrl: string;
  readonly hasFailed: boolean;
}

function unreadText({ headSha, runUrl }: Pick<PreviewRun, "headSha" | "runUrl">): string {
  const text: Inline = [
    "The preview of ",
    code(headSha.slice(0, 12)),
    " is being read (",
    link("run", runUrl),
    "). If this stays, the workflow `preview-comment` has failed.",
  ];
  return `${markdownInline(text)}\n`;
}

function sharedText(numbers: string, { headSha, runUrl }: Pick<PreviewRun, "headSha" | "runUrl">): string {
  const text: Inline = [
    strong("No preview"),
    " of ",
    code(headSha.slice(0, 12)),
    `: ${numbers} share the commit, and whose preview `,
    link("the run", runUrl),
    " made can't be told. Push another commit to one of them.",
  ];
  return `${markdownInline(text)}\n`;
}

/** The comment without its marker. */
export function previewText(
  reports: readonly PreviewReport[],
  { headSha, runUrl, hasFailed, missing, unread }: PreviewRun,
  maxCharacters: number = MAX_COMMENT_CHARACTERS - SPARE_CHARACTERS,
): string {
  const gaps: readonly Inline[] = [
    ...missing.map((stack): Inline => [strong(`no preview of \`${stack}\``), ": the run left none."]),
    ...reports.flatMap(({ stack, failure }): Inline[] =>
      failure === null ? [] : [[code(stack), ": ", strong("its preview can't be read."), ` ${failure}`]],
    ),
    ...(unread === 0
      ? []
      : [
          [
            strong(`${counted(unread, "more preview is", "more previews are")} not read`),
            `: ${MAX_STACKS} are the most.`,
          ],
        ]),
  ];
  const opening = [
    markdownInline([
      "What merging ",
      code(headSha.slice(0, 12)),
      " would do, as the pull request's own code says (",
      link("run", runUrl),
      ").",
    ]),
    ...(hasFailed
      ? [
          markdownInline([
            strong("Not every preview was made, or a policy is broken"),
            "; ",
            link("the run", runUrl),
            " says why.",
          ]),
        ]
      : []),
    ...(gaps.length === 0 ? [] : [gaps.map((gap) => `- ${markdownInline(gap)}`).join("\n")]),
    "",
  ].join("\n\n");
  const diffs = reports.flatMap(({ diff }) => (diff === null ? [] : [diff]));
  if (diffs.length === 0 && gaps.length > 0) return `${opening.trimEnd()}\n`;
  return `${opening}${markdownComment(diffs, maxCharacters - opening.length)}`;
}
