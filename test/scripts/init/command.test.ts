import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";
import { runCommand } from "../plan/run-plan.ts";
import { KEYS, Terminal } from "./terminal.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-room-init-"));
const file = join(folder, "Pulumi.new.yaml");

afterAll(() => rmSync(folder, { recursive: true }));

beforeEach(() => rmSync(file, { force: true }));

/** `init new`, with the options of a line. */
const init = (line: string) =>
  runCommand("init", "new", "--config-file", file, ...line.split(" ").filter(Boolean));

const EC2 = "--where ec2 --account 111122223333 --region us-east-1";

test("on a terminal every question is asked, and a wrong answer is asked again", async () => {
  const terminal = new Terminal("init", "--config-file", file);
  const { down, enter, space, erase } = KEYS;
  await terminal.answer("Where does the stack run?", down, down, down, enter);
  await terminal.answer("Which models", space, enter);
  await terminal.answer("Number of the AWS account", "1", "2", enter);
  await terminal.answer("An account has twelve digits", erase, erase, "111122223333", enter);
  await terminal.answer("AWS region", enter);
  await terminal.answer("Which machine?", enter);
  await terminal.answer("Name of the stack", enter);
  await terminal.answer("Pulumi.new.yaml?", enter);
  expect(await terminal.end()).toBe(0);
  expect(terminal.text).toContain(`npx engine-room up --stack my-ec2 --config-file ${file}`);
  const [exitCode, plan] = await planOf(file);
  expect(exitCode).toBe(0);
  expect(plan).toContain("gpt2-medium");
  expect(readFileSync(file, "utf8")).toMatch(/^# yaml-language-server: \$schema=\S+\n/);
});

test("on a terminal Ctrl-C ends it, and nothing is written", async () => {
  const terminal = new Terminal("init", "--config-file", file, "--where", "docker");
  await terminal.answer("Which models", KEYS.interrupt);
  expect(await terminal.end()).toBe(1);
  expect(terminal.text).toContain("Nothing was written.");
  expect(existsSync(file)).toBe(false);
});

test("with options nothing is asked, and the next two commands are printed", async () => {
  const { exitCode, stdout } = await init(`${EC2} --model llava-1.5-7b --instance-type g5.4xlarge --yes`);
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(
    /^Wrote \S+\/Pulumi\.new\.yaml: llava-1\.5-7b; 1 × A10G, .* of 21\.9 GiB of GPU memory, \$.* an hour\.\nNext:\n/,
  );
  expect(stdout).toContain(`  npx engine-room plan --stack new --config-file ${file}\n`);
  expect((await planOf(file))[0]).toBe(0);
});

test("several models are served by as many machines of a cluster", async () => {
  const cluster = "--where eks --account 111122223333 --api-cidr 203.0.113.7/32";
  const { exitCode } = await init(`${cluster} --model gpt2-medium --model blip2-opt-2.7b`);
  expect(exitCode).toBe(0);
  expect(readFileSync(file, "utf8")).toContain("max: 2");
  expect((await planOf(file))[0]).toBe(0);
});

test("models without an engine get a release that serves them, and so do others beside them", async () => {
  const token = "--hub-token-at arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-AbCdEf";
  const { exitCode } = await init(`${EC2} --model qwen2.5-vl-3b --model llama-2-7b ${token}`);
  expect(exitCode).toBe(0);
  const text = readFileSync(file, "utf8");
  expect(text).toMatch(/without an engine\.\n.*:release: .*\n.*verified.*\n.*:acceptUnverified: true\n/);
  expect(text.match(/runtime: llmapi/g)).toHaveLength(2);
  expect((await planOf(file))[0]).toBe(0);
});

test("a file that exists is not overwritten", async () => {
  const line = `${EC2} --model gpt2-medium`;
  await init(line);
  const before = readFileSync(file, "utf8");
  const { exitCode, stderr } = await init(`${line} --instance-type g5.12xlarge`);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("Pulumi.new.yaml exists already")]);
  expect(readFileSync(file, "utf8")).toBe(before);
});

