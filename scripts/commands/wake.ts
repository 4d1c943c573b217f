import { operationsOf } from "../platforms/index.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Brings the servers back that `npx engine-room sleep` took to zero, as the stack file plans them.",
  usage: "",
  details: [
    "It does not wait for them: it prints how long each takes by the plan, and `npx engine-room status` shows how far they are.",
    "Exit code 1 when the cluster lacks one of them.",
  ],
  asksCluster: true,
  async run({ stack }) {
    const { text, isComplete } = await (await operationsOf(stack)).wake();
    process.stdout.write(text);
    return isComplete ? EXIT.ok : EXIT.failed;
  },
};
