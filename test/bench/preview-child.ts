/**
 * One complete preview in its own process, loaded like by the commands:
 *
 *     node loader/run.mjs test/bench/preview-child.ts empty|program STACK CONFIG-FILE
 */
import type { ResourceHandler } from "../../components/local/provider/contract.ts";
import { handlers } from "../../components/local/provider/handlers.ts";
import { runProgram } from "../../scripts/program/run-program.ts";
import { projectName, readStackFile, stackReference } from "../../scripts/program/stack-file.ts";
import { stackPaths } from "../../scripts/stack/stack-paths.ts";
import { TryoutEngine } from "../../scripts/tryout/engine.ts";
import { loadState } from "../../scripts/tryout/state.ts";

const [program, name = "local", configFile] = process.argv.slice(2);
const stack = stackReference(name, configFile);
const empty = program === "empty";
const engine = new TryoutEngine({
  project: projectName(),
  stack: stack.name,
  isPreview: true,
  handlerOf: (type) => (handlers as Readonly<Record<string, ResourceHandler>>)[type],
  state: empty ? { resources: [], pending: [] } : loadState(stackPaths(stack.name).tryoutState),
  save: () => {},
  reporter: {
    start: () => {},
    progress: () => {},
    end: (step) => {
      if (!empty && step.operation !== "same")
        throw new Error(`The stack is not unchanged: ${step.operation} ${step.name}.`);
    },
  },
});
await runProgram({
  stack: stack.name,
  config: readStackFile(stack),
  preview: true,
  owner: engine,
  ...(empty ? { program: () => import("./empty-program.ts") } : {}),
});
