/** A stack on EC2: its machine is found by its tag, and reached by sessions of Systems Manager, which AWS's own CLI asks for. */
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { portSession, requireInstance } from "../../scripts/aws/instance.ts";
import { ask } from "../../scripts/aws/session.ts";
import { instanceFailure, localInstanceEndpoints } from "../../scripts/connect/instance-forwards.ts";
import { startPortForwards } from "../../scripts/connect/port-forwarder.ts";
import { readInstanceTarget } from "../../scripts/program/instance-target.ts";
import { MOTO_ACCOUNT } from "../harness/aws/moto.ts";
import { makeMachine } from "../harness/aws/resources.ts";
import { EKS_STACK } from "../harness/aws/stacks.ts";
import { useAwsCli, useMoto, wrongRows } from "../harness/aws/use-moto.ts";
import { stackFileText } from "../harness/stack-files.ts";
import { type FakeAnswer, type FakeAws, type FakeInput, startFakeAws } from "../scripts/aws/fake-aws.ts";
import { runCommand } from "../scripts/plan/run-plan.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

const REGION = "us-west-2";
const { access: _access, ...shared } = EKS_STACK;
const EC2_STACK = {
  ...shared,
  account: MOTO_ACCOUNT,
  region: REGION,
  compute: "ec2",
  access: {},
  pools: [{ name: "gpu", instanceType: "g5.4xlarge" }],
  databases: "container",
};

/** AWS's plug-in: writes down what the CLI hands to it, its session by the environment; opens its port, and stays. */
const FAKE_PLUGIN = `#!/bin/sh
[ "$1" != --version ] || { echo 1.2.764.0; exit; }
{ echo "$AWS_SSM_START_SESSION_RESPONSE"; for word; do printf '%s\\n' "$word"; done; } > "$FAKE_FOLDER/handed"
case "$*" in
  *PortForwarding*)
    echo $$ >> "$FAKE_FOLDER/plugins"
    printf '\\nStarting session with SessionId: me-0\\nPort 18080 opened for sessionId me-0.\\nWaiting for connections...\\n'
    exec sleep 600 ;;
esac
`;

const SESSION: FakeAnswer = {
  json: { SessionId: "me-0", TokenValue: "token", StreamUrl: "wss://ssmmessages.example.org/me-0" },
};

const moto = useMoto(REGION);
let ssm: FakeAws;
/** What Systems Manager says to the next session. */
let session: FakeAnswer;
let sessions: FakeInput["body"][];
beforeAll(async () => {
  await useAwsCli(moto);
  writeFileSync(stack().configFile, stackFileText(EC2_STACK));
  moto.program("session-manager-plugin", FAKE_PLUGIN);
});
beforeEach(async () => {
  session = SESSION;
  sessions = [];
  // moto has no sessions.
  ssm = await startFakeAws((action, { body }) => {
    if (action !== "ssm:StartSession") return { error: `NoFake_${action}`, status: 500 };
    sessions.push(body);
    return session;
  });
  vi.stubEnv("AWS_ENDPOINT_URL_SSM", ssm.url);
  vi.stubEnv("FAKE_FOLDER", moto.folder());
});
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const file of ["handed", "plugins"]) rmSync(join(moto.folder(), file), { force: true });
  await ssm.close();
});

/** What the plug-in got: the session, the name of the variable with it, the region, and what was asked for. */
const handed = () => readFileSync(join(moto.folder(), "handed"), "utf8").trim().split("\n");
const tags = { "engine-room:stack": "demo" };
const machine = (isStopped = false) => makeMachine(REGION, { type: "g5.4xlarge", tags, isStopped });
const stack = () => ({ name: "demo", configFile: join(moto.folder(), "demo.yaml") });
const command = (name: string, ...words: readonly string[]) =>
  runCommand(name, "--stack", "demo", "--config-file", stack().configFile, ...words);

describe("the machine", () => {
  const context = () => readInstanceTarget(stack()).context;

  test("is the stack's own, and the one that runs before one that stopped", async () => {
    await makeMachine(REGION, { type: "g5.4xlarge", tags: { "engine-room:stack": "prod" } });
    await machine(true);
    const id = await machine();
    expect(await requireInstance(context())).toBe(id);
  });

  test("that is not there, or stopped: a sentence with the command that mends it", async () => {
    await expect(requireInstance(context())).rejects.toThrow(
      /has no machine in us-west-2 .*npm run up -- --stack demo/,
    );
    const id = await machine(true);
    await expect(requireInstance(context())).rejects.toThrow(
      `The machine ${id} of demo is stopped; \`npm run wake -- --stack demo\` starts it.`,
    );
  });

  test("is not asked for where this machine opens no sessions", async () => {
    await machine();
    vi.mocked(ask).mockClear();
    const withoutPlugin = join(moto.folder(), "without-plugin");
    mkdirSync(withoutPlugin);
    symlinkSync(join(moto.folder(), "aws"), join(withoutPlugin, "aws"));
    vi.stubEnv("PATH", withoutPlugin);
    await expect(requireInstance(context())).rejects.toThrow(
      /has no `session-manager-plugin`\..*install-plugin\.html/,
    );
    expect(ask).not.toHaveBeenCalled();
  });
});

