/** A stack as its file plans it, with the questions for its platform; nothing is contacted. */
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { planImages, pulledImages } from "../../infra/image-inputs.ts";
import { type AwsContext, awsContext } from "../../infra/plan/aws/context.ts";
import type { DockerCpuPlan } from "../../infra/plan/cpu-stack.ts";
import { type DockerStack, dockerStack } from "../../infra/plan/docker/docker-stack.ts";
import type { DockerImage, ImageName, ImageOptions } from "../../infra/plan/docker/images.ts";
import type { AwsPlan, DockerGpuPlan, Ec2Plan } from "../../infra/plan/gpu-stack.ts";
import type { ClusterImage } from "../../infra/plan/images.ts";
import { type KubernetesStack, kubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ClusterPlan, StackPlan } from "../../infra/plan/stack-plan.ts";
import type { Problem } from "../../infra/problems.ts";
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

/** Containers and images of a stack of `platform: docker`; nothing is contacted. */
export function dockerTarget(plan: DockerCpuPlan | DockerGpuPlan, name: string): DockerTarget {
  const { needed, inputs, found: images } = planImages(plan);
  return { name, plan, needed, images: inputs, stack: dockerStack(plan, { stack: name, images }) };
}

export interface ClusterTarget {
  /** Name of the stack. */
  readonly name: string;
  readonly plan: ClusterPlan;
  readonly stack: KubernetesStack;
  /** Images that no cluster can pull yet. */
  readonly imageProblems: readonly Problem[];
}

/** The target of a stack in a cluster. @throws ConfigError with all problems of its file. */
export function readClusterTarget(stack: StackReference): ClusterTarget {
  const plan = readPlan(stack);
  if (!("cluster" in plan)) throw new Error(`The stack ${stack.name} is on the platform ${plan.platform}.`);
  return clusterTarget(plan, stack.name);
}

/** Workloads of a stack in a cluster; nothing is contacted. */
export function clusterTarget(plan: ClusterPlan, name: string): ClusterTarget {
  const { images, problems } = pulledImages(plan);
  return { name, plan, stack: kubernetesStack(plan, { stack: name, images }), imageProblems: problems };
}

export interface AwsTarget {
  readonly plan: AwsPlan;
  readonly context: AwsContext;
  /** Images by digest, as machines pull them; without a digest, by tag. */
  readonly images: readonly ClusterImage[];
  readonly needed: readonly ImageName[];
  readonly inputs: ImageOptions;
  /** Images by the names of an engine that builds them. */
  readonly found: readonly DockerImage[];
  /** Registry for pushed images; null without a registry. */
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

/** Parts of a stack of `platform: aws` around its machines; nothing is contacted. @param name - Name of the stack. */
export function awsTarget(plan: AwsPlan, name: string): AwsTarget {
  const { problems, ...images } = pulledImages(plan);
  const { registry } = "cluster" in plan ? plan.cluster : plan.host;
  return { plan, context: awsContext(plan.config, name), ...images, registry, imageProblems: problems };
}

export interface InstanceTarget {
  readonly plan: Ec2Plan;
  readonly context: AwsContext;
  /** Containers of the machine; endpoints are its own. */
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
