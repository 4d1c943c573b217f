import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import type { Command } from "../../../scripts/commands/command.ts";
import { helpText, usageText } from "../../../scripts/commands/help.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { runCommand } from "../plan/run-plan.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

test("an option that npm took is named, with or without a value", async () => {
  vi.stubEnv("npm_config_stack", "true");
  const { exitCode, stderr } = await runCommand("plan", "prod");
  expect(exitCode).toBe(2);
  expect(stderr).toContain("npm took --stack for itself; write `--` before the options.");

  vi.stubEnv("npm_config_stack", "");
  vi.stubEnv("npm_config_dry_run", "true");
  expect((await runCommand("images", "--push")).stderr).toContain("npm took --dry-run for itself");
});

test("an option that the command got, or that is npm's own, is not reported", async () => {
  vi.stubEnv("npm_config_json", "true");
  vi.stubEnv("npm_config_registry", "https://registry.example.org/");
  const { exitCode, stdout } = await runCommand("plan", "--stack", "local", "--json");
  expect([exitCode, JSON.parse(stdout)]).toMatchObject([0, { plan: { platform: "local" } }]);
});

test.each([
  ["sleep", "`npx engine-room down --stack local` ends it and keeps its documents."],
  ["wake", "`npx engine-room start --stack local` brings it up."],
  ["images", "the stack local has `platform: local`, which runs without images."],
])("`%s` of a local stack is refused with exit code 2, and says what to do instead", async (name, words) => {
  const { exitCode, stderr } = await runCommand(name);
  expect(exitCode).toBe(2);
  expect(stderr.split("\n")[0]).toContain(words);
});

test("`ask` takes a word or --text, and not both", async () => {
  const { exitCode, stderr } = await runCommand("ask", "one", "--text", "two", "--as", "curl");
  expect(exitCode).toBe(2);
  expect(stderr).toContain("Ask one thing: “one”, or what --text says.");
  expect((await runCommand("ask", "--as", "curl")).stderr).toContain(
    'Say what to ask: npx engine-room ask "TEXT".',
  );
});

const folder = join(projectRoot, "scripts/commands");

const NAMES = readdirSync(folder)
  .map((file) => file.replace(/\.ts$/, ""))
  .filter((name) => !["command", "help", "main"].includes(name));

const load = async (name: string) =>
  ((await import(join(folder, `${name}.ts`))) as { readonly command: Command }).command;

const STACK_OPTIONS = ["stack", "config-file"];

test.each(NAMES)(
  "the help of %s keeps to 100 columns, and to fewer where the terminal has fewer",
  async (name) => {
    const command = await load(name);
    for (const [columns, most] of [
      [undefined, 100],
      [240, 100],
      [80, 80],
    ] as const) {
      const lines = helpText(name, command, columns).split("\n");
      expect(lines.filter((line) => [...line].length > most)).toEqual([]);
    }
  },
);

test.each(NAMES)("the help of %s has all words of its command", async (name) => {
  const command = await load(name);
  const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
  const all = [command.summary, usageText(name, command), ...(command.details ?? [])].flatMap(words);
  const help = words(helpText(name, command, 80));
  expect(all.filter((word) => !help.includes(word))).toEqual([]);
});

test.each(NAMES)("the help of %s explains options that the command takes, and no others", async (name) => {
  const { options = {}, takesNoStack = false } = await load(name);
  const known = [...Object.keys(options), ...(takesNoStack ? [] : STACK_OPTIONS)];
  const { exitCode, stdout } = await runCommand(name, "--help");
  const explained = [...stdout.matchAll(/^ {2}--([a-z-]+)/gm)].map(([, option]) => option);
  expect(exitCode).toBe(0);
  expect(explained.filter((option) => !known.includes(option ?? ""))).toEqual([]);
  const isUsed = stdout.replaceAll(/\s+/g, " ").includes("[--stack NAME] [--config-file FILE]");
  expect(isUsed).toBe(!takesNoStack);
});

test.each(["key", "test", "ci", "expire"])("`%s` refuses --config-file", async (name) => {
  const { exitCode, stderr } = await runCommand(name, "--config-file", "x.yaml");
  expect(exitCode).toBe(2);
  expect(stderr).toContain("Unknown option '--config-file'");
});

test("the help shows an option beside its explanation, and a long option on a line of its own", () => {
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

  npx engine-room it [--at PLACE]

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
