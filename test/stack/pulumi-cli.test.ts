import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { findPulumi } from "../../scripts/setup/pulumi-cli.ts";
import { TestStack } from "../harness/stack.ts";

describe.skipIf(findPulumi() === undefined)("with a Pulumi CLI (skipped where none is on PATH)", () => {
  const stack = new TestStack("pulumi");
  const throughCli = { ENGINE_ROOM_RUNNER: "" };
  afterAll(() => stack.succeedWith(throughCli, "down"));

  test("a preview of a stack that is not there leaves nothing", async () => {
    const { stdout } = await stack.succeedWith(throughCli, "preview");
    expect(stdout).toContain("local:index:Process");
    expect(existsSync(stack.directory)).toBe(false);
  });

  test("a stack goes over from the try-out runner as it is", async () => {
    await stack.succeed("up");
    const pids = await stack.pids();
    const { stderr } = await stack.succeedWith(throughCli, "up");
    expect(stderr).toContain("Importing the state");
    expect(stderr).toMatch(/Resources:\n\s+\d+ unchanged\n/);
    expect(await stack.pids()).toEqual(pids);
    expect((await stack.runWith(throughCli, "smoke")).code).toBe(0);
    expect((await stack.runWith(throughCli, "preview", "--expect-no-changes")).code).toBe(0);
  });

  test("the try-out runner then leaves it alone", async () => {
    const { code, stderr } = await stack.run("up");
    expect(code).toBe(1);
    expect(stderr).toContain("belongs to the Pulumi CLI");
  });

  test("the project's own files stay as they are, and down leaves nothing", async () => {
    await stack.succeedWith(throughCli, "down");
    expect(existsSync(stack.directory)).toBe(false);
    expect(stack.processes()).toEqual(new Map());
    expect(existsSync(join(projectRoot, `Pulumi.${stack.name}.yaml`))).toBe(false);
    expect(readFileSync(join(projectRoot, "Pulumi.local.yaml"), "utf8")).not.toContain("encryptionsalt");
  });
});
