/** What a machine itself says of the commands that `up` had it run. */
import { setTimeout as sleep } from "node:timers/promises";
import type { AwsContext } from "../../infra/plan/aws/context.ts";
import type { InstanceTask } from "../../infra/plan/aws/machine/tasks.ts";
import { UserError } from "../errors.ts";
import type { RunningMachine } from "./ec2.ts";
import { stackInstance } from "./instance.ts";
import { type Answer, allPages, ask, clientSettings } from "./session.ts";

/** A command on one machine, as Systems Manager has it. */
interface CommandReading {
  /** Id of its association. */
  readonly id: string;
  /** Name of its document. */
  readonly document: string;
  /** `Pending`, `InProgress`, `Success`, `Failed`, … */
  readonly status: string;
  /** Why it failed; empty where nobody says. */
  readonly words: string;
}

/** What is known of all of them; `missing` and `failed` are names of tasks. */
type CommandProgress =
  | { readonly kind: "done" }
  | { readonly kind: "waiting"; readonly missing: readonly string[] }
  | { readonly kind: "failed"; readonly failed: string; readonly id: string; readonly words: string };

const PAUSE_MILLISECONDS = 10_000;

/** By machine: a machine that has not reported yet has run none. */
async function machineCommands(region: string, id: string): Promise<Answer<readonly CommandReading[]>> {
  const sdk = await import("@aws-sdk/client-ssm");
  const client = new sdk.SSMClient(clientSettings(region));
  return ask("ssm:DescribeInstanceAssociationsStatus", async (options) => {
    const pages = sdk.paginateDescribeInstanceAssociationsStatus({ client }, { InstanceId: id }, options);
    try {
      const found = await allPages(pages, (page) => page.InstanceAssociationStatusInfos);
      return found.map((one) => ({
        id: one.AssociationId ?? "",
        document: one.Name ?? "",
        status: one.Status ?? "",
        words: one.ExecutionSummary ?? "",
      }));
    } catch (error) {
      if (error instanceof sdk.InvalidInstanceId) return [];
      throw error;
    }
  });
}

/** Of a stack: each has to have ended well on its machine. */
type Tasks = readonly Pick<InstanceTask, "name" | "document" | "waitSeconds">[];

function commandProgress(tasks: Tasks, readings: readonly CommandReading[]): CommandProgress {
  const runs = tasks.map(({ name, document }) => ({
    name,
    reading: readings.find((one) => one.document === document.name),
  }));
  for (const { name, reading } of runs)
    if (reading?.status === "Failed")
      return { kind: "failed", failed: name, id: reading.id, words: reading.words };
  const missing = runs.filter(({ reading }) => reading?.status !== "Success").map(({ name }) => name);
  return missing.length === 0 ? { kind: "done" } : { kind: "waiting", missing };
}

/**
 * Waits until the machine of a stack has run all its commands, of which the last one ends when the gateway answers there. The
 * provider waits too, but for what Systems Manager says of an association as a whole, which may be success while the machine has
 * not reported yet (issue 31175 of terraform-provider-aws): then nothing has run.
 *
 * @returns what to print; "" where the machine has run all of them.
 * @throws UserError where the machine does not run, a command failed, or the time of all of them is over.
 */
export async function awaitCommands(
  context: AwsContext,
  tasks: Tasks,
  pauseMilliseconds = PAUSE_MILLISECONDS,
): Promise<string> {
  const seconds = tasks.reduce((sum, { waitSeconds }) => sum + waitSeconds, 0);
  const end = Date.now() + seconds * 1000;
  const machine = await runningMachine(context, end, pauseMilliseconds);
  for (;;) {
    const answer = await machineCommands(context.region, machine.id);
    if (answer.kind !== "answer")
      return `Whether ${machine.id} has run everything is not known: ${answer.kind === "absent" ? "AWS has no answer" : answer.words}. \`npx engine-room status --stack ${context.stack}\` says how it is.\n`;
    const progress = commandProgress(tasks, answer.value);
    if (progress.kind === "done") return "";
    if (progress.kind === "failed")
      throw new UserError(
        `The command ${progress.failed} failed on ${machine.id}: ${progress.words || "Systems Manager does not say why"}. State Manager has its output; \`aws ssm start-associations-once --region ${context.region} --association-ids ${progress.id}\` runs it again.`,
      );
    if (Date.now() >= end)
      throw new UserError(
        `${machine.id} has not run ${progress.missing.join(", ")} within ${seconds} s. \`npx engine-room status --stack ${context.stack}\` says how it is.`,
      );
    await sleep(pauseMilliseconds);
  }
}

/** One that was asleep may still start when Pulumi is done. */
async function runningMachine(
  context: AwsContext,
  end: number,
  pauseMilliseconds: number,
): Promise<RunningMachine> {
  const { region, stack } = context;
  for (;;) {
    const machine = await stackInstance(context);
    if (machine?.state === "running") return machine;
    if (machine === null)
      throw new UserError(
        `${region} has no machine of ${stack} any more, so nothing serves; \`npx engine-room up --stack ${stack}\` makes another one.`,
      );
    if (machine.state !== "pending" || Date.now() >= end)
      throw new UserError(
        `The machine ${machine.id} of ${stack} is ${machine.state}, so nothing serves; \`npx engine-room wake --stack ${stack}\` starts it.`,
      );
    await sleep(pauseMilliseconds);
  }
}
