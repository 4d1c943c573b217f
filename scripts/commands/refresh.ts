import { openStack } from "../stack/backend.ts";
import { requireKnownStack } from "../stack/stack-paths.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary:
    "Reads what there really is: what is gone is shown and leaves the state, and the next `up` makes it again.",
  usage: "",
  async run({ stack }) {
    requireKnownStack(stack);
    await (await openStack(stack)).refresh();
    return EXIT.ok;
  },
};
