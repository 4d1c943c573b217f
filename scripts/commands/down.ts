import { endStack, openStack } from "../stack/backend.ts";
import { isConfirmed } from "../stack/confirm.ts";
import { requireKnownStack } from "../stack/stack-paths.ts";
import { defineCommand, EXIT, printJson } from "./command.ts";

export const command = defineCommand({
  options: {
    "--delete-data": "the documents of its databases as well",
    "--json":
      "print JSON: {stack, changes, unchanged, isRestKnown}; a change has operation, name, type, urn; isRestKnown is false where AWS does not say what still costs money",
    "-y, --yes": "delete rented machines and what is on them without a question; CI=true means the same",
  },
  notes: [
    "Documents stay, but on AWS all goes that `retain` does not name, documents too; downloads stay in the cache. On AWS it lists by tag what still costs money at the end, and how each is deleted. Exit code 1 where AWS does not say, and where the account has things of a stack that the state does not know.",
  ],
  async run({ stack, values }) {
    requireKnownStack(stack);
    const isGoing = await isConfirmed(stack, await openStack(stack), "down", values.yes === true);
    if (!isGoing) return EXIT.failed;
    const out = values.json === true ? process.stderr : process.stdout;
    const { isRestKnown, changes } = await endStack(stack, values.deleteData === true, out);
    if (values.json === true) printJson({ stack: stack.name, ...changes, isRestKnown });
    return isRestKnown ? EXIT.ok : EXIT.failed;
  },
});
