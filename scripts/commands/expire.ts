import { UsageError, UserError } from "../errors.ts";
import { endAll, lifetimeWords, survey, surveyReport } from "../expire/expire.ts";
import { needsPerson } from "../expire/lifetime.ts";
import { PulumiState, stateUrls } from "../expire/pulumi-states.ts";
import { findPulumi } from "../stack/pulumi-cli.ts";
import { defineCommand, EXIT, printJson } from "./command.ts";

export const command = defineCommand({
  options: {
    "--json":
      "print JSON: {stacks, isDone}; a stack has name, time (over, running, retained, unlimited, updating, unknown), why, cost of an hour; isDone is false where --down left an expired stack",
    "--down": "delete expired stacks, as `npx engine-room down` does; a failure stops no other deletion",
    "--begin-within <minutes>":
      "with --down: begin no deletion later than this from now, where credentials expire while it runs",
  },
  notes: [
    "The time to live (`guard.ttlHours`) counts from the end of a stack's last `up`, and is that of this `up`: the state is asked, not the stack file. Never deleted: a stack that its own `retain` names, and a stack on which another operation runs. Needs the Pulumi CLI.",
    "Exit code 1 where an expired stack was not deleted, or its deletion not begun, and where a person has to look because nothing is known.",
  ],
  takesNoStack: true,
  async run({ values }) {
    const started = Date.now();
    const beginWithinMinutes = minutesOf(values.beginWithin);
    const pulumi = findPulumi();
    if (pulumi === undefined)
      throw new UserError(
        "Only the Pulumi CLI has stacks with a ttl, and there is none on PATH; put `pulumi` there (https://www.pulumi.com/docs/install/) and try again.",
      );
    const states = stateUrls().map((url) => new PulumiState(pulumi, url));
    const stacks = await survey(states, started);
    const out = values.json === true ? process.stderr : process.stdout;
    out.write(surveyReport(stacks));
    const hasStuck = stacks.some(({ lifetime }) => needsPerson(lifetime));
    const say = (text: string) => out.write(text);
    const isDone = values.down === true ? await endAll(stacks, { beginWithinMinutes, started, say }) : true;
    if (values.json === true)
      printJson({
        stacks: stacks.map(({ record, lifetime, cost }) => ({
          name: record.name,
          time: lifetime.kind,
          why: lifetimeWords(lifetime),
          cost,
        })),
        isDone,
      });
    return isDone && !hasStuck ? EXIT.ok : EXIT.failed;
  },
});

/** @throws UsageError where it is no whole number of minutes. */
function minutesOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw new UsageError(
    `--begin-within must be a whole number of minutes from 1 to 9999, such as 15; it is ${text}.`,
  );
}
