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
const init = (line: string) => runCommand("init", "new", "--config-file", file, ...line.split(" "));

const EC2 = "--where aws --account 111122223333 --region us-east-1";

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
  expect(terminal.text).toContain(`npx engine-room up --stack my-aws --config-file ${file}`);
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

test("a file that exists is not overwritten", async () => {
  const line = `${EC2} --model gpt2-medium`;
  await init(line);
  const before = readFileSync(file, "utf8");
  const { exitCode, stderr } = await init(`${line} --instance-type g5.12xlarge`);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("Pulumi.new.yaml exists already")]);
  expect(readFileSync(file, "utf8")).toBe(before);
});

test.each([
  ["a machine that is too small", `${EC2} --model llava-1.5-7b --instance-type g5.2xlarge`, "host memory"],
  ["a wrong account", "--where aws --account 12 --model gpt2-medium", "An account has twelve digits"],
  [
    "a token in place of its place",
    "--where docker --model llama-2-7b-chat --gpu A10G --hub-token-at hf_abcdefgh",
    "[secret]",
  ],
])("%s is a problem of the plan, and nothing is written", async (_title, line, words) => {
  const { exitCode, stderr } = await init(line);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining(words)]);
  expect(stderr).not.toContain("hf_");
  expect(existsSync(file)).toBe(false);
});

test.each([
  ["--where docker", "--model is missing. Choose from gpt2-medium, "],
  ["--where aws --model gpt2-medium", "--account is missing: "],
  ["--where docker --model gpt2-medium", "--gpu is missing. Choose from 1xA10G, "],
  ["--where docker --model gpt2-medium --gpu A10G --region us-east-1", "--region has no effect"],
  ["--where local --gpu A10G", "--gpu has no effect"],
  [`${EC2} --model gpt2-medium --gpu A10G`, "--gpu has no effect"],
  ["--where docker --model llama-2-7b-chat", "--hub-token-at is missing"],
])("without a terminal `init %s` names the wrong option", async (line, words) => {
  const { exitCode, stderr } = await init(line);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining(words)]);
});

async function planOf(path: string): Promise<readonly [number, string]> {
  const { exitCode, stdout } = await runCommand("plan", "--stack", "new", "--config-file", path);
  return [exitCode, stdout];
}

test.each([
  ["--model", `${EC2} --model llava-1.5-8b`, "Did you mean llava-1.5-7b?"],
  ["--gpu", "--where docker --model gpt2-medium --gpu H900", "Did you mean H100?"],
])("an unknown value of %s is refused with the nearest one", async (option, line, hint) => {
  const { exitCode, stderr } = await init(line);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining(`of ${option}. ${hint}`)]);
});
