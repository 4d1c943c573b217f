/** A stack on one machine of EC2, as its file plans it. */
import { pulledImages } from "../../infra/image-inputs.ts";
import { type AwsContext, awsContext } from "../../infra/plan/aws/context.ts";
import { type DockerStack, dockerStack } from "../../infra/plan/docker/docker-stack.ts";
import type { Ec2Plan } from "../../infra/plan/gpu-stack.ts";
import { readPlan } from "./docker-target.ts";
import type { StackReference } from "./stack-file.ts";

export interface InstanceTarget {
  readonly plan: Ec2Plan;
  readonly context: AwsContext;
  /** What the machine runs; endpoints are its own. */
  readonly stack: DockerStack;
}

/** The target of a stack on one machine of EC2. @throws ConfigError with all problems of its file. */
export function readInstanceTarget(stack: StackReference): InstanceTarget {
  const plan = readPlan(stack);
  if (plan.platform !== "aws" || plan.compute !== "ec2")
    throw new Error(`The stack ${stack.name} is on the platform ${plan.platform}.`);
  const images = pulledImages(plan).images.map((image) => ({ kind: "locked", ...image }) as const);
  return {
    plan,
    context: awsContext(plan.config, stack.name),
    stack: dockerStack(plan, { stack: stack.name, images }),
  };
}
