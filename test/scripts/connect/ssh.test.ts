/** `npm run connect` of a stack on a Docker host behind ssh, with a stand-in for ssh. */
import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { watch } from "../cluster/fake-kubectl.ts";

/** Listens where it is told to, as ssh does once it is logged in. */
const LOGGED_IN = `const { createServer } = require("node:net");
const args = process.argv.slice(2);
for (const [index, arg] of args.entries())
  if (arg === "-L") createServer((socket) => socket.destroy()).listen(Number(args[index + 1].split(":")[1]), "127.0.0.1");
`;
const REFUSED = `console.error("ssh: connect to host gpu.example.org port 22: Connection refused");
process.exit(255);
`;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-ssh-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function connect(ssh: string) {
  const stackFile = writtenStackFile(folder, {
    platform: "docker",
    tier: "cpu",
    host: { uri: "ssh://ubuntu@gpu.example.org" },
    models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
  });
  writeFileSync(join(folder, "ssh"), `#!${process.execPath}\n${ssh}`);
  chmodSync(join(folder, "ssh"), 0o755);
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
  const child = connect(LOGGED_IN);
  const output = watch(child);
  await output.saw(/gateway +http:\/\/127\.0\.0\.1:\d+ [\s\S]*Ctrl-C ends it\./);
  child.kill("SIGINT");
  expect(await output.code).toBe(0);
});

test("a host that refuses has no table", async () => {
  const output = watch(connect(REFUSED));
  expect(await output.code).toBe(1);
  expect(output.text()).toBe(
    "ssh: connect to host gpu.example.org port 22: Connection refused\nssh ended with exit code 255; its lines above say why.\n",
  );
});
