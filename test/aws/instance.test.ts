/**
 * A stack on EC2: its machine is found by its tag, and reached by sessions of Systems Manager, which AWS's own CLI asks for;
 * and its load balancer, as `up` reads it.
 */
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  DescribeInstancesCommand,
  StopInstancesCommand,
  TerminateInstancesCommand,
} from "@aws-sdk/client-ec2";
import {
  CreateListenerCommand,
  CreateLoadBalancerCommand,
  CreateTargetGroupCommand,
  ElasticLoadBalancingV2Client,
  RegisterTargetsCommand,
} from "@aws-sdk/client-elastic-load-balancing-v2";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { readyMachineHandler } from "../../components/local/provider/ready-machine.ts";
import { edgePlan } from "../../infra/plan/aws/edge.ts";
import { requireMachine } from "../../scripts/aws/machine.ts";
import { ask, clientSettings } from "../../scripts/aws/session.ts";
import { startPortForwards } from "../../scripts/connect/connected-stack.ts";
import { localEndpoints, sessionForwards } from "../../scripts/connect/forwards.ts";
import { readInstanceTarget } from "../../scripts/program/targets.ts";
import { MOTO_ACCOUNT } from "../harness/aws/moto.ts";
import { ec2Client, makeMachine, makeNetwork } from "../harness/aws/resources.ts";
import { EC2_STACK, EKS_STACK } from "../harness/aws/stacks.ts";
import { checkOperations, useAwsCli, useMoto } from "../harness/aws/use-moto.ts";
import { stackFileText } from "../harness/stack-files.ts";
import { awsPlan } from "../infra/plan/aws/stacks.ts";
import { type FakeAnswer, type FakeAws, type FakeInput, startFakeAws } from "../scripts/aws/fake-aws.ts";
import { runCommand } from "../scripts/plan/run-plan.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

const REGION = "us-west-2";
const moto = useMoto(REGION);
checkOperations(vi.mocked(ask), "instance");

const { access: _access, ...shared } = EKS_STACK;

const STACK = {
  ...shared,
  account: MOTO_ACCOUNT,
  region: REGION,
  compute: "ec2",
  access: {},
  pools: [{ name: "gpu", instanceType: "g5.4xlarge" }],
  databases: "container",
};

/** AWS's plug-in: records the session from its environment and its arguments, reports an open port, and keeps running. */
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

let ssm: FakeAws;
/** Response of Systems Manager to the next session. */
let session: FakeAnswer;
let sessions: FakeInput["body"][];

beforeAll(async () => {
  await useAwsCli(moto);
  writeFileSync(stack().configFile, stackFileText(STACK));
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
  for (const file of ["handed", "plugins"]) rmSync(join(moto.folder(), file), { force: true });
  await ssm.close();
});

/** Arguments of the plug-in: the session, the name of its variable, the region, the operation and its parameters. */
const handed = () => readFileSync(join(moto.folder(), "handed"), "utf8").trim().split("\n");
const tags = { "engine-room:stack": "demo" };
const machine = (isStopped = false) => makeMachine(REGION, { type: "g5.4xlarge", tags, isStopped });
const stack = () => ({ name: "demo", configFile: join(moto.folder(), "demo.yaml") });
const command = (name: string, ...words: readonly string[]) =>
  runCommand(name, "--stack", "demo", "--config-file", stack().configFile, ...words);

