/** A stack on EC2: its machine is found by its tag, and reached by sessions of Systems Manager, which a stand-in plays. */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { portSession, requireInstance } from "../../../scripts/aws/instance.ts";
import { INSTANCE_WORDS, localInstanceEndpoints } from "../../../scripts/connect/instance-forwards.ts";
import { startPortForwards } from "../../../scripts/connect/port-forwarder.ts";
import { readInstanceTarget } from "../../../scripts/program/instance-target.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";
import { type Answers, account, EKS_STACK, REGION } from "./account.ts";
import { type FakeAws, type FakeInput, startFakeAws, xmlAnswer } from "./fake-aws.ts";

const { access: _access, ...shared } = EKS_STACK;
const EC2_STACK = {
  ...shared,
  compute: "ec2",
  access: {},
  pools: [{ name: "gpu", instanceType: "g5.4xlarge" }],
  databases: "container",
};

/** Opens its port as the plug-in does, which is a program of its own and lives until it is ended. */
const FAKE_AWS_CLI = `#!/bin/sh
printf '%s\\n' "$*" >> "$FAKE_FOLDER/log"
[ -z "$FAKE_FAILS" ] || { echo "An error occurred (TargetNotConnected): i-0 is not connected." >&2; exit 254; }
case "$*" in
  *PortForwarding*)
    sleep 600 & echo $! >> "$FAKE_FOLDER/plugins"
    printf '\\nStarting session with SessionId: me-0\\nPort 18080 opened for sessionId me-0.\\nWaiting for connections...\\n'
    wait ;;
esac
`;

let folder: string;
let aws: FakeAws | undefined;
let asked: FakeInput | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-instance-"));
  program("aws", FAKE_AWS_CLI);
  program("session-manager-plugin", "#!/bin/sh\necho 1.2.0\n");
  writeFileSync(join(folder, "stack.yaml"), stackFileText(EC2_STACK));
  const environment = {
    PATH: `${folder}:${process.env.PATH}`,
    FAKE_FOLDER: folder,
    AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
    AWS_SECRET_ACCESS_KEY: "example",
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
  await aws?.close();
});

function program(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
  chmodSync(join(folder, name), 0o755);
}
const sessions = () =>
  readFileSync(join(folder, "log"), "utf8")
    .trim()
    .split("\n")
    .filter((line) => line.startsWith("ssm"));

/** Machines of the stack, by their state. */
async function use(...states: readonly string[]): Promise<void> {
  const instances = states.map((name, index) => ({
    instanceId: `i-${index}`,
    instanceType: "g5.4xlarge",
    instanceState: { name },
  }));
  const answers: Answers = {
    "ec2:DescribeInstances": (input) => {
      asked = input;
      return xmlAnswer("DescribeInstances", { reservationSet: [{ instancesSet: instances }] });
    },
  };
  aws = await startFakeAws(account(answers));
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
}
const stack = () => ({ name: "demo", configFile: join(folder, "stack.yaml") });
const command = (name: string, ...words: readonly string[]) =>
  runCommand(name, "--stack", "demo", "--config-file", stack().configFile, ...words);

describe("the machine", () => {
  const context = () => readInstanceTarget(stack()).context;

  test("is found by the stack's tag, the running one first", async () => {
    await use("stopping", "running");
    expect(await requireInstance(context())).toBe("i-1");
    const filters = [...(asked?.parameters ?? [])].map(([key, value]) => `${key}=${value}`);
    expect(filters).toEqual(
      expect.arrayContaining(["Filter.1.Name=tag:engine-room:stack", "Filter.1.Value.1=demo"]),
    );
  });

  test.each([
    [[], /has no machine in us-east-1 .*npm run up -- --stack demo/],
    [["stopped"], /i-0 of demo is stopped; `npm run wake -- --stack demo`/],
  ])("that is %j: a sentence with the command that mends it", async (states, words) => {
    await use(...states);
    await expect(requireInstance(context())).rejects.toThrow(words);
  });

  test("is not asked for where this machine opens no sessions", async () => {
    await use("running");
    rmSync(join(folder, "session-manager-plugin"));
    vi.stubEnv("PATH", folder);
    await expect(requireInstance(context())).rejects.toThrow(
      /has no `session-manager-plugin`\..*install-plugin\.html/,
    );
    expect(aws?.asked).toEqual([]);
  });
});

