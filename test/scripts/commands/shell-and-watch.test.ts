import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { EC2_STACK } from "../../harness/aws/stacks.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { account, running } from "../aws/account.ts";
import { startFakeAws, stubCredentials } from "../aws/fake-aws.ts";
import { fakeKubectl, watch } from "../cluster/fake-kubectl.ts";
import { container } from "../docker-host/hosts.ts";
import { KEYS, Terminal } from "../init/terminal.ts";
import { runCommand } from "../plan/run-plan.ts";

const STACK = `shell-${process.pid}`;
const { directory } = stackPaths(STACK);
const folder = mkdtempSync(join(tmpdir(), "engine-room-shell-"));
const stackFile = join(folder, "stack.yaml");
const calls = join(folder, "calls");
const ofStack = ["--stack", STACK, "--config-file", stackFile];

/** A program that runs a script and records its arguments, one a line. */
function program(name: string, script: string): void {
  writeFileSync(join(folder, name), `#!/bin/sh\n${script}\nprintf '%s\\n' "$@" > ${calls}\nexit 7\n`, {
    mode: 0o755,
  });
}

const called = () => readFileSync(calls, "utf8").trimEnd().split("\n");

beforeAll(() => {
  program(
    "docker",
    `case "$1" in ps) echo id; exit 0 ;; inspect) cat ${join(folder, "containers")}; exit 0 ;; esac`,
  );
  program("aws", "");
  program("session-manager-plugin", "");
  writeFileSync(join(folder, "containers"), JSON.stringify([container(`${STACK}-smollm2`)]));
});

beforeEach(() => vi.stubEnv("PATH", `${folder}${delimiter}${process.env.PATH}`));

afterAll(() => {
  rmSync(folder, { recursive: true });
  rmSync(directory, { recursive: true, force: true });
});

describe("shell", () => {
  const docker = {
    platform: "docker",
    tier: "cpu",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
  };

  test("a container of a Docker host is entered, and the exit code is that of the shell", async () => {
    writeFileSync(stackFile, stackFileText(docker));
    const { exitCode, stderr } = await runCommand("shell", "smollm2", ...ofStack);
    expect([exitCode, stderr]).toEqual([7, ""]);
    expect(called()).toEqual(["exec", "-i", `${STACK}-smollm2`, "bash"]);
  });

  test("the shell in a container gets the terminal if there is one", async () => {
    writeFileSync(stackFile, stackFileText(docker));
    expect(await new Terminal("shell", "smollm2", ...ofStack).end()).toBe(7);
    expect(called()).toEqual(["exec", "-it", `${STACK}-smollm2`, "bash"]);
  });

  test("a pod of a cluster is entered by its workload", async () => {
    const kubectl = fakeKubectl();
    try {
      kubectl.answers({ "exec --namespace engine-room -i deployment/llava -- bash": "" });
      expect(await kubectl.run("shell", "llava")).toEqual({ code: 0, text: "" });
    } finally {
      await kubectl.remove();
    }
  });

  test("a container on EC2 is entered in a session of Systems Manager", async () => {
    writeFileSync(stackFile, stackFileText(EC2_STACK));
    stubCredentials();
    const machine = { type: "g5.xlarge", zone: "us-east-1a", state: "running" };
    const aws = await startFakeAws(account({ "ec2:DescribeInstances": () => running([machine]) }));
    vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
    try {
      expect((await runCommand("shell", "gpt2-medium", ...ofStack)).exitCode).toBe(7);
    } finally {
      await aws.close();
    }
    expect(called()).toEqual([
      ...["ssm", "start-session", "--region", "us-east-1", "--target", "i-0"],
      ...["--document-name", "AWS-StartInteractiveCommand", "--parameters"],
      `{"command":["sudo docker exec -it ${STACK}-gpt2-medium bash"]}`,
    ]);
  });

  test("the shell of a local process is the user's shell with the environment of the process", () => {
    localStack();
    const input = 'echo "$ENGINE_ROOM_PROCESS $PORT $(echo $PATH | cut -d: -f1) $PWD"; exit 3';
    const { status, stdout } = spawnSync(
      process.execPath,
      ["scripts/cli.mjs", "shell", "smollm2", ...ofStack],
      {
        cwd: projectRoot,
        env: { ...process.env, SHELL: "/bin/sh" },
        input,
        encoding: "utf8",
      },
    );
    expect([status, stdout]).toEqual([3, `smollm2 8000 /venv/bin ${projectRoot.replace(/\/$/, "")}\n`]);
  });

  test.each([
    [[], "Missing service: npx engine-room shell NAME. The stack has smollm2."],
    [["smolm2"], 'Unknown service "smolm2". Did you mean smollm2?'],
  ])("the services are named if %j is not among them", async (words, sentence) => {
    localStack();
    const { exitCode, stderr } = await runCommand("shell", ...words, ...ofStack);
    expect([exitCode, stderr.split("\n")[0]]).toEqual([2, sentence]);
  });
});

