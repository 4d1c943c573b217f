/** `npm run up` of a stack on AWS, with stand-ins for the CLI and for EKS that write down what they are asked, in its order. */
import { appendFileSync, chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { ConfigError } from "../../../infra/problems.ts";
import { readAwsTarget } from "../../../scripts/program/aws-target.ts";
import { projectRoot, stackReference } from "../../../scripts/program/stack-file.ts";
import { openStack, stackPaths } from "../../../scripts/stack/backend.ts";
import { imageLock } from "../../harness/aws/image-lock.ts";
import { type Answers, account } from "../aws/account.ts";
import { type FakeAws, startFakeAws, stubCredentials } from "../aws/fake-aws.ts";

/** Its path is read when the first module loads. */
const lockFile = await vi.hoisted(async () => {
  const { tmpdir } = await import("node:os");
  process.env.ENGINE_ROOM_IMAGE_LOCK = `${tmpdir()}/engine-room-aws-up-${process.pid}.lock.json`;
  return process.env.ENGINE_ROOM_IMAGE_LOCK;
});
afterAll(() => rmSync(lockFile, { force: true }));

const FAKE_PULUMI = `#!/usr/bin/env node
const fs = require("node:fs");
const path = require("node:path");
const [...args] = process.argv.slice(2);
fs.appendFileSync(path.join(path.dirname(process.argv[1]), "calls"), "pulumi " + (args[0] === "state" ? args.slice(0, 3).join(" ") : args[0]) + "\\n");
if (args[0] === "stack" && args[1] === "init") fs.writeFileSync("Pulumi." + args[2] + ".yaml", "encryptionsalt: v1:salt\\n");
if (args[0] === "stack" && args[1] === "export") console.log(process.env.FAKE_STATE ?? "{}");
if (args[0] === "up") process.exitCode = Number(process.env.FAKE_UP ?? "0");
`;

const NAME = "aws-up-test";
let folder: string;
let aws: FakeAws;
let answers: Record<string, Answers[string]>;
const stack = { ...stackReference(NAME), configFile: join(projectRoot, "Pulumi.dev.yaml") };

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-aws-up-"));
  writeFileSync(join(folder, "pulumi"), FAKE_PULUMI);
  chmodSync(join(folder, "pulumi"), 0o755);
  answers = {
    "eks:ListNodegroups": () => ({ json: { nodegroups: ["gpu-1"] } }),
    "eks:DescribeNodegroup": () => ({
      json: {
        nodegroup: {
          status: "ACTIVE",
          labels: { "engine-room/pool": "gpu" },
          instanceTypes: ["g5.xlarge"],
          scalingConfig: { minSize: 0, maxSize: 4, desiredSize: 3 },
        },
      },
    }),
    "eks:UpdateNodegroupConfig": () => ({ json: { update: { id: "update-1" } } }),
    "eks:DescribeUpdate": () => ({ json: { update: { status: "Successful" } } }),
  };
  aws = await startFakeAws((action, input) => {
    appendFileSync(join(folder, "calls"), `${action}\n`);
    return account(answers)(action, input);
  });
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  stubCredentials();
  vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
  writeFileSync(lockFile, imageLock(readAwsTarget(stack).plan));
  vi.stubEnv("ENGINE_ROOM_STATE_URL", "");
  vi.stubEnv("ENGINE_ROOM_RUNNER", "");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await aws.close();
  rmSync(folder, { recursive: true });
  rmSync(stackPaths(NAME).directory, { recursive: true, force: true });
});

const calls = () =>
  readFileSync(join(folder, "calls"), "utf8")
    .trim()
    .split("\n")
    .filter((call) => /^pulumi (up|state)|^eks:Update/.test(call));

test("pools have their sizes before Pulumi waits for pods", async () => {
  await (await openStack(stack)).up();
  expect(calls()).toEqual(["eks:UpdateNodegroupConfig", "pulumi up"]);
});

test("a node group that EKS could not make is made anew, and one whose update failed is not", async () => {
  const group = (name: string) => ({
    ...{ urn: `urn:${name}`, type: "aws:eks/nodeGroup:NodeGroup", id: `engine-room-${NAME}:${name}` },
    initErrors: ["unexpected state"],
  });
  vi.stubEnv("FAKE_STATE", JSON.stringify({ deployment: { resources: [group("cpu-1"), group("gpu-1")] } }));
  answers["eks:ListNodegroups"] = () => ({ json: { nodegroups: ["cpu-1", "gpu-1"] } });
  answers["eks:DescribeNodegroup"] = ({ path }) => ({
    json: { nodegroup: { status: path.endsWith("gpu-1") ? "CREATE_FAILED" : "ACTIVE" } },
  });
  await (await openStack(stack)).up();
  expect(calls()).toEqual(["pulumi state taint urn:gpu-1", "pulumi up"]);
});

test("an up that fails says what runs since then", async () => {
  vi.stubEnv("FAKE_UP", "255");
  const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  await expect((await openStack(stack)).up()).rejects.toThrow(/ended with exit code 255/);
  expect(stderr.mock.calls.at(-1)?.[0]).toMatch(
    /^Machines of aws-up-test may run that slept before \(Pool gpu: .*\); `npm run sleep -- --stack aws-up-test` ends that\.\n$/,
  );
});

test("an up of images that nobody pushed changes no pool, and does not begin", async () => {
  writeFileSync(lockFile, JSON.stringify({ version: 1, images: {} }));
  await expect((await openStack(stack)).up()).rejects.toThrow(ConfigError);
  expect(calls()).toEqual([]);
});

test("an up of the registries alone changes no pool", async () => {
  await (await openStack(stack)).up({ targets: ["**engine-room:aws:Registries**"] });
  expect(calls()).toEqual(["pulumi up"]);
});
