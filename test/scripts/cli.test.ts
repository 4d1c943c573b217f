import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

/** Notes what it is asked, and leaves no packages. */
const NPM = `#!/bin/sh
echo "$1" >> calls
mkdir -p node_modules
`;

let root: string;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "engine-room-cli-"));
  mkdirSync(join(root, "scripts"));
  mkdirSync(join(root, "bin"));
  cpSync(join(projectRoot, "scripts/cli.mjs"), join(root, "scripts/cli.mjs"));
  writeFileSync(join(root, "package-lock.json"), "{}\n");
  writeFileSync(join(root, "bin/npm"), NPM);
  chmodSync(join(root, "bin/npm"), 0o755);
});
afterAll(() => rmSync(root, { recursive: true }));

/** Only its own file is there: a command that it loaded would be an error. */
function install() {
  const env = { ...process.env, PATH: `${join(root, "bin")}${delimiter}${process.env.PATH}` };
  return spawnSync(process.execPath, ["scripts/cli.mjs", "install"], { cwd: root, env, encoding: "utf8" });
}
const calls = () => readFileSync(join(root, "calls"), "utf8").trim().split("\n");

test("installs the packages of the lock file, and no more: once, until it is another one", () => {
  expect(install()).toMatchObject({ status: 0, stdout: "" });
  expect(install()).toMatchObject({ status: 0, stdout: "", stderr: "" });
  expect(calls()).toEqual(["ci"]);
  writeFileSync(join(root, "package-lock.json"), '{ "lockfileVersion": 3 }\n');
  expect(install().status).toBe(0);
  expect(calls()).toEqual(["ci", "ci"]);
});
