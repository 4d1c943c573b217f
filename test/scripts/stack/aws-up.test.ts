/** `npm run up` of a stack on AWS, with stand-ins for the CLI and for EKS that write down what they are asked, in its order. */
import { appendFileSync, chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { projectRoot, stackReference } from "../../../scripts/program/stack-file.ts";
import { openStack, stackPaths } from "../../../scripts/stack/backend.ts";
import { account } from "../aws/account.ts";
import { type FakeAws, startFakeAws } from "../aws/fake-aws.ts";

const FAKE_PULUMI = `#!/usr/bin/env node
const fs = require("node:fs");
const path = require("node:path");
const [...args] = process.argv.slice(2);
fs.appendFileSync(path.join(path.dirname(process.argv[1]), "calls"), "pulumi " + args[0] + "\\n");
if (args[0] === "stack" && args[1] === "init") fs.writeFileSync("Pulumi." + args[2] + ".yaml", "encryptionsalt: v1:salt\\n");
if (args[0] === "stack" && args[1] === "export") console.log("{}");
`;

const NAME = "aws-up-test";
let folder: string;
let aws: FakeAws;
const stack = { ...stackReference(NAME), configFile: join(projectRoot, "Pulumi.dev.yaml") };

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-aws-up-"));
  writeFileSync(join(folder, "pulumi"), FAKE_PULUMI);
  chmodSync(join(folder, "pulumi"), 0o755);
  const known = account({
    "eks:ListNodegroups": () => ({ json: { nodegroups: ["gpu-1"] } }),
    "eks:DescribeNodegroup": () => ({
      json: {
        nodegroup: {
          labels: { "engine-room/pool": "gpu" },
          scalingConfig: { minSize: 0, maxSize: 4, desiredSize: 3 },
        },
      },
    }),
    "eks:UpdateNodegroupConfig": () => ({ json: { update: { id: "update-1" } } }),
    "eks:DescribeUpdate": () => ({ json: { update: { status: "Successful" } } }),
  });
  aws = await startFakeAws((action, input) => {
    appendFileSync(join(folder, "calls"), `${action}\n`);
    return known(action, input);
  });
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
  vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
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
    .filter((call) => call === "pulumi up" || call.startsWith("eks:Update"));

test("pools have their sizes before Pulumi waits for pods", async () => {
  await (await openStack(stack)).up();
  expect(calls()).toEqual(["eks:UpdateNodegroupConfig", "pulumi up"]);
});

test("an up of the registries alone changes no pool", async () => {
  await (await openStack(stack)).up({ targets: ["**engine-room:aws:Registries**"] });
  expect(calls()).toEqual(["pulumi up"]);
});
