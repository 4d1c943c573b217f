import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

const services = join(projectRoot, "containers/services");

function run(...args: string[]) {
  const command = ["--import", "tsx", join(services, "entrypoint.ts"), ...args];
  return spawnSync(process.execPath, command, { cwd: projectRoot, encoding: "utf8" });
}

test.each(["gateway", "mock-mongo", "mock-vector"])("the first word starts %s with the others", (service) => {
  const { status, stderr } = run(service, "--no-such-option");
  expect(status).toBe(1);
  expect(stderr).toMatch(/^Unknown option '--no-such-option'.* Usage: main\.ts /s);
});

test.each([
  [
    [],
    "The name of a service is missing; the first argument must be one of gateway, mock-mongo, mock-vector.\n",
  ],
  [
    ["../x"],
    "There is no service ../x; the first argument must be one of gateway, mock-mongo, mock-vector.\n",
  ],
])("%j is refused in one sentence", (args, sentence) => {
  expect(run(...args)).toMatchObject({ status: 2, stdout: "", stderr: sentence });
});

test("the image has every workspace: its manifest before the packages are installed, its sources after", () => {
  const dockerfile = readFileSync(join(services, "Dockerfile"), "utf8");
  const copied = [...dockerfile.matchAll(/^COPY containers\/services\/(\S+) /gm)].map((match) => match[1]);
  const workspaces = readdirSync(services, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const wanted = workspaces.flatMap(({ name }) => [`${name}/package.json`, `${name}/src`]);
  expect(copied).toEqual(expect.arrayContaining(wanted));
});
