/** Stacks on one EC2 instance, planned. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { checkedPlan } from "../../../../../infra/checked-plan.ts";
import { awsContext } from "../../../../../infra/plan/aws/context.ts";
import { type InstancePlan, instancePlan } from "../../../../../infra/plan/aws/machine/instance.ts";
import type { Container, ContainerRole } from "../../../../../infra/plan/containers/container.ts";
import { type DockerStack, dockerStack } from "../../../../../infra/plan/docker/docker-stack.ts";
import type { Ec2Plan } from "../../../../../infra/plan/gpu-stack.ts";
import { neededImages } from "../../../../../infra/plan/images.ts";
import { projectRoot } from "../../../../../scripts/program/stack-file.ts";

export type Values = Readonly<Record<string, unknown>>;

/** Values of examples/ec2.yaml. */
export const ec2Values: Values = Object.fromEntries(
  Object.entries(
    (parse(readFileSync(join(projectRoot, "examples/ec2.yaml"), "utf8")) as { config: Values }).config,
  ).map(([key, value]) => [key.replace("engine-room:", ""), value]),
);

const TOKEN_ARN = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:hub-AbCdEf";

/** A stack on one instance with every option. */
export const fullValues: Values = {
  ...ec2Values,
  pools: [{ name: "gpu", instanceType: "p4d.24xlarge", diskGiB: 1000 }],
  models: [
    { name: "blip2", model: "blip2-opt-2.7b" },
    { name: "llava", model: "llava-1.5-7b" },
    { name: "vila", model: "vila1.5-3b" },
    { name: "onevision", model: "llava-onevision-qwen2-7b" },
    { name: "mllama", model: "llama-3.2-11b-vision" },
  ],
  hub: { tokenSecretArn: TOKEN_ARN },
  databases: "container",
  encoders: { vision: "clip-vit-base-patch32", text: "all-MiniLM-L6-v2" },
};

/** Addresses and a token that are secrets of the stack file. */
export const secretValues: Values = {
  ...ec2Values,
  hub: { token: { secure: "v1:abc" } },
  databases: "external",
  externalDatabases: {
    mongo: { uri: { secure: "v1:def" } },
    vector: { url: "http://10.0.0.5:6333", apiKey: { secure: "v1:ghi" } },
  },
};

export function ec2Plan(values: Values): Ec2Plan {
  const { plan } = checkedPlan(values);
  if (plan.platform !== "aws" || plan.compute !== "ec2") throw new Error("This is no stack on an instance.");
  return plan;
}

/** Containers of a machine, with images in the account's own registry. */
export function hostStack(plan: Ec2Plan, stack = "demo"): DockerStack {
  const images = neededImages(plan).map((name) => ({
    kind: "locked" as const,
    name,
    reference: `111122223333.dkr.ecr.us-east-1.amazonaws.com/engine-room-${stack}/${name}@sha256:${"0".repeat(64)}`,
  }));
  return dockerStack(plan, { stack, images });
}

export function instanceOf(
  values: Values,
  change: (stack: DockerStack) => DockerStack = (same) => same,
): InstancePlan {
  const plan = ec2Plan(values);
  return instancePlan(plan, change(hostStack(plan)), awsContext(plan.config, "demo"));
}

/** Changes the container of a role in a stack. */
export function withContainer(
  role: ContainerRole,
  changes: Partial<Container>,
): (stack: DockerStack) => DockerStack {
  return (stack) => ({
    ...stack,
    containers: stack.containers.map((planned) =>
      planned.container.role === role
        ? { ...planned, container: { ...planned.container, ...changes } }
        : planned,
    ),
  });
}
