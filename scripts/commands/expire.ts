import { UserError } from "../errors.ts";
import { type Ending, endIfOver, type SurveyedStack, survey } from "../expire/expire.ts";
import { needsPerson } from "../expire/lifetime.ts";
import { PulumiState, stateUrls } from "../expire/pulumi-states.ts";
import { endingAnnouncement, endingReport, surveyReport } from "../expire/report.ts";
import { findPulumi } from "../setup/pulumi-cli.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Lists the stacks of the state, and which of them have had their time (`guard.ttlHours`).",
  usage: "[--down]",
  details: [
    "--down               end those, as `npm run down` does; one that can't be ended stops no other",
    "A ttl counts from the end of a stack's last `up`, and is the one that this `up` had: the state is asked, and no stack file. Never ended: a stack that its own `retain` names, and one that another operation has. It takes the Pulumi CLI.",
    "Exit code 1 where one was not ended, and where nobody can say and a person has to look.",
  ],
  options: { down: { type: "boolean" } },
  takesNoStack: true,
  async run({ values }) {
    const pulumi = findPulumi();
    if (pulumi === undefined)
      throw new UserError(
        "Only the Pulumi CLI has stacks with a ttl, and there is none on PATH; put `pulumi` there (https://www.pulumi.com/docs/install/) and try again.",
      );
    const states = stateUrls().map((url) => new PulumiState(pulumi, url));
    const stacks = await survey(states, Date.now());
    process.stdout.write(surveyReport(stacks));
    const hasStuck = stacks.some(({ lifetime }) => needsPerson(lifetime));
    const isDone = values.down === true ? await endAll(stacks) : true;
    return isDone && !hasStuck ? EXIT.ok : EXIT.failed;
  },
};

/** @returns Whether all are gone, or in the hands of an operation that will end. */
async function endAll(stacks: readonly SurveyedStack[]): Promise<boolean> {
  const over = stacks.filter(({ lifetime }) => lifetime.kind === "over");
  let isInterrupted = false;
  const interrupted = () => {
    isInterrupted = true;
  };
  // The CLI ends what it is doing, and no further stack is begun.
  process.on("SIGINT", interrupted).on("SIGTERM", interrupted);
  const endings: Ending[] = [];
  try {
    for (const stack of over) {
      if (isInterrupted) break;
      process.stdout.write(`\n${endingAnnouncement(stack)}`);
      const ending = await endIfOver(stack, Date.now());
      process.stdout.write(endingReport(stack.record.name, ending));
      endings.push(ending);
    }
  } finally {
    process.off("SIGINT", interrupted).off("SIGTERM", interrupted);
  }
  return endings.length === over.length && endings.every(isSettled);
}

function isSettled(ending: Ending): boolean {
  if (ending.kind === "ended") return ending.isRestKnown;
  return ending.kind === "left" && !needsPerson(ending.lifetime);
}
