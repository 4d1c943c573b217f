import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { callerDirectory, readStackFile } from "../program/stack-file.ts";
import { renderJson, renderStack } from "../render.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary:
    "Prints the whole resource graph of a stack as deterministic JSON; nothing is contacted or changed.",
  usage: "[--out FILE]",
  details: ["--out FILE           write there instead of to standard output"],
  options: { out: { type: "string", short: "o" } },
  async run({ stack, values }) {
    const text = renderJson(await renderStack(stack.name, readStackFile(stack)));
    const out = values.out;
    if (typeof out === "string") writeFileSync(resolve(callerDirectory(), out), text);
    else process.stdout.write(text);
    return EXIT.ok;
  },
};
