import { operationsOf } from "../platforms/index.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  notes: [
    "It does not wait: it prints how long each server takes by the plan, and `npx engine-room status` shows how far they are.",
    "Exit code 1 when the cluster lacks one of the servers.",
  ],
  asksCluster: true,
  async run({ stack }) {
    const { text, isComplete } = await (await operationsOf(stack)).wake();
    process.stdout.write(text);
    return isComplete ? EXIT.ok : EXIT.failed;
  },
});
