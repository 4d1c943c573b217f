/** `npm run up -- --registries`, with a stand-in for the Pulumi CLI that writes down what it is asked to make. */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { readStackFile } from "../../../scripts/program/stack-file.ts";
import { renderStack } from "../../../scripts/render.ts";
import { stackPaths } from "../../../scripts/stack/backend.ts";
import { imageLock } from "../../harness/aws/image-lock.ts";
import { EKS_STACK } from "../../harness/aws/stacks.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";
import { account } from "./account.ts";
import { type FakeAws, startFakeAws, stubCredentials } from "./fake-aws.ts";

const NAME = "registries-test";

/** Its path is read when the first module loads. */
const lockFile = await vi.hoisted(async () => {
  const { tmpdir } = await import("node:os");
  process.env.ENGINE_ROOM_IMAGE_LOCK = `${tmpdir()}/engine-room-registries-${process.pid}.lock.json`;
  return process.env.ENGINE_ROOM_IMAGE_LOCK;
});
afterAll(() => rmSync(lockFile, { force: true }));

const FAKE_PULUMI = `#!/usr/bin/env node
const fs = require("node:fs");
const path = require("node:path");
const args = process.argv.slice(2);
const only = process.env.ENGINE_ROOM_ONLY_REGISTRIES ?? null;
fs.appendFileSync(path.join(path.dirname(process.argv[1]), "calls"), JSON.stringify({ only, args }) + "\\n");
if (args[0] === "stack" && args[1] === "init") fs.writeFileSync("Pulumi." + args[2] + ".yaml", "encryptionsalt: v1:salt\\n");
if (args[0] === "stack" && args[1] === "export") console.log("{}");
if (args[0] === "stack" && args[1] === "ls") console.log("[]");
`;

/** Whose credentials these are, and a cluster that is not there yet. */
const ANSWERS = { "eks:ListNodegroups": () => ({ error: "ResourceNotFoundException", status: 404 }) };

let folder: string;
let aws: FakeAws;
beforeEach(async () => {
  aws = await startFakeAws(account(ANSWERS));
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  stubCredentials();
  folder = mkdtempSync(join(tmpdir(), "engine-room-registries-"));
  writeFileSync(join(folder, "pulumi"), FAKE_PULUMI);
  chmodSync(join(folder, "pulumi"), 0o755);
  vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
  vi.stubEnv("ENGINE_ROOM_STATE_URL", "s3://room-state/pulumi");
  vi.stubEnv("ENGINE_ROOM_RUNNER", "");
  // The command sets it for the program; the stub puts back what was there.
  vi.stubEnv("ENGINE_ROOM_ONLY_REGISTRIES", undefined);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await aws.close();
  rmSync(folder, { recursive: true });
  rmSync(stackPaths(NAME).directory, { recursive: true, force: true });
});

const up = (values: Readonly<Record<string, unknown>>, ...options: readonly string[]) =>
  runCommand("up", "--stack", NAME, "--config-file", writtenStackFile(folder, values), ...options);

function updates(): readonly { readonly only: string | null; readonly args: readonly string[] }[] {
  return readFileSync(join(folder, "calls"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { only: string | null; args: string[] })
    .filter(({ args }) => args[0] === "up");
}

const targetsOf = (args: readonly string[]) => args.filter((_, index) => args[index - 1] === "--target");

test("makes the repositories and their provider alone, and tells the program so", async () => {
  expect(await up(EKS_STACK, "--registries")).toMatchObject({ exitCode: 0 });
  const [update, ...others] = updates();
  expect(others).toEqual([]);
  expect(update?.only).toBe("1");

  // As the CLI reads them: two stars stand for anything.
  const patterns = targetsOf(update?.args ?? []).map(
    (target) => new RegExp(`^${target.split("**").map(escaped).join(".*")}$`),
  );
  const file = writtenStackFile(folder, EKS_STACK);
  const { resources } = await renderStack(NAME, readStackFile({ name: NAME, configFile: file }));
  const made = resources.filter(({ urn }) => patterns.some((pattern) => pattern.test(urn)));
  expect(new Set(made.map(({ type }) => type))).toEqual(
    new Set([
      "pulumi:providers:aws",
      "engine-room:aws:Registries",
      "aws:ecr/repository:Repository",
      "aws:ecr/lifecyclePolicy:LifecyclePolicy",
    ]),
  );
  const left = resources.filter((one) => !made.includes(one));
  expect(left.filter(({ type }) => type.startsWith("aws:ecr/"))).toEqual([]);
});

test("an `up` without it makes all of the stack", async () => {
  writeFileSync(lockFile, imageLock(checkedPlan(EKS_STACK).plan as AwsPlan));
  expect(await up(EKS_STACK)).toMatchObject({ exitCode: 0 });
  const [update] = updates();
  expect(update?.only).toBeNull();
  expect(targetsOf(update?.args ?? [])).toEqual([]);
});

test("is refused on another platform, before anything is asked", async () => {
  const local = { platform: "local", models: [{ name: "smollm2", model: "smollm2-135m-instruct" }] };
  const { exitCode, stderr } = await up(local, "--registries");
  expect(exitCode).toBe(2);
  expect(stderr).toContain("--registries is for stacks of `platform: aws`.");
  expect(() => readFileSync(join(folder, "calls"))).toThrow("ENOENT");
});

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
