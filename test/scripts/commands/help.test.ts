/** What `--help` says of every command, at several widths. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Command } from "../../../scripts/commands/command.ts";
import { helpText, usageText } from "../../../scripts/commands/help.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { runCommand } from "../plan/run-plan.ts";

const folder = join(projectRoot, "scripts/commands");
const NAMES = readdirSync(folder)
  .map((file) => file.replace(/\.ts$/, ""))
  .filter((name) => !["command", "help", "main"].includes(name));

const load = async (name: string) =>
  ((await import(join(folder, `${name}.ts`))) as { readonly command: Command }).command;

const STACK_OPTIONS = ["stack", "config-file"];

describe.each(NAMES)("%s", (name) => {
  test("keeps to 100 columns, and to fewer where the terminal has fewer", async () => {
    const command = await load(name);
    for (const [columns, most] of [
      [undefined, 100],
      [240, 100],
      [80, 80],
    ] as const) {
      const lines = helpText(name, command, columns).split("\n");
      expect(lines.filter((line) => [...line].length > most)).toEqual([]);
    }
  });

  test("loses no word", async () => {
    const command = await load(name);
    const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
    const all = [command.summary, usageText(name, command), ...(command.details ?? [])].flatMap(words);
    const help = words(helpText(name, command, 80));
    expect(all.filter((word) => !help.includes(word))).toEqual([]);
  });

  test("explains options that it takes, and no others", async () => {
    const { options = {}, takesNoStack = false } = await load(name);
    const known = [...Object.keys(options), ...(takesNoStack ? [] : STACK_OPTIONS)];
    const { exitCode, stdout } = await runCommand(name, "--help");
    const explained = [...stdout.matchAll(/^ {2}--([a-z-]+)/gm)].map(([, option]) => option);
    expect(exitCode).toBe(0);
    expect(explained.filter((option) => !known.includes(option ?? ""))).toEqual([]);
    const isUsed = stdout.replaceAll(/\s+/g, " ").includes("[--stack NAME] [--config-file FILE]");
    expect(isUsed).toBe(!takesNoStack);
  });
});

test.each(["key", "test", "ci", "expire"])(
  "%s has no use for a stack's file, and refuses it",
  async (name) => {
    const { exitCode, stderr } = await runCommand(name, "--config-file", "x.yaml");
    expect(exitCode).toBe(2);
    expect(stderr).toContain("Unknown option '--config-file'");
  },
);

test("an option is beside its explanation, which wraps below itself; a longer one stands alone", () => {
  const command = {
    summary: "Does it.",
    usage: "[--at PLACE]",
    details: [
      "--at PLACE  where it is done, here unless it says something else",
      "--a-name-of-many-letters  anything",
      "That is all there is to say about it, and what is to be said of the rest.",
      '  {"an": "example"}',
    ],
    takesNoStack: true,
    run: async () => 0,
  };
  expect(helpText("it", command, 50)).toBe(`Does it.

  npm run it -- [--at PLACE]

  --at PLACE           where it is done, here
                       unless it says something
                       else
  --a-name-of-many-letters
                       anything
  That is all there is to say about it, and what
  is to be said of the rest.
    {"an": "example"}

Exit codes: 0 done, 1 failed, 2 wrong command
line.
`);
});
