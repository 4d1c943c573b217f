import { operationsOf } from "../platforms/index.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  notes: [
    "Nothing is deleted: `npx engine-room wake` brings the servers back, with their engines. All else stays as it is. KEDA-managed models stay at their schedule and load; an `up` that changes one of the others wakes it. On EKS the minimum size of the pools becomes 0, and the autoscaler removes machines that nothing needs; the machine of a stack on EC2 is stopped.",
  ],
  asksCluster: true,
  async run({ stack }) {
    await (await operationsOf(stack)).sleep((text) => process.stdout.write(text));
    return EXIT.ok;
  },
});
