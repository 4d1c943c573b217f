import { afterEach, describe, expect, test, vi } from "vitest";
import { ConfigError } from "../../infra/problems.ts";
import { forTerminal } from "../../scripts/terminal-text.ts";
import { runCommand } from "./plan/run-plan.ts";

const narrow = { isTTY: true, columns: 40 };

describe("a text for a terminal", () => {
  test("is wrapped below the beginning of each line, and lists below their text", () => {
    const text = new ConfigError([
      {
        path: "models[0].model",
        value: '"gpt"',
        reason: "There is no model of that name in it.",
        fix: "Write one.",
      },
    ]).message;
    expect(forTerminal(text, narrow)).toBe(`1 problem in the stack's configuration;
nothing was changed:
  1. models[0].model = "gpt"
     There is no model of that name in
     it.
     Fix: Write one.`);
  });

  test("leaves commands whole, which somebody copies", () => {
    const text = "It is not up; `npm run up -- --stack a-name-of-many-letters` brings it up.";
    expect(forTerminal(text, narrow)).toBe(
      "It is not up;\n`npm run up -- --stack a-name-of-many-letters`\nbrings it up.",
    );
  });

  test("loses no space and no empty line", () => {
    const text = "a  b\n\n  c";
    expect(forTerminal(text, narrow)).toBe(text);
  });

  test.each([
    ["a pipe", { isTTY: false, columns: 40 }],
    ["a terminal that does not know its width", { isTTY: true, columns: 0 }],
  ])("is left as it is for %s", (_what, stream) => {
    const text = "word ".repeat(40);
    expect(forTerminal(text, stream)).toBe(text);
  });
});

describe("errors of commands", () => {
  const before = { isTTY: process.stderr.isTTY, columns: process.stderr.columns };
  afterEach(() => {
    Object.assign(process.stderr, before);
    vi.unstubAllEnvs();
  });

  test.each([
    ["a stack that has no file", ["plan", "--stack", "a-stack-that-nobody-has"]],
    ["a wrong command line", ["wake"]],
    ["no such command", ["nothing"]],
  ])("keep to the terminal, and to one line elsewhere: %s", async (_what, argv) => {
    Object.assign(process.stderr, { isTTY: false });
    const piped = (await runCommand(...argv)).stderr;
    expect(Math.max(...piped.split("\n").map((line) => line.length))).toBeGreaterThan(70);
    Object.assign(process.stderr, { isTTY: true, columns: 70 });
    const { stderr } = await runCommand(...argv);
    expect(Math.max(...stderr.split("\n").map((line) => line.length))).toBeLessThanOrEqual(70);
    expect(stderr.replaceAll(/\s+/g, " ")).toBe(piped.replaceAll(/\s+/g, " "));
  });
});
