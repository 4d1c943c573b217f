/** The context of a stack on AWS: its account, names and tags, the registry of its images, and names and sizes that its parts share. */
import type { AwsConfig, EksConfig } from "../../config/aws-stacks.ts";
import { partitionOf } from "../catalogue/aws.ts";
import { jsonDigest } from "../plain-data.ts";

/** Inputs of the plan that all parts of a stack on AWS share. */
export interface AwsContext {
  /** Name of the stack. */
  readonly stack: string;
  /** `engine-room-<stack>`, the first part of names. */
  readonly name: string;
  readonly account: string;
  readonly region: string;
  /** `aws`, `aws-us-gov`. */
  readonly partition: string;
  /** Name of the cluster on EKS. */
  readonly cluster: string;
  /** Whether the stack file names the stack in `retain`: its data and its cluster are protected. */
  readonly isRetained: boolean;
  /** Key that encrypts all stored data; undefined: AWS's own keys. */
  readonly kmsKeyArn: string | undefined;
  /** Arguments of every role, if the stack file has them. */
  readonly iam: { readonly path?: string; readonly permissionsBoundary?: string };
  /** Tags of all resources: those of the stack file, sorted, and the project's own. */
  readonly tags: Readonly<Record<string, string>>;
  /** Tags of resources that a change of tags replaces: they change only with the stack file's own tags. */
  readonly lastingTags: Readonly<Record<string, string>>;
}

/** Tag by which costs are grouped and leftovers are found. */
export const STACK_TAG = "engine-room:stack";

/** First part of the names of repositories in the account's registry, which its stacks share. */
export const REPOSITORY_PREFIX = "engine-room";

const HASH_DIGITS = 8;

/** https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html */
const CLUSTER_NAME_LENGTH = 100;

export function awsContext(config: AwsConfig, stack: string): AwsContext {
  const { account, region, kmsKeyArn } = config;
  const { path, permissionsBoundaryArn: permissionsBoundary } = config.iam;
  const { ttlHours } = config.guard;
  const name = `engine-room-${stack}`;
  const existing = "cluster" in config ? config.cluster.existing : undefined;
  const lastingTags = {
    ...ownTags(config),
    "app.kubernetes.io/managed-by": "engine-room",
    [STACK_TAG]: stack,
  };
  return {
    ...{ stack, account, region, kmsKeyArn, lastingTags },
    name,
    cluster: existing?.name ?? plainName(name, CLUSTER_NAME_LENGTH),
    partition: partitionOf(region),
    iam: {
      ...(path === undefined ? {} : { path }),
      ...(permissionsBoundary === undefined ? {} : { permissionsBoundary }),
    },
    isRetained: config.retain.includes(stack),
    tags: {
      ...lastingTags,
      ...(ttlHours === undefined ? {} : { "engine-room:ttl-hours": String(ttlHours) }),
    },
  };
}

/** Values of the stack file whose change would replace a resource on AWS. @param what - The resource, as the start of a sentence. */
export function fixedValues(what: string, values: Readonly<Record<string, string | undefined>>) {
  const given = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return {
    what,
    values: Object.fromEntries(given),
    fix: "Write the old value in the stack file. For another one save the documents that matter, then destroy the stack and bring it up again.",
  };
}

/** The stack file's own tags, in one order. */
export function ownTags({ tags }: Pick<AwsConfig, "tags">): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(tags).toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

/** Tags of a resource: the stack's, and the name that consoles show. @param subject - `private-a`. */
export function namedTags(
  { name, tags }: Pick<AwsContext, "name" | "tags">,
  subject: string,
): Record<string, string> {
  return { ...tags, Name: `${name}-${subject}` };
}

/**
 * A name of lower-case letters, digits and single hyphens, which every service of AWS accepts. A name with other characters or
 * more than `longest` ends in a hash of the whole name, so that two stacks never share one.
 *
 * @param longest - Characters; more than {@link HASH_DIGITS} and a hyphen.
 */
