import { operationsOf } from "../platforms/index.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary:
    "Takes the language-model servers of a stack to zero, and its machines on AWS; all else stays as it is.",
  usage: "",
  details: [
    "Nothing is deleted: `npx engine-room wake` brings the servers back, with the engines that they had. What KEDA owns sleeps through its schedule and its load until then; an `up` that changes one of the others wakes it. On EKS pools have no least number of machines then, and the autoscaler takes away those that nobody needs; a stack on EC2 stops.",
  ],
  asksCluster: true,
  async run({ stack }) {
    await (await operationsOf(stack)).sleep((text) => process.stdout.write(text));
    return EXIT.ok;
  },
};
