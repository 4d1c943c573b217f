/** The resources of the package `local`, by type token. */
import type { ResourceHandler } from "./contract.ts";
import { fixedValues } from "./fixed-values.ts";
import { modelRepository } from "./model-repository.ts";
import { nodeGroupSize } from "./node-group-size.ts";
import { processHandler } from "./process.ts";
import { pythonEnvironment } from "./python.ts";
import { readyMachine } from "./ready-machine.ts";

export const handlers = {
  "local:index:PythonEnvironment": pythonEnvironment,
  "local:index:ModelRepository": modelRepository,
  "local:index:Process": processHandler,
  "local:index:NodeGroupSize": nodeGroupSize,
  "local:index:FixedValues": fixedValues,
  "local:index:ReadyMachine": readyMachine,
} as const satisfies Readonly<Record<string, ResourceHandler>>;

/** Types without a file on this machine. */
export const REMOTE_TYPES: readonly string[] = [
  "local:index:NodeGroupSize",
  "local:index:FixedValues",
  "local:index:ReadyMachine",
] satisfies (keyof typeof handlers)[];

/** Returns the handler of a token; throws one sentence for any other token. */
export function handlerOf(type: string): ResourceHandler {
  if (!(type in handlers))
    throw new Error(
      `${type} is not a resource of the package local, which has ${Object.keys(handlers).join(", ")}.`,
    );
  return handlers[type as keyof typeof handlers];
}
