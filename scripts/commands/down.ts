import { endStack } from "../stack/end-stack.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary:
    "Stops and deletes everything of the stack but its documents, and on AWS these too; downloads stay in the cache.",
  usage: "[--stack NAME] [--delete-data]",
  details: [
    "--delete-data        the documents of its databases as well",
    "Of a stack on AWS nothing stays that its file does not name in `retain`, documents and engines neither, with or without",
    "--delete-data; at the end it lists by tag what still costs money, and how each is deleted.",
  ],
  options: { "delete-data": { type: "boolean" } },
  async run({ stack, values }) {
    await endStack(stack, values["delete-data"] === true);
    return EXIT.ok;
  },
};
