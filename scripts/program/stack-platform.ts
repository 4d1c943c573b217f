/** On which platform a stack is, by its file alone: commands ask it of every stack, and load no plan for it. */
import { existsSync } from "node:fs";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import type { AwsContext } from "../../infra/plan/aws/types.ts";
import { projectName, readStackFile, type StackReference } from "./stack-file.ts";

/** Whether a stack's file, as far as it can be read, puts the stack on a Docker host. */
export function isOnDocker(stack: StackReference): boolean {
  return fileValues(stack)?.platform === "docker";
}

/** Whether a stack's file, as far as it can be read, puts the stack into a cluster. */
export function isInCluster(stack: StackReference): boolean {
  const { platform, compute } = fileValues(stack) ?? {};
  return platform === "kubernetes" || (platform === "aws" && compute !== "ec2");
}

/** Whether a stack's file, as far as it can be read, puts the stack on AWS. */
export function isOnAws(stack: StackReference): boolean {
  return awsPlace(stack) !== null;
}

/** Where a stack's file, as far as it can be read, puts the stack on AWS; null: somewhere else. */
export function awsPlace(stack: StackReference): Pick<AwsContext, "account" | "region"> | null {
  const { platform, account, region } = fileValues(stack) ?? {};
  return platform === "aws" ? { account: String(account), region: String(region) } : null;
}

/** What the file says; undefined where there is none. */
function fileValues(stack: StackReference) {
  return existsSync(stack.configFile)
    ? fromRuntimeConfig(readStackFile(stack).values, projectName())
    : undefined;
}
