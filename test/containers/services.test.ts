import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ByteBudget } from "@engine-room/service-process";
import { expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

const services = join(projectRoot, "containers/services");
const entrypoint = join(services, "entrypoint.ts");

function run(...args: string[]) {
  const command = ["--import", "tsx", entrypoint, ...args];
  return spawnSync(process.execPath, command, { cwd: projectRoot, encoding: "utf8" });
}

test("the entrypoint starts the service that its first argument names, with the other arguments", () => {
  const { status, stderr } = run("gateway", "--no-such-option");
  expect(status).toBe(1);
  expect(stderr).toMatch(/^Unknown option '--no-such-option'.* Usage: main\.ts /s);
});

test("each service of the entrypoint has a main.ts", () => {
  const [, names = ""] = /^const SERVICES = (\[.*\]);$/m.exec(readFileSync(entrypoint, "utf8")) ?? [];
  const found = readdirSync(services).filter((name) => existsSync(join(services, name, "src/main.ts")));
  expect(found.toSorted()).toEqual(JSON.parse(names));
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
])("the entrypoint refuses the arguments %j in one sentence", (args, sentence) => {
  expect(run(...args)).toMatchObject({ status: 2, stdout: "", stderr: sentence });
});

test("the image of the services copies the manifest and the sources of every workspace", () => {
  const dockerfile = readFileSync(join(services, "Dockerfile"), "utf8");
  const copied = [...dockerfile.matchAll(/^COPY containers\/services\/(\S+) /gm)].map((match) => match[1]);
  const workspaces = readdirSync(services, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const wanted = workspaces.flatMap(({ name }) => [`${name}/package.json`, `${name}/src`]);
  expect(copied).toEqual(expect.arrayContaining(wanted));
});

test("a byte budget refuses more bytes than are free, and returned bytes are free again", () => {
  const budget = new ByteBudget(10);
  expect([budget.tryTake(4), budget.tryTake(7), budget.tryTake(6), budget.tryTake(1)]).toEqual([
    true,
    false,
    true,
    false,
  ]);
  expect(budget.taken).toBe(10);
  budget.give(4);
  budget.give(6);
  expect([budget.taken, budget.tryTake(10)]).toEqual([0, true]);
});

test("requests for bytes are served in the order in which they came", async () => {
  const budget = new ByteBudget(10);
  const order: string[] = [];
  await budget.take(8);
  const large = budget.take(9).then(() => order.push("large"));
  const small = budget.take(1).then(() => order.push("small"));
  expect(budget.tryTake(1)).toBe(false);
  budget.give(8);
  await Promise.all([large, small]);
  expect(order).toEqual(["large", "small"]);
  expect(budget.taken).toBe(10);
});
