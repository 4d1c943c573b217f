/**
 * One resource graph in a process of its own, thrown away, as the commands load it:
 *
 *     node loader/run.mjs scripts/bench/render-child.ts empty|program CONFIG-FILE
 */
import { readStackFile, stackReference } from "../program/stack-file.ts";
import { renderStack } from "../render.ts";

const [program, configFile] = process.argv.slice(2);
const stack = stackReference("bench", configFile);
await renderStack(
  stack.name,
  readStackFile(stack),
  program === "empty" ? () => import("./empty-program.ts") : undefined,
);
