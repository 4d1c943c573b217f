/** A stack that has no file: a name that was mistyped, or a stack of which only its state is left. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { stackPaths } from "../../../scripts/stack/backend.ts";
import { saveState } from "../../../scripts/tryout/state.ts";
import { runCommand } from "../plan/run-plan.ts";

const STACK = `unknown-stack-${process.pid}`;
const { directory, data, tryoutState } = stackPaths(STACK);

beforeEach(() => {
  vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
  vi.stubEnv("ENGINE_ROOM_STATE_URL", "");
});
afterEach(() => {
  vi.unstubAllEnvs();
  for (const folder of [directory, data]) rmSync(folder, { recursive: true, force: true });
});

describe("of which there is nothing", () => {
  test.each([
    [["down"]],
    [["down", "--delete-data"]],
    [["refresh"]],
    [["status"]],
    [["status", "--json"]],
    [["outputs"]],
    [["logs"]],
    [["logs", "gateway"]],
    [["smoke"]],
    [["seed"]],
    [["bench"]],
    [["preview"]],
    [["plan"]],
  ])("%j is an error that names the file", async ([name = "", ...words]) => {
    const { exitCode, stdout, stderr } = await runCommand(name, "--stack", STACK, ...words);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(`The stack ${STACK} has no file Pulumi.${STACK}.yaml.`);
    expect(stderr).toContain("name another file with --config-file");
    expect(existsSync(directory)).toBe(false);
  });

  test.each(["down", "status"])("%s names a file that was mistyped", async (name) => {
    const file = join(directory, "nope.yaml");
    const { exitCode, stderr } = await runCommand(name, "--stack", STACK, "--config-file", file);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`The stack ${STACK} has no file ${file}.`);
  });
});

describe("of which something is left", () => {
  test("goes down by its state alone", async () => {
    saveState(tryoutState, [], []);
    expect((await runCommand("refresh", "--stack", STACK)).exitCode).toBe(0);
    expect((await runCommand("down", "--stack", STACK)).exitCode).toBe(0);
    expect(existsSync(directory)).toBe(false);
  });

  test("has its documents deleted when they are all that is left", async () => {
    mkdirSync(data, { recursive: true });
    writeFileSync(join(data, "a"), "");
    const kept = await runCommand("down", "--stack", STACK);
    expect([kept.exitCode, existsSync(data)]).toEqual([0, true]);
    expect(kept.stderr).toContain("--delete-data");
    expect((await runCommand("down", "--stack", STACK, "--delete-data")).exitCode).toBe(0);
    expect(existsSync(data)).toBe(false);
  });
});
