/** Every resource of the package `local`, by type token. */
import type { ResourceType } from "../types.ts";
import type { ResourceHandler } from "./contract.ts";
import { modelRepository } from "./model-repository.ts";
import { processHandler } from "./process.ts";
import { pythonEnvironment } from "./python-environment.ts";

export const handlers: Readonly<Record<ResourceType, ResourceHandler>> = {
  "local:index:PythonEnvironment": pythonEnvironment,
  "local:index:ModelRepository": modelRepository,
  "local:index:Process": processHandler,
};

/** The handler of a token; throws one sentence for any other. */
export function handlerOf(type: string): ResourceHandler {
  if (!(type in handlers))
    throw new Error(
      `${type} is no resource of the package local, which has ${Object.keys(handlers).join(", ")}.`,
    );
  return handlers[type as ResourceType];
}
