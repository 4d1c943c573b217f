import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { refusals } from "../diff/blocking-changes.ts";
import { compareWithBase } from "../diff/compare.ts";
import { previewChanges } from "../diff/preview.ts";
import { markdownComment, textReport } from "../diff/print.ts";
import { stackSettings } from "../diff/stack-settings.ts";
import type { StackDiff } from "../diff/types.ts";
import { UsageError, UserError } from "../errors.ts";
import { prettyJson } from "../program/serialized.ts";
import { callerDirectory } from "../program/stack-file.ts";
import { defineCommand, EXIT, requireFolders } from "./command.ts";

const REPORTS = {
  text: textReport,
  markdown: (diff: StackDiff) => markdownComment([diff]),
  json: prettyJson,
};

export const command = defineCommand({
  options: {
    "--base <ref>": "the commit to compare with, such as origin/main; its own code plans and renders it",
    "--format <form>": {
      text: "markdown is a comment of a pull request; scripts/diff/types.ts describes the JSON",
      default: "text",
      choices: ["text", "markdown", "json"],
    },
    "--preview <file>": "resources as `pulumi preview --json` found them against the stack's state",
    "--fail-on <policies>": {
      text: "exit code 1, after the report, if the change brings a problem, a failure or a broken mandatory policy that the base has not, or mandatory policies can't be checked",
      choices: ["mandatory"],
    },
    "-o, --out <file>": "write to a file instead of standard output",
  },
  notes: [
    "Nothing is contacted, and no credentials are needed. A base that can't be rendered, and problems and broken rules of the working tree, are part of the report: they end with exit code 0.",
  ],
  async run({ stack, values }) {
    const { base = "", format, failOn, out } = values;
    if (base === "") throw new UsageError("Missing commit to compare with, such as --base origin/main.");
    requireFolders({ "--out": out });
    const preview =
      values.preview === undefined
        ? undefined
        : previewChanges(savedText(values.preview), stackSettings(stack).secrets.values());
    const diff = await compareWithBase({ stack, ref: base, preview });
    const text = REPORTS[format](diff);
    if (out === undefined) process.stdout.write(text);
    else writeFileSync(resolve(callerDirectory(), out), text);
    return failOn !== undefined && refusals(diff).length > 0 ? EXIT.failed : EXIT.ok;
  },
});

function savedText(file: string): string {
  const path = resolve(callerDirectory(), file);
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new UserError(`${path} can't be read: ${(error as Error).message}.`);
  }
}
