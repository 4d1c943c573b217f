import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { findPulumi } from "../../../scripts/setup/pulumi-cli.ts";
import { loadState, newDeployment, type ResourceState, saveState } from "../../../scripts/tryout/state.ts";
import { a, b, MemoryStack } from "./memory-stack.ts";

describe("the state", () => {
  const directories: string[] = [];
  afterEach(() => {
    for (const directory of directories.splice(0)) rmSync(directory, { recursive: true });
  });

  test("that can't be read is named in the message", () => {
    const directory = mkdtempSync(join(tmpdir(), "engine-room-state-"));
    directories.push(directory);
    const path = join(directory, "state.json");
    writeFileSync(path, '{"version": 3, "deploy');
    expect(() => loadState(path)).toThrow(`${path}, the state of the stack, can't be read`);
  });

  test.skipIf(process.getuid?.() !== 0)(
    "is the old one, whole, when the disk is full (skipped unless root, who can mount a small disk)",
    () => {
      const directory = mkdtempSync(join(tmpdir(), "engine-room-state-"));
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", directory]);
      try {
        const path = join(directory, "state.json");
        const resource: ResourceState = { urn: "urn:a", custom: true, type: "t", inputs: { text: "small" } };
        saveState(path, [resource], []);
        const large = { ...resource, inputs: { text: "x".repeat(200_000) } };
        expect(() => saveState(path, [large], [])).toThrow("the state of the stack, can't be written");
        expect(loadState(path).resources).toEqual([resource]);
        expect(readdirSync(directory)).toEqual(["state.json"]);
      } finally {
        execFileSync("umount", [directory]);
        rmSync(directory, { recursive: true });
      }
    },
  );

  test("of another version is refused", () => {
    const directory = mkdtempSync(join(tmpdir(), "engine-room-state-"));
    directories.push(directory);
    const path = join(directory, "state.json");
    writeFileSync(path, JSON.stringify({ ...newDeployment([], []), version: 2 }));
    expect(() => loadState(path)).toThrow("deployment version 2; this program reads version 3");
  });

  test.skipIf(findPulumi() === undefined)(
    "is imported by the real engine as it is (skipped without a Pulumi CLI on PATH)",
    { timeout: 60_000 },
    async () => {
      const stack = new MemoryStack();
      await stack.run([a, b], false);
      const directory = mkdtempSync(join(tmpdir(), "engine-room-import-"));
      directories.push(directory);
      writeFileSync(join(directory, "Pulumi.yaml"), "name: engine-room\nruntime: nodejs\n");
      writeFileSync(join(directory, "state.json"), JSON.stringify(newDeployment(stack.resources, [])));
      const pulumi = (...args: string[]) =>
        execFileSync(findPulumi() ?? "", [...args, "--stack", "test", "--non-interactive"], {
          cwd: directory,
          env: {
            ...process.env,
            PULUMI_BACKEND_URL: `file://${directory}`,
            PULUMI_CONFIG_PASSPHRASE: "test",
            PULUMI_SKIP_UPDATE_CHECK: "true",
          },
          stdio: ["ignore", "pipe", "pipe"],
        }).toString();
      pulumi("stack", "init");
      pulumi("stack", "import", "--file", "state.json");
      const exported = JSON.parse(pulumi("stack", "export")) as {
        deployment: { resources: { urn: string }[] };
      };
      expect(exported.deployment.resources.map((resource) => resource.urn)).toEqual(
        stack.resources.map((resource) => resource.urn),
      );
    },
  );
});
