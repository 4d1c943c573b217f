/** Stacks with a real Pulumi CLI: one taken over from the try-out runner, and stacks that `npx engine-room expire` destroys. */

import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectName, projectRoot } from "../../scripts/program/stack-file.ts";
import { findProgram } from "../../scripts/stack/pulumi-cli.ts";
import { stackPaths } from "../../scripts/stack/stack-paths.ts";
import { needs } from "../harness/requirements.ts";
import { eventually, TestStack } from "../harness/stack.ts";
import { stackFileText } from "../harness/stack-files.ts";
import { eksValues } from "../infra/plan/aws/stacks.ts";
import { account } from "../scripts/aws/account.ts";
import { type FakeAws, startFakeAws } from "../scripts/aws/fake-aws.ts";

const pulumi = findProgram("pulumi");
const missing = pulumi === undefined ? "no Pulumi CLI on PATH" : undefined;

// Each test continues with the stack of the test before it.
describe("a stack of the try-out runner", { ...needs(missing), shuffle: false }, () => {
  const stack = new TestStack("pulumi");
  const throughCli = { ENGINE_ROOM_RUNNER: "" };
  afterAll(() => stack.dispose(throughCli));

  test("a preview of a stack that is not up leaves no file", async () => {
    const { stdout } = await stack.succeedWith(throughCli, "preview");
    expect(stdout).toMatch(/^ {2}\+ create +gateway-server \(Process\)$/m);
    expect(existsSync(stack.directory)).toBe(false);
  });

  test("the Pulumi CLI takes over a stack of the try-out runner without a change", async () => {
    await stack.succeed("up");
    const pids = await stack.pids();
    const { stderr } = await stack.succeedWith(throughCli, "up");
    expect(stderr).toContain("Moving the state of the stack");
    expect(stderr).toMatch(/^ {2}\d+ unchanged$/m);
    expect(await stack.pids()).toEqual(pids);
    expect((await stack.runWith(throughCli, "smoke")).code).toBe(0);
    expect((await stack.runWith(throughCli, "preview", "--expect-no-changes")).code).toBe(0);
  });

  /** Runs a command of Pulumi's own. @returns Its output. */
  async function plain(command: string, ...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await stack.runPulumi({}, command, ...args);
    if (code !== 0) throw new Error(`pulumi ${command}: ${stdout}${stderr}`);
    return stdout;
  }
  const allRun = {
    encoders: "RUNNING",
    gateway: "RUNNING",
    mongo: "RUNNING",
    smollm2: "RUNNING",
    vector: "RUNNING",
  };

  test.each(["python", "encoders-repository", "encoders-server"])(
    "plain `pulumi up --replace` of %s leaves every process running",
    async (resource) => {
      expect(await plain("up", "--yes", "--skip-preview", "--replace", `**::${resource}`)).toMatch(
        /1 replaced/,
      );
      expect(await stack.states()).toEqual(allRun);
      expect(await plain("up", "--yes", "--skip-preview")).toMatch(/^ +14 unchanged$/m);
    },
  );

  test("plain `pulumi up` starts all processes after a reboot, and a preview says so", async () => {
    for (const pid of [...stack.processes().values()].flat()) stack.kill(pid);
    expect(await plain("preview")).toMatch(/^ +~ 5 to update$/m);
    await plain("up", "--yes", "--skip-preview");
    expect(await stack.states()).toEqual(allRun);
    // Processes that supervisord has restarted by itself were not awaited.
    await eventually(() => stack.succeedWith(throughCli, "smoke"));
  });

  test("the try-out runner refuses a stack of the Pulumi CLI", async () => {
    const { code, stderr } = await stack.run("up");
    expect(code).toBe(1);
    expect(stderr).toContain("belongs to the Pulumi CLI");
  });

  test("down leaves no process and no file, and the project's own files unchanged", async () => {
    await stack.succeedWith(throughCli, "down");
    expect(existsSync(stack.directory)).toBe(false);
    expect(stack.processes()).toEqual(new Map());
    expect(existsSync(join(projectRoot, `Pulumi.${stack.name}.yaml`))).toBe(false);
    expect(readFileSync(join(projectRoot, "Pulumi.local.yaml"), "utf8")).not.toContain("encryptionsalt");
  });
});

