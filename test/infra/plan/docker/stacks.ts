/** Stacks on a Docker host, planned. */

import { join } from "node:path";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../../infra/config/config.ts";
import type { ContainerRole } from "../../../../infra/plan/containers/container.ts";
import type { DockerCpuPlan } from "../../../../infra/plan/cpu-stack.ts";
import type { DockerContainer } from "../../../../infra/plan/docker/container-args.ts";
import { type DockerStack, dockerStack } from "../../../../infra/plan/docker/docker-stack.ts";
import type { DockerImage } from "../../../../infra/plan/docker/images.ts";
import type { DockerGpuPlan } from "../../../../infra/plan/gpu-stack.ts";
import { neededImages } from "../../../../infra/plan/images.ts";
import { projectRoot, readStackFile } from "../../../../scripts/program/stack-file.ts";

export type Values = Readonly<Record<string, unknown>>;
type DockerPlan = DockerCpuPlan | DockerGpuPlan;

export const cpuValues: Values = {
  platform: "docker",
  tier: "cpu",
  models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
};

export const gpuValues: Values = {
  platform: "docker",
  models: [{ name: "gpt", model: "gpt2-medium" }],
  host: { instanceType: "g5.4xlarge" },
};

/** Values of the example's file; with a host, only its models on it. */
export function exampleValues(example: string, host: Values | null = null): Values {
  const file = join(projectRoot, "examples", `${example}.yaml`);
  const values = fromRuntimeConfig(readStackFile({ name: example, configFile: file }).values) as {
    readonly models: readonly Record<string, unknown>[];
    readonly [key: string]: unknown;
  };
  if (host === null) return values;
  const { release, encoders, models } = values;
  return {
    platform: "docker",
    release,
    encoders,
    models: models.map(({ pool: _, ...model }) => model),
    host,
    hub: { tokenFile: "/etc/engine-room/hub-token" },
  };
}

export function dockerPlan(values: Values): DockerPlan {
  const { plan } = checkedPlan(values);
  if (plan.platform !== "docker") throw new Error("This is no stack on a Docker host.");
  return plan;
}

export function lockedImages(plan: DockerPlan): readonly DockerImage[] {
  return neededImages(plan).map((name) => ({
    kind: "locked",
    name,
    reference: `registry.example.org/${name}@sha256:${"0".repeat(64)}`,
  }));
}

export function stackOf(values: Values, stack = "demo"): DockerStack {
  const plan = dockerPlan(values);
  return dockerStack(plan, { stack, images: lockedImages(plan) });
}

/** The container of a role, and of a model if several have the role. */
export function containerOf(
  { containers }: DockerStack,
  role: ContainerRole,
  model?: string,
): DockerContainer {
  const found = containers.filter(
    ({ container }) => container.role === role && (model ?? container.model) === container.model,
  );
  const [container] = found;
  if (container === undefined || found.length > 1) {
    throw new Error(`The stack has ${found.length} containers of the role ${role}.`);
  }
  return container;
}
