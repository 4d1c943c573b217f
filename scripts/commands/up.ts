import { openStack } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Makes the stack what its file says; what is right already is left alone.",
  usage: "[--stack NAME]",
  async run({ stack }) {
    await (await openStack(stack)).up();
    return EXIT.ok;
  },
};
