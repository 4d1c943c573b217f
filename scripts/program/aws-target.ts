/** A stack on AWS, as its file plans it. */
import { existsSync } from "node:fs";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { planClusterImages, planImages } from "../../infra/image-inputs.ts";
import { awsContext } from "../../infra/plan/aws/context.ts";
import { ownRegistry } from "../../infra/plan/aws/registries.ts";
import type { AwsContext } from "../../infra/plan/aws/types.ts";
import type { ImageName } from "../../infra/plan/docker/types.ts";
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import { projectName, readStackFile, type StackReference } from "./stack-file.ts";

export interface AwsImage {
  readonly name: ImageName;
  /** null: the lock file has none of this content. */
  readonly reference: string | null;
}

export interface AwsTarget {
  readonly plan: AwsPlan;
  readonly context: AwsContext;
  /** Where images are pushed to: that of the stack file, or ECR of the account. */
  readonly registry: string;
  readonly ownsRegistry: boolean;
  readonly images: readonly AwsImage[];
}

/** Whether a stack's file, as far as it can be read, puts the stack on AWS. */
export function isOnAws(stack: StackReference): boolean {
  if (!existsSync(stack.configFile)) return false;
  return fromRuntimeConfig(readStackFile(stack).values, projectName()).platform === "aws";
}

/** What a stack of `platform: aws` needs around its machines; nothing is contacted. @param name - Of the stack. */
export function awsTarget(plan: AwsPlan, name: string): AwsTarget {
  const { registry } = plan.config.images;
  const images = plan.compute === "eks" ? planClusterImages(plan).found : planImages(plan).images;
  return {
    plan,
    context: awsContext(plan.config, name),
    registry: registryOf(plan, name),
    ownsRegistry: registry === undefined,
    images: images.map((image) => ({
      name: image.name,
      reference: image.kind === "locked" ? image.reference : null,
    })),
  };
}

/** Where the images of a stack on AWS are. @param name - Of the stack. */
export function registryOf({ config }: AwsPlan, name: string): string {
  return config.images.registry ?? ownRegistry(config, name);
}
