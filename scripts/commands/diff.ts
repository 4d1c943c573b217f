import { readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { compareWithBase } from "../diff/compare-trees.ts";
import type { GraphChanges } from "../diff/graph-changes.ts";
import { previewChanges } from "../diff/preview-json.ts";
import { markdownComment } from "../diff/report/markdown.ts";
import { textReport } from "../diff/report/text.ts";
import type { StackDiff } from "../diff/types.ts";
import { newMandatory } from "../diff/violations.ts";
import { UsageError, UserError } from "../errors.ts";
import { prettyJson } from "../pretty-json.ts";
import { callerDirectory } from "../program/stack-file.ts";
import { type Command, EXIT } from "./command.ts";

const forms: Readonly<Record<string, (diff: StackDiff) => string>> = {
  text: textReport,
  markdown: (diff) => markdownComment([diff]),
  json: prettyJson,
};

export const command: Command = {
  summary:
    "Says what merging the working tree would change in a stack; nothing is contacted, and no credentials are needed.",
  usage: `--base REF [--format ${Object.keys(forms).join("|")}] [--preview FILE] [--fail-on mandatory] [--out FILE]`,
  details: [
    "--base REF           the commit to compare with, such as origin/main; its own code plans and renders it",
    "--format FORM        text (default); markdown, as a comment of a pull request; or json: scripts/diff/types.ts says what is in it",
    "--preview FILE       resources as `pulumi preview --json --show-sames` found them against the stack's state",
    "--fail-on mandatory  exit code 1, after the report, where the change breaks a mandatory policy that the base keeps",
    "--out FILE           write there instead of to standard output",
    "A base that can't be rendered, problems of the working tree and rules that it breaks are part of the report: they end with exit code 0.",
  ],
  options: {
    base: { type: "string" },
    format: { type: "string", default: "text" },
    preview: { type: "string" },
    "fail-on": { type: "string" },
    out: { type: "string", short: "o" },
  },
  async run({ stack, values }) {
    const { base, format, out } = values;
    if (typeof base !== "string" || base === "")
      throw new UsageError("Name the commit to compare with: --base origin/main.");
    const report = forms[String(format)];
    if (report === undefined)
      throw new UsageError(
        `There is no format ${JSON.stringify(format)}; there are ${Object.keys(forms).join(", ")}.`,
      );
    const failOn = values["fail-on"];
    if (failOn !== undefined && failOn !== "mandatory")
      throw new UsageError(`--fail-on takes mandatory, not ${JSON.stringify(failOn)}.`);
    const preview = typeof values.preview === "string" ? savedPreview(values.preview) : undefined;
    const file = typeof out === "string" ? outFile(out) : undefined;
    const diff = await compareWithBase({ stack, ref: base, preview });
    const text = report(diff);
    if (file === undefined) process.stdout.write(text);
    else writeFileSync(file, text);
    return failOn === undefined || newMandatory(diff).length === 0 ? EXIT.ok : EXIT.failed;
  },
};

/** Asked before a comparison of half a minute has nowhere to go. */
function outFile(out: string): string {
  const path = resolve(callerDirectory(), out);
  if (!statSync(dirname(path), { throwIfNoEntry: false })?.isDirectory())
    throw new UserError(`There is no folder ${dirname(path)} for --out; make it, or name a file elsewhere.`);
  return path;
}

function savedPreview(file: string): GraphChanges {
  const path = resolve(callerDirectory(), file);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new UserError(`${path} can't be read: ${(error as Error).message}.`);
  }
  return previewChanges(text);
}