export function plainName(name: string, longest: number): string {
  const plain = name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  if (plain === name && !name.endsWith("-") && name.length <= longest) return name;
  const kept = plain.slice(0, longest - HASH_DIGITS - 1).replace(/-$/, "");
  return `${kept}-${shortDigest(name)}`;
}

/** {@link plainName} of a resource that is replaced when one of the values changes, since both exist at once. */
export function keyedName(name: string, longest: number, values: Readonly<Record<string, unknown>>): string {
  return `${plainName(name, longest - HASH_DIGITS - 1)}-${shortDigest(values)}`;
}

export function shortDigest(value: unknown): string {
  return jsonDigest(value).slice(0, HASH_DIGITS);
}

/**
 * Where images are pulled from, in the form of other platforms. Without a registry in the stack file it is the account's own:
 * https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html
 */
export function pulledFrom({ account, region, images }: AwsConfig): AwsConfig["images"] {
  const own = `${account}.dkr.ecr.${region}.amazonaws.com/${REPOSITORY_PREFIX}`;
  return { ...images, registry: images.registry ?? own };
}

/** Log group for the output of the stack's containers; null if it stays on the machines. */
export function containerLogGroup(
  { logs: { cloudwatch }, kmsKeyArn }: AwsConfig,
  { name }: Pick<AwsContext, "name">,
) {
  return cloudwatch === undefined
    ? null
    : { name: `${name}/containers`, retentionInDays: cloudwatch.retentionDays, kmsKeyId: kmsKeyArn };
}

/** Label of machines by which pods find those of a pool. */
export const POOL_LABEL = "engine-room/pool";

/**
 * Label of machines in a cluster that several stacks share: pools of two stacks may have one name, and their namespaces have not.
 */
export const NAMESPACE_LABEL = "engine-room/namespace";

/** Label of machines with their GPU's name: a pool has machines with both GPUs while its GPU is changed. */
export const GPU_LABEL = "engine-room/gpu";

export function gpuLabel(gpu: string): string {
  return gpu.toLowerCase().replaceAll(" ", "-");
}

/** Pool of controllers, which every cluster has; no pool of a stack file may have its name. */
export const SYSTEM_POOL = "system";

/** ServiceAccount and role of engine builds that read a secret of Secrets Manager. */
export const BUILD_SERVICE_ACCOUNT = "engine-build";

/** PersistentVolume of the engine store's file system. */
const ENGINE_VOLUME = "engine-store";

/** Size of that volume and its claim: Kubernetes requires a size, and EFS has no limit. */
export const NOMINAL_STORE_GIB = 1024;

/** StorageClass of the databases' disks. */
const DATABASE_STORAGE_CLASS = "engine-room-gp3";

/** Names of objects without a namespace: in a shared cluster they begin with the stack's namespace, as those of its PriorityClasses do. */
export function clusterWideNames({ cluster, namespace }: EksConfig) {
  const prefix = cluster.existing === undefined ? "" : `${namespace}-`;
  return {
    engineVolume: `${prefix}${ENGINE_VOLUME}`,
    databaseStorageClass: `${prefix}${DATABASE_STORAGE_CLASS}`,
  };
}

/** Labels of a pool's machines, by which its pods find them. */
export function poolSelector({ cluster, namespace }: EksConfig, pool: string): Record<string, string> {
  return { [POOL_LABEL]: pool, ...(cluster.existing === undefined ? {} : { [NAMESPACE_LABEL]: namespace }) };
}

/** Disk of an instance's databases, after the stack's name. */
export const DATABASE_DISK = "databases";

/** Where an EC2 instance mounts the engine store. */
export const STORE_FOLDER = "/srv/engine-room/store";

/** Disk of Prometheus. */
export const METRICS_DISK_GIB = 50;

/** Files of secrets in memory of an EC2 instance: empty after each start. */
export const SECRET_FOLDER = "/run/engine-room/secrets";