describe("an approved preview", needs(missing), () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-approved-"));
  const stackName = `test-approved-${process.pid}`;
  const file = join(projectRoot, `Pulumi.${stackName}.yaml`);
  afterAll(() => {
    rmSync(file, { force: true });
    rmSync(folder, { recursive: true });
  });

  function engineRoom(...args: readonly string[]) {
    const { status, stdout, stderr } = spawnSync(process.execPath, ["scripts/cli.mjs", ...args], {
      cwd: projectRoot,
      env: {
        ...process.env,
        ENGINE_ROOM_RUNNER: "",
        PULUMI_BACKEND_URL: `file://${folder}`,
        INIT_CWD: folder,
      },
      encoding: "utf8",
    });
    return { status, stdout, stderr };
  }

  function approve(contextTokens: number, name: string): string {
    const model = { name: "smollm2", model: "smollm2-135m-instruct", contextTokens };
    writeFileSync(file, stackFileText({ platform: "local", models: [model] }));
    const preview = engineRoom("ci", "state-preview", "--stack", stackName);
    expect([preview.status, preview.stderr]).toEqual([0, expect.any(String)]);
    writeFileSync(join(folder, `${name}.json`), preview.stdout);
    return engineRoom("ci", "approved-preview", "--stack", stackName, "--preview", `${name}.json`).stdout;
  }

  test("is the same for the same state and differs for another stack file, which `up` then does not apply", () => {
    const first = approve(512, "first");
    expect(first).toContain('"kind":"create"');
    expect(approve(512, "second")).toBe(first);
    expect(approve(768, "third")).not.toBe(first);
    writeFileSync(join(folder, "approved.json"), first);
    const { status, stderr } = engineRoom("up", "--stack", stackName, "--approved", "approved.json");
    expect(status).toBe(1);
    expect(stderr).toContain(`Nothing of the stack ${stackName} was changed`);
    expect(stderr).toMatch(/^- Process smollm2-server: other values at /m);
    expect(existsSync(join(folder, ".pulumi/stacks"))).toBe(false);
  });
});

const AGE_HOURS = 40;
const name = (short: string) => `test-expire-${process.pid}-${short}`;

/** By short name. */
const CONFIGS = {
  kept: { ...eksValues, guard: { ttlHours: 8 }, retain: [name("kept")] },
  locked: { ...eksValues, guard: { ttlHours: 8 } },
  over: { ...eksValues, guard: { ttlHours: 8 } },
  unlimited: eksValues,
  young: { ...eksValues, guard: { ttlHours: 8000 } },
} as const;

/** A stack has a state without any provider; its resources do not matter here. */
const PROGRAM = `const pulumi = require("@pulumi/pulumi");
new pulumi.ComponentResource("test:index:Part", "part");
`;

