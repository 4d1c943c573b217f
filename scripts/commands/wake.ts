import { changeMachine, changePools } from "../aws/sleep.ts";
import { clusterProbe } from "../cluster/kubectl.ts";
import { applyChanges, readServers, wakeChanges } from "../cluster/sleep.ts";
import { wakeReport } from "../cluster/sleep-report.ts";
import { duration } from "../plan/text-table.ts";
import { awsTarget } from "../program/aws-target.ts";
import { sleepingTarget } from "../program/sleeping-target.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Brings the servers back that `npm run sleep` took to zero, as the stack file plans them.",
  usage: "",
  details: [
    "It does not wait for them: it prints how long each takes by the plan, and `npm run status` shows how far they are.",
    "Exit code 1 when the cluster lacks one of them.",
  ],
  asksCluster: true,
  async run({ stack: reference }) {
    const target = sleepingTarget(reference, "wake");
    if (target.kind === "machine") {
      process.stdout.write(await changeMachine(target.aws.context, "wake"));
      return EXIT.ok;
    }
    const { name, plan, stack } = target.cluster;
    // First: pods that come wait for machines.
    const pools =
      plan.platform === "aws" ? await changePools(plan, awsTarget(plan, name).context, "wake") : null;
    const probe = clusterProbe(stack.context);
    // On a CPU nobody has estimated it.
    const estimates = new Map(
      plan.tier === "cpu" ? [] : plan.models.map((model) => [model.name, model.coldStart.seconds]),
    );
    const changes = wakeChanges(stack, await readServers(stack, probe), (server) => {
      const seconds = estimates.get(server);
      return seconds === undefined ? null : duration(seconds);
    });
    await applyChanges(probe, changes);
    process.stdout.write(wakeReport(name, changes));
    if (pools !== null) process.stdout.write(`\n${pools}`);
    return changes.some(({ from }) => from === null) ? EXIT.failed : EXIT.ok;
  },
};
