/** `up` on one machine ends when that machine says so, whatever Systems Manager says of its associations as a whole. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { awsContext } from "../../../infra/plan/aws/context.ts";
import { awaitCommands } from "../../../scripts/aws/machine-commands.ts";
import { ec2Plan, ec2Values, instanceOf } from "../../infra/plan/aws/machine/stacks.ts";
import { account, running } from "./account.ts";
import { type FakeAnswer, type FakeAws, startFakeAws, stubCredentials } from "./fake-aws.ts";

const QUESTION = "ssm:DescribeInstanceAssociationsStatus";
const { tasks } = instanceOf(ec2Values);
const context = awsContext(ec2Plan(ec2Values).config, "demo");

let aws: FakeAws;
beforeEach(() => {
  stubCredentials();
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await aws.close();
});

/** Of all tasks, each with the status of its place; the last one counts for the rest. */
function reported(...statuses: readonly string[]): FakeAnswer {
  const InstanceAssociationStatusInfos = tasks.map(({ document }, index) => ({
    AssociationId: `id-${index}`,
    Name: document.name,
    Status: statuses[index] ?? statuses.at(-1),
    ExecutionSummary: `words of ${index}`,
  }));
  return { json: { InstanceAssociationStatusInfos } };
}

/** @param states - Of the machine. @param answers - As these, one after the other, the last one again and again. */
async function awaited(
  states: string | readonly string[],
  answers: readonly FakeAnswer[],
  all = tasks,
): Promise<string> {
  let asked = 0;
  const left = [states].flat();
  aws = await startFakeAws(
    account({
      "ec2:DescribeInstances": () =>
        running([{ type: "g5.xlarge", state: (left.length > 1 ? left.shift() : left[0]) ?? "" }]),
      [QUESTION]: () => answers[Math.min(asked++, answers.length - 1)] ?? { error: "InternalServerError" },
    }),
  );
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  return awaitCommands(context, all, 1);
}
const questions = () => aws.asked.filter((action) => action === QUESTION).length;

describe("a machine that has run its commands", () => {
  test("is one that reports success of each; one that nobody knows yet has run none", async () => {
    const words = await awaited("running", [
      { error: "InvalidInstanceId" },
      { json: { InstanceAssociationStatusInfos: [] } },
      reported("Success", "InProgress", "Pending"),
      reported("Success"),
    ]);
    expect(words).toBe("");
    expect(questions()).toBe(4);
  });

  test("is not one that reports those of a plan before it, and the wait has an end", async () => {
    const short = tasks.map((task) => ({ ...task, waitSeconds: 0 }));
    const others = short.map((task) => ({
      ...task,
      document: { ...task.document, name: `${task.document.name}0` },
    }));
    await expect(awaited("running", [reported("Success")], others)).rejects.toThrow(
      /i-0 has not run setup, build-gpt2-medium-\w+, build-encoders-\w+, services within 0 s\./,
    );
  });

  test("is not one where a command failed, which can be run again", async () => {
    await expect(awaited("running", [reported("Success", "Failed", "Pending")])).rejects.toThrow(
      /The command build-gpt2-medium-\w+ failed on i-0: words of 1\. .*--association-ids id-1` runs it again/,
    );
  });

  test("is not known where nobody may ask", async () => {
    expect(await awaited("running", [{ error: "AccessDeniedException" }])).toMatch(
      /^Whether i-0 has run everything is not known: AccessDeniedException.*npm run status -- --stack demo/,
    );
  });

  test.each(["stopping", "stopped"])("is none that is %s: nothing serves", async (state) => {
    await expect(awaited(state, [reported("Success")])).rejects.toThrow(
      `The machine i-0 of demo is ${state}, so nothing serves; \`npm run wake -- --stack demo\` starts it.`,
    );
    expect(questions()).toBe(0);
  });

  test("is waited for while it starts", async () => {
    expect(await awaited(["pending", "pending", "running"], [reported("Success")])).toBe("");
    expect(questions()).toBe(1);
  });
});
