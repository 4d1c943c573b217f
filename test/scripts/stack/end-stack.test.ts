/** `npm run down` of a stack on a Docker host, with a stand-in for the Docker CLI. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";

let folder: string;
let stackFile: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-end-stack-"));
  stackFile = writtenStackFile(folder, {
    platform: "docker",
    tier: "cpu",
    host: { uri: "ssh://ubuntu@gpu.example.org" },
    models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
  });
  vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
  vi.stubEnv("ENGINE_ROOM_STATE_URL", "");
  vi.stubEnv("PATH", `${folder}${delimiter}${process.env.PATH}`);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

function down(docker: string) {
  const program = join(folder, "docker");
  writeFileSync(program, `#!/bin/sh\n${docker}\n`);
  chmodSync(program, 0o755);
  return runCommand("down", "--stack", "end-stack", "--config-file", stackFile);
}

test("a host that gives no answer is an error, and nothing is said to be done before it", async () => {
  const { exitCode, stdout, stderr } = await down(
    'echo "Cannot connect to the Docker daemon at http://docker.example.com. Is the docker daemon running?" >&2; exit 1',
  );
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/^No Docker engine answers/);
});

test("a host that has nothing of it is done with", async () => {
  const { exitCode, stderr } = await down("exit 0");
  expect([exitCode, stderr]).toEqual([0, "  nothing to do\n"]);
});