describe("the machine of a stack", () => {
  const context = () => readInstanceTarget(stack()).context;

  test("the machine is found by the stack's tag, and a running machine before a stopped machine", async () => {
    await makeMachine(REGION, { type: "g5.4xlarge", tags: { "engine-room:stack": "prod" } });
    await machine(true);
    const id = await machine();
    expect(await requireMachine(context())).toBe(id);
  });

  test("a missing or stopped machine is reported with the command that creates or starts it", async () => {
    await expect(requireMachine(context())).rejects.toThrow(
      /has no machine in us-west-2 .*npx engine-room up --stack demo/,
    );
    const id = await machine(true);
    await expect(requireMachine(context())).rejects.toThrow(
      `The machine ${id} of demo is stopped; \`npx engine-room wake --stack demo\` starts it.`,
    );
  });

  test("AWS is not asked for the machine if the session-manager-plugin is missing", async () => {
    await machine();
    const asked = vi.mocked(ask).mock.calls.length;
    const withoutPlugin = join(moto.folder(), "without-plugin");
    mkdirSync(withoutPlugin);
    symlinkSync(join(moto.folder(), "aws"), join(withoutPlugin, "aws"));
    vi.stubEnv("PATH", withoutPlugin);
    await expect(requireMachine(context())).rejects.toThrow(
      /has no `session-manager-plugin`\.[\s\S]*install-plugin\.html/,
    );
    expect(ask).toHaveBeenCalledTimes(asked);
  });
});

