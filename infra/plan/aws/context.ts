/** What every part of a stack on AWS is told. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { partitionOf } from "../catalogue/regions.ts";
import type { AwsContext } from "./types.ts";

/** The tag that costs are grouped by, and by which leftovers are found. */
export const STACK_TAG = "engine-room:stack";

export function awsContext(config: AwsConfig, stack: string): AwsContext {
  return {
    stack,
    name: `engine-room-${stack}`,
    account: config.account,
    region: config.region,
    partition: partitionOf(config.region),
    isRetained: config.retain.includes(stack),
    ...awsTags(config, stack),
  };
}

/** The one function that makes tags. */
function awsTags(
  { guard: { ttlHours } }: AwsConfig,
  stack: string,
): Pick<AwsContext, "tags" | "lastingTags"> {
  const lastingTags = { "app.kubernetes.io/managed-by": "engine-room", [STACK_TAG]: stack };
  const ttl = ttlHours === undefined ? {} : { "engine-room:ttl-hours": String(ttlHours) };
  return { tags: { ...lastingTags, ...ttl }, lastingTags };
}

/** Repositories of an account's own registry begin with it, whichever stack made them. */
export const REPOSITORY_PREFIX = "engine-room";

/**
 * The registry that every account has. https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html
 *
 * @returns with the prefix of the repositories, and without a scheme.
 */
function ownRegistry({ account, region }: Pick<AwsConfig, "account" | "region">): string {
  return `${account}.dkr.ecr.${region}.amazonaws.com/${REPOSITORY_PREFIX}`;
}

/** What a stack says of images, as other platforms say it, with the account's own registry where it names none. */
export function pulledFrom(config: AwsConfig): Omit<AwsConfig["images"], "repositories"> {
  const { repositories: _repositories, ...images } = config.images;
  return { ...images, registry: images.registry ?? ownRegistry(config) };
}