test("a machine that is too small is a problem of the plan, and nothing is written", async () => {
  const { exitCode, stderr } = await init(`${EC2} --model llava-1.5-7b --instance-type g5.2xlarge`);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("host memory")]);
  expect(stderr).toMatch(/^1 problem in the stack's configuration:/);
  expect(existsSync(file)).toBe(false);
});

test.each([
  ["", ["--where is missing. ", "--model is missing. Choose from gpt2-medium, .*, smollm2-135m-instruct"]],
  ["--where docker", ["--model is missing. Choose from gpt2-medium, "]],
  ["--where docker --model gpt2-medium", ["--gpu is missing. Choose from 1xA10G, "]],
  ["--where docker --model gpt2-medium --gpu A10G --region us-east-1", ["--region has no effect"]],
  ["--where local --gpu A10G", ["--gpu has no effect"]],
  [`${EC2} --model gpt2-medium --gpu A10G`, ["--gpu has no effect"]],
  [
    "--where kubernetes --model llama-2-7b-chat",
    ["--registry is missing", "--hub-token-at is missing", "--gpu is missing"],
  ],
  [
    "--where eks --account 12 --api-cidr x --model gpt2-medium --host unix:///x",
    ["--account: An account has twelve digits", "--api-cidr: It must be a CIDR", "--host has no effect"],
  ],
  [
    "--where eks --model gpt-3 --hub-token-at x --instance-type g5.xlarge",
    ['Unknown value "gpt-3" of --model. Choose from ', "--account is missing", "--api-cidr is missing"],
  ],
  [
    "--where docker --model llama-2-7b-chat --gpu A10G --hub-token-at hf_abcdefgh",
    ["--hub-token-at: It must be an absolute path"],
  ],
  [
    "--model llama-2-7b --account 12 --hub-token-at hf_abcdefgh --gpu H900 --instance-type g5.xlrge",
    [
      "--where is missing",
      ".* --gpu. Did you mean",
      "--instance-type: .* Did you mean",
      "--account: An account",
    ],
  ],
  [
    "--where local --model qwen2.5-vl-3b",
    ["--where local does not serve qwen2.5-vl-3b. Choose another place"],
  ],
  [
    "--where docker --model gpt2-medium --model qwen2.5-vl-3b --gpu A10G",
    ["--model: .* differ: gpt2-medium by an engine, qwen2.5-vl-3b by PyTorch. Write"],
  ],
  ['--model gpt2-medium --account "012345678901"', ["--where is missing"]],
  ["--model llava-1.5-8b", ["--where is missing", ".* --model. Did you mean llava-1.5-7b?"]],
  [
    "--where aws --account 111122223333 --model gpt2-medium --gpu A100",
    ["Unknown .* --gpu. Choose from (A100-\\S+, ){3}A100-\\S+\\.$", "--gpu has no effect"],
  ],
  ["--where docker --model gpt2-medium --gpu H900", ['Unknown value "H900" of --gpu. Did you mean H100?']],
])("without a terminal `init %s` names each missing and wrong option", async (line, starts) => {
  const { exitCode, stderr } = await init(line);
  const lines = [...starts, "`npx engine-room init --help`"].map((start) =>
    expect.stringMatching(new RegExp(`^${start.replaceAll("?", "\\?")}`)),
  );
  expect([exitCode, stderr.trimEnd().split("\n")]).toEqual([2, lines]);
  expect(stderr).not.toContain("hf_");
  expect(existsSync(file)).toBe(false);
});

test("a name that is taken is reported with the missing options", async () => {
  const { stderr } = await runCommand("init", "local", "--where", "kubernetes", "--model", "gpt2-medium");
  expect(stderr).toMatch(/^--registry is missing.*\n--gpu is missing.*\nPulumi\.local\.yaml exists already/);
});

async function planOf(path: string): Promise<readonly [number, string]> {
  const { exitCode, stdout } = await runCommand("plan", "--stack", "new", "--config-file", path);
  return [exitCode, stdout];
}