describe("connect", () => {
  test("connect --dry-run prints a session for the gateway and for each named endpoint", async () => {
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

  test("a forwarded endpoint has an address on this machine, and the other endpoints keep theirs", () => {
    const { endpoints } = readInstanceTarget(stack()).stack;
    const forward = { name: "gateway", address: endpoints.gateway, host: "127.0.0.1", port: 8080 };
    const local = localEndpoints(endpoints, [{ ...forward, localPort: 9000, localAddress: "" }]);
    expect(local).toEqual({ ...endpoints, gateway: "http://127.0.0.1:9000" });
  });

  const forwarded = () =>
    startPortForwards(
      sessionForwards(REGION, "i-0123456789abcdef0", [
        { name: "gateway", address: "", host: "127.0.0.1", port: 8080, localPort: 18_080, localAddress: "" },
      ]),
      () => {},
    );

  test("connect asks for a session, waits until the port is open, and ends the plug-in with the CLI", async () => {
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

  test("connect shows AWS's own error when AWS refuses a session", async () => {
    session = { error: "TargetNotConnected" };
    await expect(forwarded()).rejects.toThrow(
      /^The endpoint gateway can't be forwarded: .*TargetNotConnected.*\n.*ssm:StartSession/,
    );
  });
});

test("logs shows Docker's logs on the machine, in a session that the plug-in gets", async () => {
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
  expect(unknown.stderr).toMatch(/Unknown service "nobody"\. Choose from .*gateway/);
});

test("status shows the machine's state and the command that lists its containers", async () => {
  const id = await machine();
  const { exitCode, stdout } = await command("status");
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(
    new RegExp(
      `^machine ${id} g5\\.4xlarge in us-west-2: running\nList its containers with:\naws ssm start-session `,
    ),
  );
  const { stdout: json } = await command("status", "--json");
  expect(JSON.parse(json)).toEqual([{ name: "machine", id, type: "g5.4xlarge", state: "running" }]);
});

test("status of a missing or stopped machine fails with the command that creates or starts it", async () => {
  expect(await command("status")).toMatchObject({
    exitCode: 1,
    stdout: expect.stringContaining("npx engine-room up --stack demo"),
  });
  await machine(true);
  expect(await command("status")).toMatchObject({
    exitCode: 1,
    stdout: expect.stringContaining("npx engine-room wake --stack demo"),
  });
});

describe("sleep and wake", () => {
  /** States of machines by id. */
  async function states(): Promise<Readonly<Record<string, string | undefined>>> {
    const { Reservations = [] } = await ec2Client(REGION).send(new DescribeInstancesCommand({}));
    const found = Reservations.flatMap(({ Instances = [] }) => Instances);
    return Object.fromEntries(found.map(({ InstanceId = "", State }) => [InstanceId, State?.Name]));
  }

  test("sleep stops the stack's machine and wake starts it, and other machines stay unchanged", async () => {
    const own = await makeMachine(REGION, { type: "g5.xlarge", tags });
    const other = await makeMachine(REGION, { type: "g5.xlarge", tags: { "engine-room:stack": "prod" } });
    const nobodys = await makeMachine(REGION, { type: "g5.xlarge", isStopped: true });
    const asleep = await command("sleep");
    expect(asleep).toMatchObject({ exitCode: 0, stderr: "" });
    expect(asleep.stdout).toMatch(new RegExp(`^${own} stops\\.`));
    expect(await states()).toEqual({ [own]: "stopped", [other]: "running", [nobodys]: "stopped" });
    expect((await command("sleep")).stdout).toMatch(
      new RegExp(`^${own} is asleep already\\.\nAsleep the stack still costs`),
    );
    expect((await command("wake")).stdout).toMatch(new RegExp(`^${own} starts;`));
    expect(await states()).toEqual({ [own]: "running", [other]: "running", [nobodys]: "stopped" });
    expect((await command("wake")).stdout).toMatch(new RegExp(`^${own} is awake already`));
  });

  test("sleep and wake of a stack whose machine was terminated print the command that creates another machine", async () => {
    const id = await makeMachine(REGION, { type: "g5.xlarge", tags });
    await ec2Client(REGION).send(new TerminateInstancesCommand({ InstanceIds: [id] }));
    for (const name of ["sleep", "wake"] as const)
      expect(await command(name)).toMatchObject({
        exitCode: 0,
        stdout: expect.stringMatching(/^The stack has no machine; .*npx engine-room up --stack demo/),
      });
  });
});

describe("the load balancer", () => {
  const { plan, context } = awsPlan({ ...EC2_STACK, account: MOTO_ACCOUNT, region: REGION });

  const edge = edgePlan(plan, context);
  const { read } = readyMachineHandler(0, 0);
  const quiet = { report: () => undefined };
  const found = (instanceId: string, targetGroupArn: string) =>
    read(instanceId, { region: REGION, instanceId, targetGroupArn, commands: {}, commandSeconds: 0 }, quiet);

  /** Creates the stack's load balancer and target group, and another group. @returns Function that adds a machine to it. */
  async function makeEdge() {
    const client = new ElasticLoadBalancingV2Client(clientSettings(REGION));
    const { vpcId, subnetIds } = await makeNetwork(REGION);
    const { LoadBalancers = [] } = await client.send(
      new CreateLoadBalancerCommand({
        Name: edge.loadBalancer.name,
        Scheme: "internal",
        Subnets: [...subnetIds],
      }),
    );
    const makeGroup = async (Name: string) => {
      const { TargetGroups = [] } = await client.send(
        new CreateTargetGroupCommand({ Name, VpcId: vpcId, Protocol: "HTTP", Port: edge.targetGroup.port }),
      );
      return TargetGroups[0]?.TargetGroupArn ?? "";
    };
    await makeGroup("engine-room-other");
    const TargetGroupArn = await makeGroup(edge.targetGroup.name);
    await client.send(
      new CreateListenerCommand({
        LoadBalancerArn: LoadBalancers[0]?.LoadBalancerArn,
        Protocol: "HTTP",
        Port: 80,
        DefaultActions: [{ Type: "forward", TargetGroupArn }],
      }),
    );
    const put = (Id: string) =>
      client.send(
        new RegisterTargetsCommand({ TargetGroupArn, Targets: [{ Id, Port: edge.targetGroup.port }] }),
      );
    return { put, TargetGroupArn };
  }

  test("a machine is ready once it is in the load balancer's target group", async () => {
    const { put, TargetGroupArn } = await makeEdge();
    const id = await makeMachine(REGION, { type: "g5.xlarge" });
    expect(await found(id, TargetGroupArn)).toBeUndefined();
    await put(id);
    expect(await found(id, TargetGroupArn)).toMatchObject({ id });
  });

  test("a stopped machine is ready: it gets requests once it is awake", async () => {
    const { put, TargetGroupArn } = await makeEdge();
    const id = await makeMachine(REGION, { type: "g5.xlarge" });
    await put(id);
    await ec2Client(REGION).send(new StopInstancesCommand({ InstanceIds: [id] }));
    expect(await found(id, TargetGroupArn)).toMatchObject({ id });
  });
});

/** False for a zombie: it ended, and its parent has not waited for it yet. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
