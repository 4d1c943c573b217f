/** `npm run connect` of a stack on a Docker host behind ssh: a host that refuses, by ssh itself, and a stand-in for one that is logged in. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { freePorts } from "../../harness/docker/ports.ts";
import { missingSsh } from "../../harness/ssh.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { watch } from "../cluster/fake-kubectl.ts";

/** Listens where it is told to, as ssh does once it is logged in. */
const LOGGED_IN = `const { createServer } = require("node:net");
const args = process.argv.slice(2);
for (const [index, arg] of args.entries())
  if (arg === "-L") createServer((socket) => socket.destroy()).listen(Number(args[index + 1].split(":")[1]), "127.0.0.1");
`;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-ssh-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** @param ssh - Program that stands in for it; undefined: ssh itself. */
function connect(host: string, ssh?: string) {
  const stackFile = writtenStackFile(folder, {
    platform: "docker",
    tier: "cpu",
    host: { uri: `ssh://ubuntu@${host}` },
    models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
  });
  if (ssh !== undefined) writeFileSync(join(folder, "ssh"), `#!${process.execPath}\n${ssh}`, { mode: 0o755 });
  return spawn(
    process.execPath,
    ["scripts/cli.mjs", "connect", "--stack", "ssh", "--config-file", stackFile],
    {
      cwd: projectRoot,
      env: { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}` },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
}

test("the table comes when the ports lead there, and Ctrl-C ends it", async () => {
  const child = connect("gpu.example.org", LOGGED_IN);
  const output = watch(child);
  await output.saw(/gateway +http:\/\/127\.0\.0\.1:\d+ [\s\S]*Ctrl-C ends it\./);
  child.kill("SIGINT");
  expect(await output.code).toBe(0);
});

test.skipIf(missingSsh !== undefined)(`a host that refuses ssh has no table${missingSsh ?? ""}`, async () => {
  const [port] = await freePorts(1);
  const output = watch(connect(`127.0.0.1:${port}`));
  expect(await output.code).toBe(1);
  expect(output.text().replaceAll("\r", "")).toBe(
    `ssh: connect to host 127.0.0.1 port ${port}: Connection refused\nssh ended with exit code 255; its lines above say why.\n`,
  );
});