/** Creates a local stack with one process that does not run. */
function localStack(): void {
  writeFileSync(stackFile, stackFileText({ platform: "local" }));
  const programs = join(directory, "supervisor/programs");
  mkdirSync(programs, { recursive: true });
  const record = {
    argv: ["tritonserver"],
    environment: { ENGINE_ROOM_PROCESS: "smollm2", PORT: "8000" },
    pathPrefix: "/venv/bin",
    ports: { http: 8000 },
    digest: "",
  };
  writeFileSync(join(programs, "smollm2.json"), JSON.stringify(record));
}

describe("status --watch", () => {
  test("a terminal replaces each report by the next, until Ctrl-C", async () => {
    localStack();
    const terminal = new Terminal("status", "--watch", "--interval", "1", ...ofStack);
    await terminal.answer(`stack ${STACK}, every 1 s until Ctrl-C`);
    await terminal.answer(`stack ${STACK}, every 1 s until Ctrl-C`);
    await terminal.answer("Not all of them run under supervisord", KEYS.interrupt);
    expect(await terminal.end()).toBe(0);
    // Moves the cursor home, and clears the screen below.
    expect(terminal.bytes.split("\u001b[1;1H\u001b[0J").length).toBeGreaterThan(2);
  });

  test("elsewhere the reports are plain lines, each with its time", async () => {
    localStack();
    const { code, text } = await watched();
    expect(code).toBe(0);
    expect(text).toMatch(
      new RegExp(
        `^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ  stack ${STACK}, every 1 s until Ctrl-C\nsmollm2  UNSUPERVISED  `,
      ),
    );
    expect(text).not.toContain("\x1b");
  });

  test("with --json each report is a line of JSON", async () => {
    localStack();
    const { code, text } = await watched("--json");
    expect(code).toBe(0);
    const [first = "", second = ""] = text.split("\n");
    expect(JSON.parse(first)).toMatchObject([{ name: "smollm2", state: "UNSUPERVISED" }]);
    expect(JSON.parse(second)).toEqual(JSON.parse(first));
  });

  test.each(["0", "3601", "1.5", "-1"])("an interval of %s seconds is refused", async (interval) => {
    const { exitCode, stderr } = await runCommand("status", "--watch", "--interval", interval, ...ofStack);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(`--interval must be a number of seconds from 1 to 3600; it is ${interval}.`);
  });

  /** Runs until two reports, then sends SIGINT. */
  async function watched(...words: readonly string[]) {
    const argv = ["scripts/cli.mjs", "status", "--watch", "--interval", "1", ...ofStack, ...words];
    const child = spawn(process.execPath, argv, { cwd: projectRoot, stdio: ["ignore", "pipe", "pipe"] });
    const output = watch(child);
    await output.saw(/(smollm2[^\n]*\n[\s\S]*){2}/);
    child.kill("SIGINT");
    return { code: await output.code, text: output.text() };
  }
});
