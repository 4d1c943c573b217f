/** `npm run expire` on what a real Pulumi CLI keeps: lists, histories, configurations and locks of a folder. */
import { spawn, spawnSync } from "node:child_process";
import {
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
import { findPulumi } from "../../scripts/setup/pulumi-cli.ts";
import { stackPaths } from "../../scripts/stack/backend.ts";
import { stackFileText } from "../harness/stack-files.ts";
import { eksValues } from "../infra/plan/aws/stacks.ts";
import { account } from "../scripts/aws/account.ts";
import { type FakeAws, startFakeAws } from "../scripts/aws/fake-aws.ts";

const pulumi = findPulumi();
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

/** A stack needs no provider to have a state; what it is made of is not this test's. */
const PROGRAM = `const pulumi = require("@pulumi/pulumi");
new pulumi.ComponentResource("test:index:Part", "part");
`;

describe.skipIf(pulumi === undefined)("with a Pulumi CLI (skipped where none is on PATH)", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-expire-stack-"));
  const backend = join(folder, "state");
  const stateFolder = (kind: string) => join(backend, ".pulumi", kind);
  const environment = {
    ...process.env,
    PULUMI_CONFIG_PASSPHRASE: "a passphrase",
    PULUMI_SKIP_UPDATE_CHECK: "true",
    PULUMI_BACKEND_URL: `file://${backend}`,
    ENGINE_ROOM_STATE_URL: `file://${backend}`,
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
    // The account has nothing of them.
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

  test("stacks are listed from their own records, with what an hour costs", async () => {
    const { code, stdout } = await expire();
    expect(code).toBe(0);
    expect(stdout).toMatch(/^kept +retained /m);
    expect(stdout).toMatch(/^locked +over /m);
    expect(stdout).toMatch(/^over +over +(?:at least )?\$[\d.]+ +its last `up` ended 40/m);
    expect(stdout).toMatch(/^unlimited +no ttl /m);
    expect(stdout).toMatch(/^young +running /m);
  });

  test("what is over is ended without its file; what is locked is not, and that is said", async () => {
    const { code, stdout } = await expire("--down");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^locked: left alone: .*`pulumi cancel`/m);
    expect(stdout).toMatch(/^over: ended\.$/m);
    expect(stacks().toSorted()).toEqual(["kept", "locked", "unlimited", "young"]);
  });
});

/** As if what a history has had been hours ago; its times are seconds of Unix time. */
function putBack(history: string): void {
  for (const entry of readdirSync(history).filter((file) => file.endsWith(".history.json"))) {
    const file = join(history, entry);
    const record = JSON.parse(readFileSync(file, "utf8")) as { startTime: number; endTime: number };
    const seconds = AGE_HOURS * 3600;
    const times = { startTime: record.startTime - seconds, endTime: record.endTime - seconds };
    writeFileSync(file, JSON.stringify({ ...record, ...times }));
  }
}
