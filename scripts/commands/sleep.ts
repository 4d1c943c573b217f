import { asleepLine } from "../aws/asleep-line.ts";
import { changeMachine, changePools } from "../aws/sleep.ts";
import { clusterProbe } from "../cluster/kubectl.ts";
import { applyChanges, readServers, sleepChanges } from "../cluster/sleep.ts";
import { sleepReport } from "../cluster/sleep-report.ts";
import { awsTarget } from "../program/aws-target.ts";
import { sleepingTarget } from "../program/sleeping-target.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary:
    "Takes the language-model servers of a stack to zero, and its machines on AWS; all else stays as it is.",
  usage: "",
  details: [
    "Nothing is deleted: `npm run wake` brings the servers back, with the engines that they had. What KEDA owns sleeps through its schedule and its load until then; an `up` that changes one of the others wakes it. On EKS pools have no least number of machines then, and the autoscaler takes away those that nobody needs; a stack on EC2 stops.",
  ],
  asksCluster: true,
  async run({ stack: reference }) {
    const target = sleepingTarget(reference, "sleep");
    if (target.kind === "machine") {
      process.stdout.write(await changeMachine(target.aws.context, "sleep"));
      process.stdout.write(asleepLine(target.aws.plan, reference.name));
      return EXIT.ok;
    }
    const { name, stack, plan } = target.cluster;
    const probe = clusterProbe(stack.context);
    const changes = sleepChanges(stack, await readServers(stack, probe));
    await applyChanges(probe, changes);
    process.stdout.write(sleepReport(name, stack, changes));
    if (plan.platform === "aws") {
      process.stdout.write(`\n${await changePools(plan, awsTarget(plan, name).context, "sleep")}`);
      process.stdout.write(`\n${asleepLine(plan, name)}`);
    }
    return EXIT.ok;
  },
};
