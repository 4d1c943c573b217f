/** The platform of each stack. Modules load on demand: a local stack loads no client of a cloud. */
import { existsSync } from "node:fs";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { projectName, readStackFile, type StackReference } from "../program/stack-file.ts";
import type { Operations, StackSource } from "./operations.ts";

const PLATFORMS = {
  local: async (source) => (await import("./local.ts")).localOperations(source),
  docker: async (source) => (await import("./docker.ts")).dockerOperations(source),
  kubernetes: async (source) => (await import("./kubernetes.ts")).kubernetesOperations(source),
  eks: async (source) => (await import("./eks.ts")).eksOperations(source),
  ec2: async (source) => (await import("./ec2.ts")).ec2Operations(source),
} as const satisfies Readonly<Record<string, (source: StackSource) => Promise<Operations>>>;
type PlatformName = keyof typeof PLATFORMS;

/** Operations of a stack by its file alone, as far as that can be read; nothing is planned yet. */
export function operationsOf(stack: StackReference): Promise<Operations> {
  const values = existsSync(stack.configFile)
    ? fromRuntimeConfig(readStackFile(stack).values, projectName())
    : {};
  return PLATFORMS[platformName(values)]({ stack, values });
}

/** `local` where the file names no platform: `plan` and `up` say what is wrong with it. */
function platformName({ platform, compute }: StackSource["values"]): PlatformName {
  if (platform === "aws") return compute === "ec2" ? "ec2" : "eks";
  return platform === "docker" || platform === "kubernetes" ? platform : "local";
}