describe("connect", () => {
  test("--dry-run prints a session for the gateway, and for what is named", async () => {
    await use("running");
    const { exitCode, stdout } = await command("connect", "--dry-run", "databases");
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^ *gateway +http:\/\/127\.0\.0\.1:\d+ +http:\/\/127\.0\.0\.1:8080$/m);
    const printed = stdout.replaceAll(" \\\n ", "").split("\n");
    const lines = printed.filter((line) => line.startsWith("aws ssm start-session"));
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(
      /--region us-east-1 --target i-0 --document-name AWS-StartPortForwardingSession --parameters '\{"portNumber":\["8080"\],"localPortNumber":\["\d+"\]\}'$/,
    );
    expect(existsSync(join(folder, "plugins"))).toBe(false);
  });

  test("endpoints that are forwarded are those of this machine's ports, and others stay", () => {
    const { endpoints } = readInstanceTarget(stack()).stack;
    const forward = { name: "gateway", address: endpoints.gateway, host: "127.0.0.1", port: 8080 };
    const local = localInstanceEndpoints(endpoints, [{ ...forward, localPort: 9000, localAddress: "" }]);
    expect(local).toEqual({ ...endpoints, gateway: "http://127.0.0.1:9000" });
  });

  const forwarded = (report = (_line: string) => {}) =>
    startPortForwards(
      [
        {
          service: "gateway",
          ports: 1,
          argv: portSession(REGION, "i-0", { port: 8080, localPort: 18_080 }),
        },
      ],
      report,
      INSTANCE_WORDS,
    );

  test("waits until the port is open, and ends the plug-in with the CLI", async () => {
    const forwarder = await forwarded();
    const plugin = Number(readFileSync(join(folder, "plugins"), "utf8").trim());
    expect(isAlive(plugin)).toBe(true);
    await forwarder.stop();
    await expect.poll(() => isAlive(plugin)).toBe(false);
  });

  test("says AWS's own words where no session can be had", async () => {
    vi.stubEnv("FAKE_FAILS", "1");
    await expect(forwarded()).rejects.toThrow(
      /^The endpoint gateway can't be forwarded: .*TargetNotConnected.*\n.*ssm:StartSession/,
    );
  });
});

test("logs are those of Docker on the machine, in a session", async () => {
  await use("running");
  expect((await command("logs", "gateway", "--lines", "7", "--follow")).exitCode).toBe(0);
  expect(sessions()).toEqual([
    'ssm start-session --region us-east-1 --target i-0 --document-name AWS-StartInteractiveCommand --parameters {"command":["sudo docker logs --tail 7 --follow demo-gateway"]}',
  ]);
  const unknown = await command("logs", "nobody");
  expect(unknown.stderr).toMatch(/Say which service: .*gateway.* \(not nobody\)/);
});

describe("status", () => {
  test("is the machine's state, and the command that says what runs on it", async () => {
    await use("running");
    const { exitCode, stdout } = await command("status");
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(
      /^machine i-0 g5\.4xlarge in us-east-1: running\nWhat runs on it:\naws ssm start-session /,
    );
    const { stdout: json } = await command("status", "--json");
    expect(JSON.parse(json)).toEqual([{ name: "machine", id: "i-0", type: "g5.4xlarge", state: "running" }]);
  });

  test.each([
    [["stopped"], "npm run wake -- --stack demo"],
    [[], "npm run up -- --stack demo"],
  ])("of %j fails, with what to do", async (states, words) => {
    await use(...states);
    const { exitCode, stdout } = await command("status");
    expect(exitCode).toBe(1);
    expect(stdout).toContain(words);
  });
});

/** A zombie is none: whoever ended it only waits to be asked. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
