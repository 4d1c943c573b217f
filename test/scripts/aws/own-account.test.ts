/** Commands that ask AWS, as somebody types them: with credentials of another account, without any, and without the state. */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { projectName } from "../../../scripts/program/stack-file.ts";
import { stackPaths } from "../../../scripts/stack/backend.ts";
import { ACCOUNT, EC2_STACK, EKS_STACK, REGION } from "../../harness/aws/stacks.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";
import { type Answers, account } from "./account.ts";
import { type FakeAws, startFakeAws, xmlAnswer } from "./fake-aws.ts";

const STACK = `own-account-${process.pid}`;
const OTHER = "999900001111";
const STACKS = { eks: EKS_STACK, ec2: EC2_STACK } as const;
const NAT_GATEWAY = `arn:aws:ec2:${REGION}:${ACCOUNT}:natgateway/nat-0123`;
const VPC = `arn:aws:ec2:${REGION}:${ACCOUNT}:vpc/vpc-0123`;
const listed = (...arns: readonly string[]): Answers => ({
  "tag:GetResources": () => ({
    json: { ResourceTagMappingList: arns.map((ResourceARN) => ({ ResourceARN })) },
  }),
});
const ofAnother: Answers = {
  "sts:GetCallerIdentity": () =>
    xmlAnswer("GetCallerIdentity", { Account: OTHER, Arn: `arn:aws:iam::${OTHER}:user/me` }, "member"),
};

/** A Pulumi CLI that writes down what it was told, and has no stack. */
const FAKE_PULUMI = `#!/bin/sh
echo "$1 $2" >> "$FAKE_CALLS"
case "$1 $2" in
  "stack init") echo "encryptionsalt: v1:salt" > "Pulumi.$3.yaml" ;;
  "stack export") echo "{}" ;;
esac
`;

let aws: FakeAws | undefined;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-own-account-"));
  writeFileSync(join(folder, "calls"), "");
  const environment = {
    AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
    AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    AWS_CONFIG_FILE: "/dev/null",
    AWS_PROFILE: "",
    AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
    AWS_EC2_METADATA_DISABLED: "true",
    FAKE_CALLS: join(folder, "calls"),
    ENGINE_ROOM_RUNNER: "",
    ENGINE_ROOM_STATE_URL: "",
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
  rmSync(stackPaths(STACK).directory, { recursive: true, force: true });
  await aws?.close();
});

async function run(compute: keyof typeof STACKS, answers: Answers, [name = "", ...words]: readonly string[]) {
  aws = await startFakeAws(account(answers));
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  const file = join(folder, "stack.yaml");
  writeFileSync(file, stackFileText(STACKS[compute]));
  return runCommand(name, "--stack", STACK, "--config-file", file, ...words);
}

function usePulumi(): void {
  const program = join(folder, "pulumi");
  writeFileSync(program, FAKE_PULUMI);
  chmodSync(program, 0o755);
  vi.stubEnv("PATH", `${folder}${delimiter}${process.env.PATH}`);
}

const pulumiCalls = () => readFileSync(join(folder, "calls"), "utf8").split("\n").filter(Boolean);

const COMMANDS = [
  ["up"],
  ["up", "--registries"],
  ["refresh"],
  ["down"],
  ["sleep"],
  ["wake"],
  ["status"],
  ["logs", "gateway"],
  ["connect"],
  ["smoke"],
  ["verify"],
  ["ask", "What is it?"],
  ["images", "--push"],
  ["images", "--mirror", "--dry-run"],
].map((words) => [words.join(" "), words] as const);

describe.each(["eks", "ec2"] as const)("a stack on %s", (compute) => {
  test.each(COMMANDS)(
    "%s: credentials of another account end it, and nothing else is asked",
    async (_, words) => {
      usePulumi();
      const { exitCode, stdout, stderr } = await run(compute, ofAnother, words);
      expect([exitCode, stdout]).toEqual([1, ""]);
      expect(stderr).toBe(
        `Your credentials are of the account ${OTHER}.\nThe stack file says ${ACCOUNT}, the account of examples, and you are arn:aws:iam::${OTHER}:user/me. Nothing else was asked.\nFix: Write \`account: "${OTHER}"\` if that one is to have the stack; else take credentials of the one that is, and write it.\n`,
      );
      expect(aws?.asked).toEqual(["sts:GetCallerIdentity"]);
      expect(pulumiCalls()).toEqual([]);
    },
  );
});

test.each(COMMANDS)("%s: without credentials it says how to get some", async (_, words) => {
  usePulumi();
  vi.stubEnv("AWS_ACCESS_KEY_ID", undefined);
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", undefined);
  const { exitCode, stderr } = await run("ec2", {}, words);
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/^AWS does not know who you are\.\nCredentials.*\nFix: Log in \(`aws sso login`\)/);
});

