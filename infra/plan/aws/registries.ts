/** Repositories of ECR for a stack's images, and how long they keep them. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { imageSource } from "../docker/image-sources.ts";
import type { ImageName } from "../docker/types.ts";
import { awsContext } from "./context.ts";
import { plainName } from "./plain-name.ts";
import type { AwsContext, RepositoryPlan } from "./types.ts";

/** NVIDIA's images, from which machines then need not pull through the internet: `npm run images -- --mirror` fills it. */
export const MIRROR_REPOSITORY = "tritonserver";

/** Enough to go back by a month of changes; layers that images share are stored once. */
const KEPT_IMAGES = 20;
/** A release or two, and those before them: each is of 10 GB or so. */
const KEPT_MIRRORED = 5;

const UNTAGGED_DAYS = 1;

/** https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_Repository.html has 256; the rest is for the image. */
const LONGEST_PREFIX = 200;

/** @returns None where images come from a registry of the stack file. Official images stay where they are. */
export function repositoryPlans(
  config: AwsConfig,
  imageNames: readonly ImageName[],
  context: AwsContext,
): readonly RepositoryPlan[] {
  if (config.images.registry !== undefined) return [];
  const built = imageNames.filter((name) => imageSource(name).kind === "built");
  return [
    ...built.map((image) => ({ image, keptImages: KEPT_IMAGES })),
    { image: MIRROR_REPOSITORY, keptImages: KEPT_MIRRORED },
  ].map((repository) => ({ name: `${prefixOf(context)}/${repository.image}`, ...repository }));
}

/** Where the images of a stack lie that names no registry: `111122223333.dkr.ecr.us-east-1.amazonaws.com/engine-room-dev`. */
export function ownRegistry(config: AwsConfig, stack: string): string {
  const context = awsContext(config, stack);
  const { account, region, partition } = context;
  const suffix = partition === "aws-cn" ? "amazonaws.com.cn" : "amazonaws.com";
  return `${account}.dkr.ecr.${region}.${suffix}/${prefixOf(context)}`;
}

/**
 * What ECR deletes by itself, as JSON. A manifest that another image refers to is not untagged for it.
 * https://docs.aws.amazon.com/AmazonECR/latest/userguide/LifecyclePolicies.html
 */
export function lifecyclePolicy({ keptImages }: RepositoryPlan): string {
  return JSON.stringify({
    rules: [
      {
        rulePriority: 1,
        description: "What has no tag any more",
        selection: {
          tagStatus: "untagged",
          countType: "sinceImagePushed",
          countUnit: "days",
          countNumber: UNTAGGED_DAYS,
        },
        action: { type: "expire" },
      },
      {
        rulePriority: 2,
        description: `All but the newest ${keptImages}`,
        selection: { tagStatus: "any", countType: "imageCountMoreThan", countNumber: keptImages },
        action: { type: "expire" },
      },
    ],
  });
}

function prefixOf({ name }: AwsContext): string {
  return plainName(name, LONGEST_PREFIX);
}
