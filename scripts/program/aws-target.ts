/** A stack on AWS, as its file plans it. */
import { pulledImages } from "../../infra/image-inputs.ts";
import { type AwsContext, awsContext } from "../../infra/plan/aws/context.ts";
import type { DockerImage, ImageName, ImageOptions } from "../../infra/plan/docker/images.ts";
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import type { ClusterImage } from "../../infra/plan/images.ts";
import type { Problem } from "../../infra/problems.ts";
import { readPlan } from "./docker-target.ts";
import type { StackReference } from "./stack-file.ts";

export interface AwsTarget {
  readonly plan: AwsPlan;
  readonly context: AwsContext;
  /** By digest, as machines pull them; one that has none is named by its tag. */
  readonly images: readonly ClusterImage[];
  readonly needed: readonly ImageName[];
  readonly inputs: ImageOptions;
  /** As an engine that builds them has them. */
  readonly found: readonly DockerImage[];
  /** Where images are pushed to; null: nowhere. */
  readonly registry: string | null;
  /** Images that no machine can pull yet. */
  readonly imageProblems: readonly Problem[];
}

/** The target of a stack on AWS. @throws ConfigError with all problems of its file. */
export function readAwsTarget(stack: StackReference): AwsTarget {
  const plan = readPlan(stack);
  if (plan.platform !== "aws")
    throw new Error(`The stack ${stack.name} is on the platform ${plan.platform}.`);
  return awsTarget(plan, stack.name);
}

/** What a stack of `platform: aws` needs around its machines; nothing is contacted. @param name - Of the stack. */
export function awsTarget(plan: AwsPlan, name: string): AwsTarget {
  const { problems, ...images } = pulledImages(plan);
  const { registry } = "cluster" in plan ? plan.cluster : plan.host;
  return { plan, context: awsContext(plan.config, name), ...images, registry, imageProblems: problems };
}
