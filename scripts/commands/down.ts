import { endStack } from "../stack/backend.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: { "--delete-data": "the documents of its databases as well" },
  notes: [
    "Documents stay, but on AWS all goes that `retain` does not name, documents too; downloads stay in the cache. On AWS it lists by tag what still costs money at the end, and how each is deleted. Exit code 1 where AWS does not say, and where the account has things of a stack that the state does not know.",
  ],
  async run({ stack, values }) {
    const { isRestKnown } = await endStack(stack, values.deleteData === true);
    return isRestKnown ? EXIT.ok : EXIT.failed;
  },
});
