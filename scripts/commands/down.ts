import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../program/stack-file.ts";
import { openStack } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Stops and deletes everything of the stack but its documents; downloads stay in the cache.",
  usage: "[--stack NAME] [--delete-data]",
  details: ["--delete-data  the documents of its databases as well"],
  options: { "delete-data": { type: "boolean" } },
  async run({ stack, values }) {
    await (await openStack(stack)).down();
    const data = `.data/${stack.name}`;
    const folder = join(projectRoot, data);
    if (values["delete-data"] === true) rmSync(folder, { recursive: true, force: true });
    else if (existsSync(folder)) {
      process.stderr.write(
        `The documents are kept in ${data}; \`npm run down -- --delete-data\` deletes them.\n`,
      );
    }
    return EXIT.ok;
  },
};
