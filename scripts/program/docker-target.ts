/** A stack on a Docker host, as its file plans it. */
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { imageInputs } from "../../infra/image-inputs.ts";
import type { DockerCpuPlan } from "../../infra/plan/cpu-stack.ts";
import { dockerStack, neededImages } from "../../infra/plan/docker/docker-stack.ts";
import type { TritonBase } from "../../infra/plan/docker/image-sources.ts";
import { dockerImages, type ImageOptions } from "../../infra/plan/docker/images.ts";
import type { DockerStack, ImageName } from "../../infra/plan/docker/types.ts";
import type { DockerGpuPlan } from "../../infra/plan/gpu-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { projectName, readStackFile, type StackReference } from "./stack-file.ts";

export interface DockerTarget {
  readonly plan: DockerCpuPlan | DockerGpuPlan;
  readonly stack: DockerStack;
  readonly needed: readonly ImageName[];
  readonly images: ImageOptions;
}

/** The plan of any stack. @throws ConfigError with all problems of its file. */
export function readPlan(stack: StackReference): StackPlan {
  return checkedPlan(fromRuntimeConfig(readStackFile(stack).values, projectName())).plan;
}

/** What a stack of `platform: docker` runs, and which images; nothing is contacted. */
export function dockerTarget(plan: DockerCpuPlan | DockerGpuPlan, name: string): DockerTarget {
  const needed = neededImages(plan);
  const images = imageInputs(needed, tritonBase(plan));
  return {
    plan,
    needed,
    images,
    stack: dockerStack(plan, { stack: name, images: dockerImages(needed, images) }),
  };
}

function tritonBase(plan: DockerCpuPlan | DockerGpuPlan): TritonBase | null {
  return plan.tier === "cpu" ? null : { release: plan.release.tag, image: plan.spec.image.base };
}
