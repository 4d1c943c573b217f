/** Repositories of ECR for a stack's images, and how long they keep them. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { imageSource } from "../docker/image-sources.ts";
import type { ImageName } from "../docker/types.ts";
import { REPOSITORY_PREFIX } from "./context.ts";
import type { RepositoryPlan } from "./types.ts";

/** NVIDIA's images, from which machines then need not pull through the internet: `npm run images -- --mirror` fills it. */
export const MIRROR_REPOSITORY = "tritonserver";

/**
 * So many that stacks which change every day don't push out what a quiet one runs. Layers that images share are stored
 * once, and NVIDIA's are nearly all of an image.
 */
const KEPT_IMAGES = 100;
/** Tags of releases, each of 10 GB or so. */
const KEPT_MIRRORED = 10;

const UNTAGGED_DAYS = 1;

/**
 * @returns None where images come from a registry of the stack file, or where another stack of the account made them.
 * Official images stay where they are.
 */
export function repositoryPlans(
  config: AwsConfig,
  imageNames: readonly ImageName[],
): readonly RepositoryPlan[] {
  if (config.images.registry !== undefined || config.images.repositories === "existing") return [];
  const built = imageNames.filter((name) => imageSource(name).kind === "built");
  return [
    ...built.map((image) => ({ image, keptImages: KEPT_IMAGES })),
    { image: MIRROR_REPOSITORY, keptImages: KEPT_MIRRORED },
  ].map((repository) => ({ name: `${REPOSITORY_PREFIX}/${repository.image}`, ...repository }));
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
