/**
 * One resource graph in its own process, discarded, loaded like by the commands:
 *
 *     node loader/run.mjs test/bench/render-child.ts empty|program CONFIG-FILE
 */
import { readStackFile, stackReference } from "../../scripts/program/stack-file.ts";
import { renderStack } from "../../scripts/render.ts";

const [program, configFile] = process.argv.slice(2);
const stack = stackReference("bench", configFile);
await renderStack(
  stack.name,
  readStackFile(stack),
  program === "empty" ? () => import("./empty-program.ts") : undefined,
);