describe("connect", () => {
  test("--dry-run prints a session for the gateway, and for what is named", async () => {
    const id = await machine();
    const { exitCode, stdout } = await command("connect", "--dry-run", "databases");
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^ *gateway +http:\/\/127\.0\.0\.1:\d+ +http:\/\/127\.0\.0\.1:8080$/m);
    const printed = stdout.replaceAll(" \\\n ", "").split("\n");
    const lines = printed.filter((line) => line.startsWith("aws ssm start-session"));
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(
      new RegExp(
        `--region us-west-2 --target ${id} --document-name AWS-StartPortForwardingSession --parameters '\\{"portNumber":\\["8080"\\],"localPortNumber":\\["\\d+"\\]\\}'$`,
      ),
    );
    expect(sessions).toEqual([]);
  });

  test("endpoints that are forwarded are those of this machine's ports, and others stay", () => {
    const { endpoints } = readInstanceTarget(stack()).stack;
    const forward = { name: "gateway", address: endpoints.gateway, host: "127.0.0.1", port: 8080 };
    const local = localInstanceEndpoints(endpoints, [{ ...forward, localPort: 9000, localAddress: "" }]);
    expect(local).toEqual({ ...endpoints, gateway: "http://127.0.0.1:9000" });
  });

  const forwarded = () =>
    startPortForwards(
      [
        {
          service: "gateway",
          ports: 1,
          argv: portSession(REGION, "i-0123456789abcdef0", { port: 8080, localPort: 18_080 }),
        },
      ],
      () => {},
      instanceFailure,
    );

  test("asks for a session, waits until the port is open, and ends the plug-in with the CLI", async () => {
    const forwarder = await forwarded();
    expect(sessions).toEqual([
      {
        Target: "i-0123456789abcdef0",
        DocumentName: "AWS-StartPortForwardingSession",
        Parameters: { portNumber: ["8080"], localPortNumber: ["18080"] },
      },
    ]);
    const plugin = Number(readFileSync(join(moto.folder(), "plugins"), "utf8").trim());
    expect(isAlive(plugin)).toBe(true);
    await forwarder.stop();
    await expect.poll(() => isAlive(plugin)).toBe(false);
  });

  test("says AWS's own words where no session can be had", async () => {
    session = { error: "TargetNotConnected" };
    await expect(forwarded()).rejects.toThrow(
      /^The endpoint gateway can't be forwarded: .*TargetNotConnected.*\n.*ssm:StartSession/,
    );
  });
});

test("logs are those of Docker on the machine, in a session that the plug-in gets", async () => {
  const id = await machine();
  expect((await command("logs", "gateway", "--lines", "7", "--follow")).exitCode).toBe(0);
  const asked = {
    Target: id,
    DocumentName: "AWS-StartInteractiveCommand",
    Parameters: { command: ["sudo docker logs --tail 7 --follow demo-gateway"] },
  };
  expect(sessions).toEqual([asked]);
  const [opened = "", , region, operation] = handed();
  const { SessionId, TokenValue } = JSON.parse(opened) as Readonly<Record<string, string>>;
  expect({ SessionId, TokenValue, region, operation }).toEqual({
    ...{ SessionId: "me-0", TokenValue: "token" },
    ...{ region: REGION, operation: "StartSession" },
  });
  const unknown = await command("logs", "nobody");
  expect(unknown.stderr).toMatch(/Say which service: .*gateway.* \(not nobody\)/);
});

describe("status", () => {
  test("is the machine's state, and the command that says what runs on it", async () => {
    const id = await machine();
    const { exitCode, stdout } = await command("status");
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(
      new RegExp(
        `^machine ${id} g5\\.4xlarge in us-west-2: running\nWhat runs on it:\naws ssm start-session `,
      ),
    );
    const { stdout: json } = await command("status", "--json");
    expect(JSON.parse(json)).toEqual([{ name: "machine", id, type: "g5.4xlarge", state: "running" }]);
  });

  test("of none, or of one that is stopped, fails with what to do", async () => {
    expect(await command("status")).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining("npm run up -- --stack demo"),
    });
    await machine(true);
    expect(await command("status")).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining("npm run wake -- --stack demo"),
    });
  });
});

test("moto has answered what the table of operations says", () => {
  expect(wrongRows(vi.mocked(ask), "instance")).toEqual([]);
});

/** A zombie is none: whoever ended it only waits to be asked. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
