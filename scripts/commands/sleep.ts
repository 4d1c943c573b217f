import { clusterProbe } from "../cluster/kubectl.ts";
import { applyChanges, readServers, sleepChanges } from "../cluster/sleep.ts";
import { sleepReport } from "../cluster/sleep-report.ts";
import { sleepingTarget } from "../program/sleeping-target.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Takes the language-model servers of a stack in a cluster to zero pods; all else stays as it is.",
  usage: "[--stack NAME]",
  details: [
    "Nothing is deleted: `npm run wake` brings the servers back, with the engines that they had. What KEDA owns sleeps",
    "through its schedule and its load until then; an `up` that changes one of the others wakes it.",
  ],
  async run({ stack: reference }) {
    const { name, stack } = sleepingTarget(reference, "sleep");
    const probe = clusterProbe(stack.context);
    const changes = sleepChanges(stack, await readServers(stack, probe));
    await applyChanges(probe, changes);
    process.stdout.write(sleepReport(name, stack, changes));
    return EXIT.ok;
  },
};
