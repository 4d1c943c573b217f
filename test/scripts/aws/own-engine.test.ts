/** `npm run images` of a stack on AWS where this machine's Docker lacks something: no stack file can mend that. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { EKS_STACK } from "../../harness/aws/stacks.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";
import { account } from "./account.ts";
import { type FakeAws, startFakeAws } from "./fake-aws.ts";

let aws: FakeAws;
let folder: string;
beforeEach(async () => {
  aws = await startFakeAws(account());
  folder = mkdtempSync(join(tmpdir(), "engine-room-own-engine-"));
  const environment = {
    AWS_ENDPOINT_URL: aws.url,
    AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
    AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    PATH: folder,
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
  await aws.close();
});

/** @param script - Of a `docker` on PATH; null: there is none. */
async function images(script: string | null, ...options: readonly string[]): Promise<string> {
  if (script !== null) {
    writeFileSync(join(folder, "docker"), `#!${process.execPath}\n${script}`);
    chmodSync(join(folder, "docker"), 0o755);
  }
  const file = join(folder, "stack.yaml");
  writeFileSync(file, stackFileText(EKS_STACK));
  const { exitCode, stderr } = await runCommand(
    "images",
    "--stack",
    "dev",
    "--config-file",
    file,
    ...options,
  );
  expect(exitCode).toBe(1);
  return stderr;
}

test("no engine: what to start, once, and no key of a stack file", async () => {
  const words =
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";
  const said = await images(`console.error(${JSON.stringify(words)}); process.exit(1);`);
  expect(said).toBe(
    "No Docker engine answers at unix:///var/run/docker.sock. It builds and pushes the images of the stack.\nStart it (`sudo systemctl start docker`), or run this on a machine that has one (https://docs.docker.com/engine/install/).\n",
  );
});

test("other words of the engine stay", async () => {
  const words = "error during connect: the handshake failed";
  expect(await images(`console.error(${JSON.stringify(words)}); process.exit(1);`)).toContain(words);
});

test("--mirror --dry-run without the CLI, or without buildx: what to install", async () => {
  expect(await images(null, "--mirror", "--dry-run")).toMatch(
    /^This machine has no `docker` command, which reads digests.*install\/;/,
  );
  const withoutBuildx = `console.error("unknown command: docker buildx\\n\\nRun 'docker --help' for more information"); process.exit(1);`;
  const said = await images(withoutBuildx, "--mirror", "--dry-run");
  expect(said).toMatch(/^The Docker CLI of this machine has no buildx, .*docker-buildx\)\.$/m);
  expect(said).not.toContain("docker --help");
});
