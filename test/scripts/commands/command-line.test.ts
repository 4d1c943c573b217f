/** What a command line says, before a command does anything. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { runCommand } from "../plan/run-plan.ts";

afterEach(() => vi.unstubAllEnvs());

describe("options that npm took, where -- is missing", () => {
  test("are named, with a value behind them or without one", async () => {
    vi.stubEnv("npm_config_stack", "true");
    const { exitCode, stderr } = await runCommand("plan", "prod");
    expect(exitCode).toBe(2);
    expect(stderr).toContain("npm took --stack for itself; write `--` before the options.");

    vi.stubEnv("npm_config_stack", "");
    vi.stubEnv("npm_config_dry_run", "true");
    expect((await runCommand("images", "--push")).stderr).toContain("npm took --dry-run for itself");
  });

  test("are none where the command has them itself, or npm has them for its own", async () => {
    vi.stubEnv("npm_config_json", "true");
    vi.stubEnv("npm_config_registry", "https://registry.example.org/");
    const { exitCode, stdout } = await runCommand("plan", "--stack", "local", "--json");
    expect([exitCode, JSON.parse(stdout)]).toMatchObject([0, { plan: { platform: "local" } }]);
  });
});

describe("a command that is not for the platform of the stack", () => {
  test.each([
    ["sleep", "`npm run down -- --stack local` ends it and keeps its documents."],
    ["wake", "`npm start -- --stack local` brings it up."],
    ["images", "the stack local has `platform: local`, which runs without images."],
  ])("%s is a wrong command line, and says what there is instead", async (name, words) => {
    const { exitCode, stderr } = await runCommand(name);
    expect(exitCode).toBe(2);
    expect(stderr.split("\n")[0]).toContain(words);
  });
});

describe("what is asked", () => {
  test("is a word or --text, and not both", async () => {
    const { exitCode, stderr } = await runCommand("ask", "one", "--text", "two", "--as", "curl");
    expect(exitCode).toBe(2);
    expect(stderr).toContain("Ask one thing: “one”, or what --text says.");
    expect((await runCommand("ask", "--as", "curl")).stderr).toContain(
      'Say what to ask: npm run ask -- "TEXT".',
    );
  });
});
