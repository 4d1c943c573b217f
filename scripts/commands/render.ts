import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { callerDirectory, readStackFile } from "../program/stack-file.ts";
import { renderJson, renderStack } from "../render.ts";
import { defineCommand, EXIT, requireFolders } from "./command.ts";

export const command = defineCommand({
  options: { "-o, --out <file>": "write to a file instead of standard output" },
  notes: ["The same stack file gives the same bytes. Nothing is contacted or changed."],
  async run({ stack, values }) {
    const { out } = values;
    requireFolders({ "--out": out });
    const text = renderJson(await renderStack(stack.name, readStackFile(stack)));
    if (out !== undefined) writeFileSync(resolve(callerDirectory(), out), text);
    else process.stdout.write(text);
    return EXIT.ok;
  },
});
