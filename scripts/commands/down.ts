import { openStack } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Stops and deletes everything of the stack; only downloads stay in the cache.",
  usage: "[--stack NAME]",
  async run({ stack }) {
    await (await openStack(stack)).down();
    return EXIT.ok;
  },
};
