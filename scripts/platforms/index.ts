/** The platform of each stack: `./<platform>.ts`, loaded on demand, so that a local stack loads no client of a cloud. */
import { existsSync } from "node:fs";
import { fromRuntimeConfig, platformName } from "../../infra/config/config.ts";
import { readStackFile, type StackReference } from "../program/stack-file.ts";
import type { Operations, StackSource } from "./operations.ts";

interface PlatformModule {
  operations(source: StackSource): Operations;
}

/** Operations of a stack by its file alone, which need not be valid; nothing is planned yet. */
export async function operationsOf(stack: StackReference): Promise<Operations> {
  const values = existsSync(stack.configFile) ? fromRuntimeConfig(readStackFile(stack).values) : {};
  const platform = (await import(/* @vite-ignore */ `./${platformName(values)}.ts`)) as PlatformModule;
  return platform.operations({ stack, values });
}
