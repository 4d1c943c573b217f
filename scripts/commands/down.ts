import { existsSync, rmSync } from "node:fs";
import { relative } from "node:path";
import { projectRoot } from "../program/stack-file.ts";
import { openStack, stackPaths } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Stops and deletes everything of the stack but its documents; downloads stay in the cache.",
  usage: "[--stack NAME] [--delete-data]",
  details: ["--delete-data  the documents of its databases as well"],
  options: { "delete-data": { type: "boolean" } },
  async run({ stack, values }) {
    await (await openStack(stack)).down();
    const { data } = stackPaths(stack.name);
    if (values["delete-data"] === true) rmSync(data, { recursive: true, force: true });
    else if (existsSync(data)) {
      process.stderr.write(
        `The documents are kept in ${relative(projectRoot, data)}; \`npm run down -- --delete-data\` deletes them.\n`,
      );
    }
    return EXIT.ok;
  },
};
