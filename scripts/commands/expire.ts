import { UsageError, UserError } from "../errors.ts";
import { endAll, endIfOver, survey, surveyReport } from "../expire/expire.ts";
import { PulumiState, stateUrls } from "../expire/pulumi-states.ts";
import { findProgram } from "../stack/pulumi-cli.ts";
import { defineCommand } from "./command.ts";

export const command = defineCommand({
  options: {
    "--json":
      "print JSON: {stacks, isDone}; a stack has name, time (over, running, retained, unlimited, updating, unknown), why, cost of an hour; isDone is false if --down left an expired stack",
    "--down": "delete expired stacks, as `npx engine-room down` does; a failure stops no other deletion",
    "--begin-within <minutes>":
      "with --down: start no deletion later than this many minutes from now, if credentials expire while it runs",
  },
  notes: [
    "The time to live (`guard.ttlHours`) is read from the state of the stack's last `up`, not from the stack file, and counts from the end of that `up`. Never deleted: a stack that its own `retain` names, and a stack on which another operation runs. Needs the Pulumi CLI.",
    "Exit code 1 if an expired stack was not deleted, if its deletion was not started, or if a stack's state is unknown and needs a check by hand.",
  ],
  takesNoStack: true,
  async run({ values, out }) {
    const started = Date.now();
    const { beginWithin } = values;
    if (beginWithin !== undefined && !/^[1-9]\d{0,3}$/.test(beginWithin))
      throw new UsageError(
        `--begin-within must be a whole number of minutes from 1 to 9999, such as 15; it is ${beginWithin}.`,
      );
    const pulumi = findProgram("pulumi");
    if (pulumi === undefined)
      throw new UserError(
        "`pulumi` is not on PATH, and only the Pulumi CLI can read the states of stacks that expire; install it (https://www.pulumi.com/docs/install/) and try again.",
      );
    const stacks = await survey(
      stateUrls().map((url) => new PulumiState(pulumi, url)),
      started,
    );
    out.write(surveyReport(stacks));
    const isDone =
      values.down !== true ||
      (await endAll(stacks, {
        beginWithinMinutes: beginWithin === undefined ? undefined : Number(beginWithin),
        started,
        say: (text) => out.write(text),
        end: (stack, now) => endIfOver(stack, now, out),
      }));
    return {
      json: {
        stacks: stacks.map(({ record: { name }, lifetime, cost }) => ({
          name,
          time: lifetime.time,
          why: lifetime.why,
          cost,
        })),
        isDone,
      },
      isOk: isDone && !stacks.some(({ lifetime }) => lifetime.needsPerson),
    };
  },
});
