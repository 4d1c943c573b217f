/** The platform of each stack, loaded on demand, so that a local stack loads no client of a cloud. */
import { existsSync } from "node:fs";
import { fromRuntimeConfig, platformName } from "../../infra/config/config.ts";
import { readStackFile, type StackReference } from "../program/stack-file.ts";
import type { Operations, StackSource } from "./operations.ts";

const PLATFORMS: Readonly<
  Record<ReturnType<typeof platformName>, () => Promise<(source: StackSource) => Operations>>
> = {
  local: async () => (await import("./local.ts")).operations,
  docker: async () => (await import("./docker.ts")).operations,
  kubernetes: async () => (await import("./kubernetes.ts")).operations,
  eks: async () => (await import("./aws.ts")).eksOperations,
  ec2: async () => (await import("./aws.ts")).ec2Operations,
};

/** Operations of a stack by only its file, which need not be valid; nothing is planned yet. */
export async function operationsOf(stack: StackReference): Promise<Operations> {
  const values = existsSync(stack.configFile) ? fromRuntimeConfig(readStackFile(stack).values) : {};
  const operations = await PLATFORMS[platformName(values)]();
  return operations({ stack, values });
}