// The last test deletes the stacks that the first test lists.
describe("npx engine-room expire", { ...needs(missing), shuffle: false }, () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-expire-stack-"));
  const backend = join(folder, "state");
  const stateFolder = (kind: string) => join(backend, ".pulumi", kind);
  const environment = {
    ...process.env,
    PULUMI_CONFIG_PASSPHRASE: "a passphrase",
    PULUMI_SKIP_UPDATE_CHECK: "true",
    PULUMI_BACKEND_URL: `file://${backend}`,
    ENGINE_ROOM_RUNNER: "",
    AWS_ENDPOINT_URL: "",
    AWS_ACCESS_KEY_ID: "key",
    AWS_SECRET_ACCESS_KEY: "secret",
  };

  function cli(...args: readonly string[]): void {
    const all = [...args, "--non-interactive"];
    const { status, stdout, stderr } = spawnSync(pulumi ?? "", all, {
      cwd: folder,
      env: environment,
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`pulumi ${all.join(" ")}: ${stdout}${stderr}`);
  }

  let aws: FakeAws;
  beforeAll(async () => {
    // The account has no resources of them.
    aws = await startFakeAws(
      account({ "tag:GetResources": () => ({ json: { ResourceTagMappingList: [] } }) }),
    );
    environment.AWS_ENDPOINT_URL = aws.url;
    mkdirSync(backend);
    symlinkSync(join(projectRoot, "node_modules"), join(folder, "node_modules"));
    writeFileSync(join(folder, "Pulumi.yaml"), `name: ${projectName()}\nruntime: nodejs\nmain: index.js\n`);
    writeFileSync(join(folder, "index.js"), PROGRAM);
    for (const [short, config] of Object.entries(CONFIGS)) {
      const file = join(folder, `Pulumi.${name(short)}.yaml`);
      writeFileSync(file, stackFileText(config));
      cli("stack", "init", name(short));
      cli("config", "set", "--secret", "--path", "hub.token", "hf_secret", "--stack", name(short));
      cli("up", "--yes", "--skip-preview", "--stack", name(short));
      // The branch is gone, and with it its stack file.
      rmSync(file);
      putBack(join(stateFolder("history"), projectName(), name(short)));
    }
    const locks = join(stateFolder("locks"), "organization", projectName(), name("locked"));
    mkdirSync(locks, { recursive: true });
    const holder = { pid: 1, username: "root", hostname: "elsewhere", timestamp: "2026-01-01T00:00:00Z" };
    writeFileSync(join(locks, "0123.json"), JSON.stringify(holder));
  });

  afterAll(async () => {
    await aws.close();
    rmSync(folder, { recursive: true });
    for (const short of Object.keys(CONFIGS))
      rmSync(stackPaths(name(short)).directory, { recursive: true, force: true });
  });

  function expire(...args: readonly string[]): Promise<{ code: number | null; stdout: string }> {
    return new Promise((resolve, reject) => {
      const child = spawn(process.execPath, ["scripts/cli.mjs", "expire", ...args], {
        cwd: projectRoot,
        env: environment,
        stdio: ["ignore", "pipe", "ignore"],
      });
      let stdout = "";
      child.stdout.on("data", (data: Buffer) => {
        stdout += data;
      });
      child.on("error", reject);
      child.on("close", (code) => resolve({ code, stdout: stdout.replaceAll(name(""), "") }));
    });
  }

  const stacks = () =>
    readdirSync(join(stateFolder("stacks"), projectName())).flatMap(
      (file) => /-([a-z]+)\.json$/.exec(file)?.[1] ?? [],
    );

  test("expire lists stacks from their own records, with their costs per hour", async () => {
    const { code, stdout } = await expire();
    expect(code).toBe(0);
    expect(stdout).toMatch(/^kept +retained /m);
    expect(stdout).toMatch(/^locked +expired /m);
    expect(stdout).toMatch(/^over +expired +(?:at least )?\$[\d.]+ +its last `up` ended 40/m);
    expect(stdout).toMatch(/^unlimited +no ttl /m);
    expect(stdout).toMatch(/^young +running /m);
  });

  test("expire --down destroys an expired stack without its file, and does not touch a locked stack", async () => {
    const { code, stdout } = await expire("--down");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^locked: not destroyed: .*`pulumi cancel`/m);
    expect(stdout).toMatch(/^over: destroyed\.$/m);
    expect(stacks().toSorted()).toEqual(["kept", "locked", "unlimited", "young"]);
  });
});

/** Moves the entries of a history hours into the past; times are seconds of Unix time. */
function putBack(history: string): void {
  for (const entry of readdirSync(history).filter((file) => file.endsWith(".history.json"))) {
    const file = join(history, entry);
    const record = JSON.parse(readFileSync(file, "utf8")) as { startTime: number; endTime: number };
    const seconds = AGE_HOURS * 3600;
    const times = { startTime: record.startTime - seconds, endTime: record.endTime - seconds };
    writeFileSync(file, JSON.stringify({ ...record, ...times }));
  }
}
