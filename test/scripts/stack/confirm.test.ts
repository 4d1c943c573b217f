/** The question of `up` and `down`, on a real pseudo-terminal. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { eksValues } from "../../infra/plan/aws/stacks.ts";
import { account } from "../aws/account.ts";
import { type FakeAws, startFakeAws } from "../aws/fake-aws.ts";
import { type FakePulumi, useFakePulumi } from "./fake-pulumi.ts";

/** Runs a command, answers its question with the first argument, and ends with its exit code. */
const PTY = `
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0: os.execvp(sys.argv[2], sys.argv[2:])
while True:
    try: data = os.read(terminal, 4096)
    except OSError: break
    if not data: break
    sys.stdout.buffer.write(data)
    if b"[y/N]" in data: os.write(terminal, sys.argv[1].encode() + b"\\r")
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;

const NAME = `confirm-${process.pid}`;

let folder: string;

let aws: FakeAws;

let pulumi: FakePulumi;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-confirm-"));
  aws = await startFakeAws(account({ "tag:GetResources": () => ({ json: { ResourceTagMappingList: [] } }) }));
  pulumi = useFakePulumi(folder);
  writeFileSync(join(folder, "stack.yaml"), stackFileText(eksValues));
});

afterEach(async () => {
  await aws.close();
  rmSync(folder, { recursive: true, maxRetries: 5 });
  rmSync(stackPaths(NAME).directory, { recursive: true, force: true, maxRetries: 5 });
});

async function run(argv: readonly string[], answer?: string): Promise<{ code: number; shown: string }> {
  const command = [process.execPath, join(projectRoot, "scripts/cli.mjs"), ...argv];
  const options = ["--stack", NAME, "--config-file", join(folder, "stack.yaml")];
  const [program = "", ...words] =
    answer === undefined ? command : ["python3", "-c", PTY, answer, ...command];
  const child = spawn(program, [...words, ...options], {
    cwd: projectRoot,
    env: {
      ...process.env,
      PATH: `${folder}${delimiter}${process.env.PATH}`,
      CI: "",
      NO_COLOR: "1",
      ENGINE_ROOM_RUNNER: "",
      PULUMI_BACKEND_URL: "s3://room-state",
      AWS_ENDPOINT_URL: aws.url,
      AWS_ACCESS_KEY_ID: "key",
      AWS_SECRET_ACCESS_KEY: "secret",
      FAKE_STATE: JSON.stringify({
        deployment: { resources: [{ urn: "urn::vpc", type: "aws:ec2/vpc:Vpc" }] },
      }),
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const closed = new Promise<number>((resolve) => child.on("close", (code) => resolve(code ?? -1)));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await closed, shown: (stdout + stderr).replaceAll("\r\n", "\n") };
}

const operations = () => pulumi.calls().map(({ args: [command] }) => command);

test("`down` on a terminal says what it ends and loses, and does nothing without a yes", async () => {
  pulumi.keep([NAME]);
  const { code, shown } = await run(["down"], "n");
  expect(shown).toMatch(/^It ends (at least )?\$[\d.]+ an hour\.\nDocuments of its databases, engines/m);
  expect(shown).toContain(`Delete the stack ${NAME}? [y/N] `);
  expect(code).toBe(1);
  expect(operations().filter((operation) => operation === "destroy")).toHaveLength(1);
  expect(pulumi.stacks()).toEqual([NAME]);
});

test("`down` on a terminal deletes the stack after a yes", async () => {
  pulumi.keep([NAME]);
  expect(await run(["down"], "y")).toMatchObject({ code: 0 });
  expect(pulumi.stacks()).toEqual([]);
});

test.each(["up", "down"])("`%s` without a terminal asks for --yes", async (operation) => {
  pulumi.keep([NAME]);
  const { code, shown } = await run([operation]);
  expect(code).toBe(1);
  expect(shown).toContain(
    `\`${operation}\` of the stack ${NAME} changes rented machines, and without a terminal it can't be confirmed. Add --yes`,
  );
  expect(operations()).not.toContain("up");
  expect(operations()).not.toContain("destroy");
});

test("`down --yes` without a terminal deletes the stack", async () => {
  pulumi.keep([NAME]);
  expect(await run(["down", "--yes"])).toMatchObject({ code: 0 });
  expect(pulumi.stacks()).toEqual([]);
});
