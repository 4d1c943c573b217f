import { readFileSync, statSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { counted } from "../../infra/problems.ts";
import { driftOf, driftReport } from "../ci/drift.ts";
import { githubFromEnvironment, keepIssue, upsertComment } from "../ci/github.ts";
import { openLockPullRequest } from "../ci/lock-pull-request.ts";
import { outputsSummary, previewStackFailure, shownOutputsSchema } from "../ci/outputs-summary.ts";
import { postPreviewComment, workflowRunEventSchema } from "../ci/preview-comment.ts";
import {
  endedStacks,
  listedStacksSchema,
  MATRIX_PURPOSES,
  matrixStacks,
  PREVIEW_TEMPLATE,
  previewStackFile,
  previewStackName,
  requireDeployedFiles,
  requireImages,
} from "../ci/stacks.ts";
import { refusals } from "../diff/blocking-changes.ts";
import { parsePreview } from "../diff/preview.ts";
import { markdownComment } from "../diff/print.ts";
import { parsedDiff, type StackDiff } from "../diff/types.ts";
import { UsageError, UserError } from "../errors.ts";
import { code, link, markdownInline, plainInline, visible } from "../markdown.ts";
import { callerDirectory, stackNamesOf, stackReference } from "../program/stack-file.ts";
import { approvedPreview, changesNothing } from "../stack/approved-preview.ts";
import { findProgram } from "../stack/pulumi-cli.ts";
import { defineCommand, EXIT, type Values as OptionValues } from "./command.ts";

const OPTIONS = {
  "--for <purpose>": { text: "of matrix", choices: MATRIX_PURPOSES },
  "--deployed <stacks>": "of matrix and deployed-files: the stacks that are deployed",
  "--base-files <names>": "output of `git ls-tree --name-only` for the base",
  "--diff <file>": "output of `diff --format json`",
  "--event <file>": "the event that started the workflow",
  "--outputs <file>": "output of `outputs --json`",
  "--lock <file>": "a new images.lock.json",
  "--pull-request <number>": "of a stack for a pull request",
  "--registry <url>": "images.registry of its stack file",
  "--stack <name>": "stack of the task",
  "--stacks <file>": "output of `pulumi stack ls --json`",
  "--hours <n>": "of ended-stacks: the longest life of a stack",
  "--failed <commit>": "of preview-stack-comment: the commit whose stack failed",
  "--run <url>": "the run whose log has the reason",
  "--result <result>": "of expire-issue: the result of the job",
  "--preview <file>": "output of `pulumi preview --json`",
} as const;

type Values = OptionValues<typeof OPTIONS>;

interface Task {
  readonly summary: string;
  /** Required options. */
  readonly needs: readonly (keyof Values)[];
  readonly run: (values: Values) => void | Promise<void>;
}

/** Tasks of jobs in .github/workflows; docs/ci.md lists the callers. */
const TASKS = {
  matrix: {
    summary: "stacks=[…] for --for preview, state-preview or deployed",
    needs: ["for"],
    run: ({ for: purpose = "preview", deployed }) =>
      print(`stacks=${JSON.stringify(matrixStacks(purpose, text(deployed)))}`),
  },
  "deployed-files": {
    summary: "fails if a stack of --deployed has a file among --base-files, and none here",
    needs: ["deployed", "baseFiles"],
    run: ({ deployed, baseFiles }) =>
      requireDeployedFiles(text(deployed), stackNamesOf(text(baseFiles).split("\n"))),
  },
  "diff-summary": {
    summary: "Markdown of --diff, what `diff --format json` wrote",
    needs: ["diff"],
    run: ({ diff }) => {
      process.stdout.write(markdownComment([parsedDiff(text(diff), readBytes(diff))]));
    },
  },
  "diff-policies": {
    summary:
      "fails if --diff brings a problem, a failure or a broken mandatory policy that the base has not, or mandatory policies can't be checked",
    needs: ["diff"],
    run: ({ diff: file }) => refuse(parsedDiff(text(file), readBytes(file))),
  },
  "preview-comment": {
    summary: "the comment of the pull request that --event, a `workflow_run`, is about",
    needs: ["event"],
    run: async ({ event }) => {
      const run = readJson(event, workflowRunEventSchema);
      print(await postPreviewComment(githubFromEnvironment(), run, matrixStacks("preview", "")));
    },
  },
  summary: {
    summary: "Markdown of --outputs, what `outputs --json` printed for --stack",
    needs: ["stack", "outputs"],
    run: ({ stack, outputs }) => print(outputsSummary(text(stack), readJson(outputs, shownOutputsSchema))),
  },
  "lock-pull-request": {
    summary: "a pull request with --lock as images.lock.json",
    needs: ["lock"],
    run: async ({ lock }) => print(await openLockPullRequest(githubFromEnvironment(), readBytes(lock))),
  },
  "preview-stack-file": {
    summary: "the stack file of --pull-request, and its name as stack=…",
    needs: ["pullRequest"],
    run: (values) => {
      const stack = previewStackName(text(values.pullRequest));
      const template = readFileSync(stackReference(PREVIEW_TEMPLATE).configFile, "utf8");
      const registry = text(values.registry);
      writeFileSync(stackReference(stack).configFile, previewStackFile(template, stack, registry));
      print(`stack=${stack}`);
    },
  },
  "preview-stack-comment": {
    summary:
      "the comment of --pull-request about its stack: --outputs, or that the commit --failed in --run, or that it has ended",
    needs: ["pullRequest"],
    run: async (values) => {
      const number = Number(values.pullRequest);
      const summary = previewStackText(values);
      const done = await upsertComment(githubFromEnvironment(), number, {
        subject: "preview-stack",
        text: summary,
      });
      print(`The comment of #${number} is ${done}.`);
    },
  },
  "ended-stacks": {
    summary: "stacks=[…] of --stacks, what `pulumi stack ls --json` printed, that have had their time",
    needs: ["stacks", "hours"],
    run: async ({ stacks, hours }) => {
      const most = Number(hours);
      if (!(most > 0)) throw new UsageError(`--hours takes a number above 0, not ${JSON.stringify(hours)}.`);
      const listed = readJson(stacks, listedStacksSchema);
      const ended = await endedStacks(githubFromEnvironment(), listed, { hours: most, now: Date.now() });
      for (const { stack, reason } of ended) process.stderr.write(`${stack}: ${reason}\n`);
      print(`stacks=${JSON.stringify(ended.map(({ stack, pullRequest }) => ({ stack, pullRequest })))}`);
    },
  },
  "expire-issue": {
    summary:
      "an issue while the --result of the job that called `expire` is failure; its --run has the reason",
    needs: ["result", "run"],
    run: async ({ result, run }) => {
      // Cancelled and skipped jobs have a later run.
      if (result !== "success" && result !== "failure")
        throw new UserError(`The job's result is success or failure, not ${JSON.stringify(result)}.`);
      const report = markdownInline([
        "`npx engine-room expire --down` could not end every expired stack, or could not tell: ",
        link("the run", text(run)),
        " says which, and why. They cost money until they are gone. `npx engine-room expire` lists them with the cost of an hour; the next run that ends them all closes this issue.",
      ]);
      const done = await keepIssue(githubFromEnvironment(), {
        label: "expire",
        title: "An expired stack was not destroyed",
        isOnlyOne: true,
        report: result === "success" ? null : `${report}\n`,
      });
      print(`Issue: ${done}.`);
    },
  },
  "require-images": {
    summary: "fails if images.lock.json lacks digests of --stack, which then can't be deployed",
    needs: ["stack"],
    run: ({ stack }) => requireImages(stackReference(text(stack))),
  },
  "deployed-commit": {
    summary:
      "the commit that the last `up` of --stack ran with, according to the state; prints nothing if the state has no commit",
    needs: ["stack"],
    run: async ({ stack }) => {
      const commit = await (await pulumiBackend(stack)).deployedCommit();
      if (commit !== null) print(commit);
    },
  },
  "state-preview": {
    summary: "what `pulumi preview --json` prints of --stack; of one without a state, against an empty state",
    needs: ["stack"],
    run: async ({ stack }) => {
      process.stdout.write(await (await pulumiBackend(stack)).previewJson());
    },
  },
  "state-policies": {
    summary: "what the Pulumi CLI finds of policies in the same preview; fails if a mandatory one is broken",
    needs: ["stack"],
    run: async ({ stack }) => print(await (await pulumiBackend(stack)).previewPolicies()),
  },
  "approved-preview": {
    summary:
      "JSON of the changes of --preview of --stack, which `up --approved` takes; nothing if neither that nor --diff, against the commit of the last `up`, has a change",
    needs: ["stack", "preview"],
    run: async ({ stack, preview, diff: file }) => {
      const approved = approvedPreview(text(stack), readBytes(preview).toString("utf8"));
      const diff = file === undefined ? undefined : parsedDiff(file, readBytes(file));
      const isUnchanged =
        diff !== undefined &&
        changesNothing(approved, diff) &&
        diff.base.commit === (await (await pulumiBackend(stack)).completedCommit());
      if (!isUnchanged) print(JSON.stringify(approved));
    },
  },
  "preview-errors": {
    summary: "fails with the errors of --preview, what `pulumi preview --json` printed",
    needs: ["preview"],
    run: ({ preview }) => {
      parsePreview(readBytes(preview).toString("utf8"));
    },
  },
  drift: {
    summary:
      "an issue while --preview of --stack, by `pulumi preview --refresh --show-sames --json`, would change something",
    needs: ["stack", "preview"],
    run: async ({ stack, preview }) => {
      const drift = driftOf(parsePreview(readBytes(preview).toString("utf8")).steps);
      const report = driftReport(text(stack), drift);
      const done = await keepIssue(githubFromEnvironment(), {
        label: "drift",
        title: `Drift of the stack ${stack}`,
        report: drift.resources.length === 0 ? null : report,
      });
      print(`${report}\nIssue: ${done}.`);
    },
  },
} satisfies Readonly<Record<string, Task>>;

export const command = defineCommand({
  argument: {
    name: "[task]",
    text: "what the job does",
    choices: Object.fromEntries(
      Object.entries(TASKS).map(([name, { summary }]) => [name, summary]),
    ) as Record<keyof typeof TASKS, string>,
  },
  options: OPTIONS,
  takesNoStack: true,
  async run({ positionals: [name], values }) {
    if (name === undefined)
      throw new UsageError(`Missing task. Choose from ${Object.keys(TASKS).join(", ")}.`);
    const task: Task = TASKS[name];
    const missing = task.needs.filter((option) => values[option] === undefined);
    if (missing.length > 0)
      throw new UsageError(
        `${name} needs ${missing.map((option) => `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`).join(" and ")}.`,
      );
    await task.run(values);
    return EXIT.ok;
  },
});

const MOST_REFUSALS = 50;

/** @throws UserError with each reason, in a line of its own. */
function refuse(diff: StackDiff): void {
  const reasons = refusals(diff).map(plainInline);
  if (reasons.length === 0) return;
  const more = reasons.length - MOST_REFUSALS;
  const lines = [
    ...reasons.slice(0, MOST_REFUSALS),
    ...(more > 0 ? [`${more} more; the comment has them.`] : []),
  ];
  throw new UserError(
    `The change of the stack ${visible(diff.stack)} is refused for ${counted(reasons.length, "reason")}:\n${lines.join("\n")}`,
  );
}

/** Returns the comment about a pull request's stack. */
function previewStackText({ pullRequest: number, outputs, failed, run }: Values): string {
  const stack = previewStackName(text(number));
  if (outputs !== undefined) return outputsSummary(stack, readJson(outputs, shownOutputsSchema), number);
  if (failed === undefined)
    return `${markdownInline(["The stack ", code(stack), " has ended; nothing of it is left."])}\n`;
  if (run === undefined) throw new UsageError("--failed needs --run, whose log has the reason.");
  return previewStackFailure(stack, text(failed), text(run));
}

async function pulumiBackend(stack: string | undefined) {
  const executable = findProgram("pulumi");
  if (executable === undefined) throw new UserError("There is no Pulumi CLI on PATH.");
  const { PulumiBackend } = await import("../stack/pulumi-backend.ts");
  return new PulumiBackend(stackReference(text(stack)), executable);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function text(value: string | undefined): string {
  return value ?? "";
}

/** More than any of these files has. */
const MAX_FILE_BYTES = 64 * 2 ** 20;

function readBytes(file: string | undefined): Buffer {
  const path = resolve(callerDirectory(), text(file));
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size === undefined) throw new UserError(`There is no file ${path}.`);
  if (size > MAX_FILE_BYTES)
    throw new UserError(`${path} has ${size} bytes, and ${MAX_FILE_BYTES} are the most that is read.`);
  return readFileSync(path);
}

function readJson<T>(file: string | undefined, schema: z.ZodType<T>): T {
  let content: unknown;
  try {
    content = JSON.parse(readBytes(file).toString("utf8"));
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`${text(file)} is not valid JSON: ${(error as Error).message}.`);
  }
  const result = schema.safeParse(content);
  if (result.success) return result.data;
  throw new UserError(`${text(file)} has unexpected content: ${z.prettifyError(result.error)}`);
}
