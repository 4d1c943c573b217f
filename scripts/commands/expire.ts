import { UsageError, UserError } from "../errors.ts";
import { endAll } from "../expire/end-all.ts";
import { survey } from "../expire/expire.ts";
import { needsPerson } from "../expire/lifetime.ts";
import { PulumiState, stateUrls } from "../expire/pulumi-states.ts";
import { surveyReport } from "../expire/report.ts";
import { findPulumi } from "../setup/pulumi-cli.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Lists the stacks of the state, and which of them have had their time (`guard.ttlHours`).",
  usage: "[--down] [--begin-within MINUTES]",
  details: [
    "--down               end those, as `npx engine-room down` does; one that can't be ended stops no other",
    "--begin-within M     with --down: begin none later than M minutes from now, where credentials end while one goes",
    "A ttl counts from the end of a stack's last `up`, and is the one that this `up` had: the state is asked, and no stack",
    "file. Never ended: a stack that its own `retain` names, and one that another operation has. It takes the Pulumi CLI.",
    "Exit code 1 where one was not ended, or not begun, and where nobody can say and a person has to look.",
  ],
  options: { down: { type: "boolean" }, "begin-within": { type: "string" } },
  takesNoStack: true,
  async run({ values }) {
    const started = Date.now();
    const beginWithinMinutes = minutesOf(values["begin-within"]);
    const pulumi = findPulumi();
    if (pulumi === undefined)
      throw new UserError(
        "Only the Pulumi CLI has stacks with a ttl, and there is none on PATH; put `pulumi` there (https://www.pulumi.com/docs/install/) and try again.",
      );
    const states = stateUrls().map((url) => new PulumiState(pulumi, url));
    const stacks = await survey(states, started);
    process.stdout.write(surveyReport(stacks));
    const hasStuck = stacks.some(({ lifetime }) => needsPerson(lifetime));
    const say = (text: string) => process.stdout.write(text);
    const isDone = values.down === true ? await endAll(stacks, { beginWithinMinutes, started, say }) : true;
    return isDone && !hasStuck ? EXIT.ok : EXIT.failed;
  },
};

/** @throws UsageError where it is no whole number of minutes. */
function minutesOf(text: unknown): number | undefined {
  if (text === undefined) return undefined;
  if (typeof text === "string" && /^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw new UsageError(`--begin-within takes whole minutes, such as 15, and not ${String(text)}.`);
}
