/** Regions of AWS by name, for what a stack file says of its own. */

/**
 * As ARNs name it: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html. GovCloud's regions have the domains and
 * principals of all others, and prices of their own.
 */
type Partition = "aws" | "aws-us-gov";

/** Day on which the source of {@link REGION_NAMES} was published, ISO 8601. */
export const REGIONS_AS_OF = "2026-11-10";

/**
 * Every region whose services have the domain amazonaws.com, announced ones among them; those of China and of isolated clouds are
 * left out. In the order of the alphabet, GovCloud's last.
 *
 * Source: the table of partitions of AWS's SDK for JavaScript, `@aws-sdk/core` 3.981.0.
 */
export const REGION_NAMES: readonly string[] = [
  "af-south-1",
  "ap-east-1",
  "ap-east-2",
  "ap-northeast-1",
  "ap-northeast-2",
  "ap-northeast-3",
  "ap-south-1",
  "ap-south-2",
  "ap-southeast-1",
  "ap-southeast-2",
  "ap-southeast-3",
  "ap-southeast-4",
  "ap-southeast-5",
  "ap-southeast-6",
  "ap-southeast-7",
  "ca-central-1",
  "ca-west-1",
  "eu-central-1",
  "eu-central-2",
  "eu-north-1",
  "eu-south-1",
  "eu-south-2",
  "eu-west-1",
  "eu-west-2",
  "eu-west-3",
  "il-central-1",
  "me-central-1",
  "me-south-1",
  "me-west-1",
  "mx-central-1",
  "sa-east-1",
  "sa-west-1",
  "us-east-1",
  "us-east-2",
  "us-west-1",
  "us-west-2",
  "us-gov-east-1",
  "us-gov-west-1",
];

/** Whether the table has a region of that name. */
export function isRegion(name: string): boolean {
  return REGION_NAMES.includes(name);
}

/** Partition of a region that has the domain amazonaws.com, be it newer than the table or not. */
export function partitionOf(region: string): Partition {
  return region.startsWith("us-gov-") ? "aws-us-gov" : "aws";
}

const WORDS: ReadonlySet<string> = new Set(REGION_NAMES.flatMap(wordsOf));

/**
 * Whether all words of a name stand in names of the table, as those of `us-west-9` do: AWS counts on, and makes new names of old
 * words, so that it may be a region newer than the table.
 */
export function hasWordsOfRegions(name: string): boolean {
  return wordsOf(name).every((word) => WORDS.has(word));
}

/** Without the number at the end. */
function wordsOf(name: string): readonly string[] {
  return name.split("-").slice(0, -1);
}
