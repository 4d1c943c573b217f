/** A stack on a Docker host, as its file plans it. */
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { planImages } from "../../infra/image-inputs.ts";
import type { DockerCpuPlan } from "../../infra/plan/cpu-stack.ts";
import { type DockerStack, dockerStack } from "../../infra/plan/docker/docker-stack.ts";
import type { ImageName, ImageOptions } from "../../infra/plan/docker/images.ts";
import type { DockerGpuPlan } from "../../infra/plan/gpu-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { readStackFile, type StackReference } from "./stack-file.ts";

export interface DockerTarget {
  /** Name of the stack. */
  readonly name: string;
  readonly plan: DockerCpuPlan | DockerGpuPlan;
  readonly stack: DockerStack;
  readonly needed: readonly ImageName[];
  readonly images: ImageOptions;
}

/** The plan of any stack. @throws ConfigError with all problems of its file. */
export function readPlan(stack: StackReference): StackPlan {
  return checkedPlan(fromRuntimeConfig(readStackFile(stack).values)).plan;
}

/** The target of a stack on a Docker host. @throws ConfigError with all problems of its file. */
export function readDockerTarget(stack: StackReference): DockerTarget {
  const plan = readPlan(stack);
  if (plan.platform !== "docker")
    throw new Error(`The stack ${stack.name} is on the platform ${plan.platform}.`);
  return dockerTarget(plan, stack.name);
}

/** What a stack of `platform: docker` runs, and which images; nothing is contacted. */
export function dockerTarget(plan: DockerCpuPlan | DockerGpuPlan, name: string): DockerTarget {
  const { needed, inputs, found: images } = planImages(plan);
  return { name, plan, needed, images: inputs, stack: dockerStack(plan, { stack: name, images }) };
}