describe("a profile", () => {
  beforeEach(() => {
    vi.stubEnv("AWS_ACCESS_KEY_ID", undefined);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", undefined);
    const file = join(folder, "config");
    writeFileSync(file, "[profile work]\nregion = us-east-1\n");
    vi.stubEnv("AWS_CONFIG_FILE", file);
  });

  test.each(["preflight", "status"])("that is in no file is named by %s", async (name) => {
    vi.stubEnv("AWS_PROFILE", "wrok");
    const { exitCode, stdout, stderr } = await run("ec2", {}, [name]);
    expect(exitCode).toBe(1);
    const text = `${stdout}${stderr}`.replaceAll(/\s+/g, " ");
    expect(text).toContain("There is no AWS profile wrok.");
    expect(text).toContain("`aws configure list-profiles`");
  });

  test("that is there, and has no credentials, is not called missing", async () => {
    vi.stubEnv("AWS_PROFILE", "work");
    const { stderr } = await run("ec2", {}, ["status"]);
    expect(stderr).toMatch(/^AWS does not know who you are\./);
  });
});

test("a region that nobody reaches is not called an unknown caller", async () => {
  aws = await startFakeAws(account());
  const { url } = aws;
  await aws.close();
  vi.stubEnv("AWS_ENDPOINT_URL", url);
  const file = join(folder, "stack.yaml");
  writeFileSync(file, stackFileText(STACKS.ec2));
  const { exitCode, stderr } = await runCommand("status", "--stack", STACK, "--config-file", file);
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/^AWS was not reached in us-east-1\.\n.*ECONNREFUSED.*\nFix: Look at `region`/);
});

describe("without the Pulumi CLI", () => {
  test.each(["start", "up", "refresh", "down", "preview"])(
    "%s is refused, and AWS is not asked",
    async (name) => {
      vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
      const { exitCode, stderr } = await run("eks", listed(NAT_GATEWAY), [name]);
      expect(exitCode).toBe(1);
      expect(stderr).toBe(
        "ENGINE_ROOM_RUNNER=tryout leaves the Pulumi CLI aside, and only the Pulumi CLI deploys stacks of `platform: aws`; unset it and try again.\n",
      );
      expect(aws?.asked).toEqual([]);
      expect(existsSync(stackPaths(STACK).directory)).toBe(false);
    },
  );

  test("it says so, and how one is installed, before anything else", async () => {
    vi.stubEnv("PATH", folder);
    vi.stubEnv("PULUMI_HOME", folder);
    const { exitCode, stderr } = await run("ec2", {}, ["start"]);
    expect(exitCode).toBe(1);
    expect(stderr).toBe(
      "This machine has no Pulumi CLI, and only the Pulumi CLI deploys stacks of `platform: aws`; install it (https://www.pulumi.com/docs/install/), put `pulumi` on PATH and try again.\n",
    );
  });
});

describe("down of a stack that the state does not know", () => {
  test("is an error where the account has things of it, and nothing is deleted", async () => {
    usePulumi();
    const { exitCode, stdout, stderr } = await run("eks", listed(NAT_GATEWAY, VPC), ["down"]);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(
      `This machine's state (.stacks/${STACK}) has no such stack, and the account has 2 things of it: run \`down\` where it was brought up, or with its ENGINE_ROOM_STATE_URL.\n`,
    );
    expect(stderr).toContain(NAT_GATEWAY);
    expect(pulumiCalls()).toEqual([]);
  });

  test("is an error too where an operation left an empty record, which goes", async () => {
    usePulumi();
    const { directory, pulumi } = stackPaths(STACK);
    const records = join(pulumi, ".pulumi", "stacks", projectName());
    mkdirSync(records, { recursive: true });
    writeFileSync(join(records, `${STACK}.json`), "{}");
    const { exitCode, stderr } = await run("eks", listed(NAT_GATEWAY), ["down"]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("has no such stack, and the account has 1 thing of it: run `down` where");
    expect(existsSync(directory)).toBe(false);
  });

  test("is an error where AWS does not say what there is", async () => {
    usePulumi();
    const denied: Answers = { "tag:GetResources": () => ({ error: "AccessDeniedException" }) };
    const { exitCode, stderr } = await run("eks", denied, ["down"]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("whether the account has things of it is not known: AccessDeniedException");
  });

  test("is done where there is nothing", async () => {
    usePulumi();
    const { exitCode, stdout } = await run("eks", listed(), ["down"]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(new RegExp(`^Nothing with the tag engine-room:stack=${STACK} still costs money`));
  });
});

test("outputs of a stack that the state does not know: `npm run up`, and where else it may be", async () => {
  usePulumi();
  const { exitCode, stderr } = await run("eks", {}, ["outputs"]);
  expect(exitCode).toBe(1);
  expect(stderr).toContain(`\`npm run up -- --stack ${STACK}\` brings it up, and where it is up already`);
});
