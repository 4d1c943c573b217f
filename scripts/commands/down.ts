import { endStack } from "../stack/end-stack.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary:
    "Stops and deletes everything of the stack but its documents, and on AWS these too; downloads stay in the cache.",
  usage: "[--delete-data]",
  details: [
    "--delete-data        the documents of its databases as well",
    "On AWS all goes that `retain` does not name, documents too. At the end it lists by tag what still costs money, and how each is deleted. Exit code 1 where AWS does not say, and where the account has things of a stack that the state does not know.",
  ],
  options: { "delete-data": { type: "boolean" } },
  async run({ stack, values }) {
    const { isRestKnown } = await endStack(stack, values["delete-data"] === true);
    return isRestKnown ? EXIT.ok : EXIT.failed;
  },
};
