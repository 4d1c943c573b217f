/** The wait of `pulumi up` for a machine of EC2, against a fake of AWS. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { readyMachineHandler } from "../../../components/local/provider/ready-machine.ts";
import { type Answers, account, running } from "../../scripts/aws/account.ts";
import {
  type FakeAnswer,
  type FakeAws,
  startFakeAws,
  stubCredentials,
  xmlAnswer,
} from "../../scripts/aws/fake-aws.ts";

const COMMANDS = "ssm:DescribeInstanceAssociationsStatus";
const HEALTH = "elasticloadbalancing:DescribeTargetHealth";

const machine = {
  region: "us-east-1",
  instanceId: "i-0",
  targetGroupArn:
    "arn:aws:elasticloadbalancing:us-east-1:111122223333:targetgroup/engine-room-demo/0123456789abcdef",
  commands: { setup: "id-0", "build-gpt2": "id-1", services: "id-2" },
  commandSeconds: 60,
};

let aws: FakeAws | undefined;
const asked = (action: string) => aws?.asked.filter((one) => one === action).length;

beforeEach(stubCredentials);
afterEach(async () => {
  await aws?.close();
  vi.unstubAllEnvs();
});

/** Each has its answers one after the other, the last one again and again. */
interface Scene {
  readonly states?: readonly string[];
  readonly runs?: readonly FakeAnswer[];
  readonly targets?: readonly FakeAnswer[];
}

async function use({
  states = ["running"],
  runs = [ran("Success")],
  targets = [healthy],
}: Scene): Promise<void> {
  const next = <T>(list: readonly T[]) => {
    let answered = 0;
    return () => list[Math.min(answered++, list.length - 1)] as T;
  };
  const state = next(states);
  const answers: Answers = {
    "ec2:DescribeInstances": () => running([{ type: "g5.xlarge", state: state() }]),
    [COMMANDS]: next(runs),
    [HEALTH]: next(targets),
  };
  aws = await startFakeAws(account(answers));
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
}

/** An answer for all commands, with the status at each command's index; the last status is for the rest. */
function ran(...statuses: readonly string[]): FakeAnswer {
  const InstanceAssociationStatusInfos = Object.values(machine.commands).map((AssociationId, index) => ({
    AssociationId,
    Status: statuses[index] ?? statuses.at(-1),
    ExecutionSummary: `words of ${index}`,
  }));
  return { json: { InstanceAssociationStatusInfos } };
}

function health(...targets: readonly { id: string; state: string; reason?: string }[]): FakeAnswer {
  const TargetHealthDescriptions = targets.map(({ id, state, reason }) => ({
    Target: { Id: id, Port: 8080 },
    TargetHealth: { State: state, ...(reason === undefined ? {} : { Reason: reason }) },
  }));
  return xmlAnswer("DescribeTargetHealth", { TargetHealthDescriptions }, "member");
}

const healthy = health({ id: "i-0", state: "healthy" });
const unhealthy = health({ id: "i-0", state: "unhealthy", reason: "Target.FailedHealthChecks" });
const stopped = health({ id: "i-0", state: "unused", reason: "Target.InvalidState" });

const context = { report: () => undefined };
const made = (changes: object = {}, targetSeconds = 60) =>
  readyMachineHandler(0, targetSeconds).create("ready", { ...machine, ...changes }, context);
const found = () => readyMachineHandler(0, 0).read("i-0", machine, context);

test("a machine is ready once it has run all commands and its load balancer finds it healthy", async () => {
  await use({
    states: ["pending", "running"],
    runs: [
      { error: "InvalidInstanceId" },
      { json: { InstanceAssociationStatusInfos: [] } },
      ran("Success", "InProgress", "Pending"),
      ran("Success"),
    ],
    targets: [health(), health({ id: "i-1", state: "draining" }, { id: "i-0", state: "initial" }), healthy],
  });
  expect((await made()).id).toBe("i-0");
  expect([asked("ec2:DescribeInstances"), asked(COMMANDS), asked(HEALTH)]).toEqual([2, 4, 3]);
});

test("the wait ends at a failed command, with the command that runs it again", async () => {
  await use({ runs: [ran("Success", "Failed", "Pending")] });
  await expect(made()).rejects.toThrow(
    /The command build-gpt2 failed on i-0: words of 1\. .*--association-ids id-1` runs it again/,
  );
});

test("commands of another plan do not count as the machine's", async () => {
  await use({});
  const commands = { ...machine.commands, services: "id-9" };
  await expect(made({ commands, commandSeconds: 0 })).rejects.toThrow("i-0 has not run services within 0 s.");
});

test.each(["stopping", "stopped", "terminated"])("a machine that is %s runs no command", async (state) => {
  await use({ states: [state] });
  await expect(made()).rejects.toThrow(`The machine i-0 is ${state}`);
  expect(asked(COMMANDS)).toBe(0);
});

test.each([
  ["is not healthy", unhealthy, "i-0 is unhealthy (Target.FailedHealthChecks)"],
  ["is not registered", health(), "no machine is registered with it"],
])(
  "the wait ends with the load balancer's reason if the machine %s in time",
  async (_what, target, words) => {
    await use({ targets: [target] });
    await expect(made({}, 0)).rejects.toThrow(
      `The load balancer sends no requests to i-0 after 0 s: ${words}.`,
    );
  },
);

test.each([COMMANDS, HEALTH])("the wait ends if AWS denies %s", async (action) => {
  const denied = [{ error: "AccessDenied" }];
  await use(action === COMMANDS ? { runs: denied } : { targets: denied });
  await expect(made()).rejects.toThrow("AccessDenied");
});

test.each([
  ["is there while it is healthy", healthy, { id: "i-0" }],
  ["is there while it sleeps", stopped, { id: "i-0" }],
  [
    "is gone while its load balancer sends it nothing, so that the next up waits for it",
    unhealthy,
    undefined,
  ],
])("a refresh finds that a ready machine %s", async (_what, target, expected) => {
  await use({ targets: [target] });
  const state = await found();
  expect(state && { id: state.id }).toEqual(expected);
});
