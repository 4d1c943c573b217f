/** What a changed property does to a resource: the lists of `replacements/`, and what no list can say, each with its source. */
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { parse } from "yaml";
import type { PropertyKeys } from "../program/changes.ts";

/** `may-replace`: the lists do not have the property, and the provider may make the resource anew. */
export type Effect = "update" | "may-replace" | "replace";

type Inputs = Readonly<Record<string, unknown>>;

/** A resource whose property changed. */
export interface ReplacementContext {
  readonly before: Inputs;
  readonly after: Inputs;
  /** Inputs of its explicit provider. @default none */
  readonly provider?: Inputs;
}

const LISTS = ["replaces", "updates", "ignores"] as const;

/** Paths of names, each of which stands for all below it: `["spec", "ports"]` has the port of every element. */
type ReplacementRow = Readonly<Record<(typeof LISTS)[number], readonly (readonly string[])[]>>;

const PROVIDERS = ["aws", "docker", "kubernetes", "local"] as const;

/** By type, as in the files: paths between spaces. `every`: those of all types of the provider, but for Helm's and providers. */
type ReplacementFile = Readonly<Record<string, Partial<Record<(typeof LISTS)[number], string>>>>;

let known: ReadonlyMap<string, ReplacementRow> | undefined;

/** By type, from the files. */
export function replacementRows(): ReadonlyMap<string, ReplacementRow> {
  known ??= new Map(PROVIDERS.flatMap((provider) => [...rowsOf(provider)]));
  return known;
}

function rowsOf(provider: (typeof PROVIDERS)[number]): ReadonlyMap<string, ReplacementRow> {
  const text = readFileSync(new URL(`replacements/${provider}.yaml`, import.meta.url), "utf8");
  const { every = {}, ...types } = parse(text) as ReplacementFile;
  return new Map(
    Object.entries(types).map(([type, own]) => {
      const isObject = type.startsWith(`${provider}:`) && type !== "kubernetes:helm.sh/v3:Release";
      const paths = (list: (typeof LISTS)[number]) =>
        [own[list], isObject ? every[list] : undefined]
          .flatMap((words) => words?.split(/\s+/) ?? [])
          .map((path) => path.split("."));
      return [type, { replaces: paths("replaces"), updates: paths("updates"), ignores: paths("ignores") }];
    }),
  );
}

/** Properties of a type that replace it or update it, depending on the rest of the resource. */
interface Condition {
  readonly properties: readonly string[];
  readonly replaces: (context: ReplacementContext) => boolean;
}

const RULE_SOURCES = ["cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId"];

/** `ModifyPlan` of a security group's rule: its source may change, the kind of source may not. */
const securityGroupRule: Condition = {
  properties: RULE_SOURCES,
  replaces: ({ before, after }) =>
    RULE_SOURCES.some((source) => (before[source] === undefined) !== (after[source] === undefined)),
};

const CONDITIONS: Readonly<Record<string, Condition>> = {
  "aws:ec2/instance:Instance": {
    properties: ["userData", "userDataBase64"],
    replaces: ({ after }) => after.userDataReplaceOnChange === true,
  },
  "aws:ec2/vpcEndpoint:VpcEndpoint": {
    properties: ["privateDnsEnabled"],
    replaces: ({ after }) => after.vpcEndpointType !== "Interface",
  },
  // `ForceNewIfChange`: encryption can be added to a cluster, and never be removed.
  "aws:eks/cluster:Cluster": {
    properties: ["encryptionConfig"],
    replaces: ({ before, after }) =>
      before.encryptionConfig !== undefined && after.encryptionConfig === undefined,
  },
  "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": securityGroupRule,
  "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": securityGroupRule,
  "kubernetes:core/v1:ConfigMap": {
    properties: ["data", "binaryData"],
    replaces: unlessMutable("enableConfigMapMutable"),
  },
  "kubernetes:core/v1:Secret": {
    properties: ["data", "stringData"],
    replaces: unlessMutable("enableSecretMutable"),
  },
};

/** `forceNewProperties` of pulumi-kubernetes; the provider's option is a text where it comes from a stack file. */
function unlessMutable(option: string): Condition["replaces"] {
  return ({ after, provider = {} }) =>
    after.immutable === true || !(provider[option] === true || provider[option] === "true");
}

/** Two of these can't be there at once, whatever their names are: a zone has one mount target of a file system. */
const DELETED_FIRST = [
  "aws:ecr/lifecyclePolicy:LifecyclePolicy",
  "aws:efs/mountTarget:MountTarget",
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
  "docker:index/container:Container",
  "local:index:Process",
];

/** `name` of a record is a host's, which Pulumi does not fill in. */
const DELETED_LAST = ["aws:route53/record:Record", "kubernetes:helm.sh/v3:Release"];

/** Filled in by Pulumi, with a random end, where the program does not: `provider/autonaming.go` of pulumi-aws. */
const AWS_NAMES = ["name", "nodeGroupName", "creationToken"];

/** Whether the old resource is deleted before the new one is there, unless the program's options say something else. */
export function deletesFirst(type: string, { before, after }: ReplacementContext): boolean {
  if (DELETED_FIRST.includes(type)) return true;
  if (DELETED_LAST.includes(type)) return false;
  // `nameRequiresDeleteBeforeReplace` of pulumi-terraform-bridge, without the names that it would compare on AWS.
  if (type.startsWith("aws:")) return AWS_NAMES.some((name) => after[name] !== undefined);
  if (type.startsWith("docker:")) return after.name !== undefined && before.name === after.name;
  // `Diff` of `provider/pkg/provider/provider.go`.
  return type.startsWith("kubernetes:") && hasSameIdentity(before, after);
}

function hasSameIdentity(before: Inputs, after: Inputs): boolean {
  const identity = ({ metadata }: Inputs) => {
    const { name, namespace } = (metadata ?? {}) as Inputs;
    return { name, namespace };
  };
  return identity(after).name !== undefined && isDeepStrictEqual(identity(before), identity(after));
}

const SEVERITY: Readonly<Record<Effect, number>> = { update: 0, "may-replace": 1, replace: 2 };

export function worstEffect(effects: readonly Effect[]): Effect {
  return effects.reduce((worst, effect) => (SEVERITY[effect] > SEVERITY[worst] ? effect : worst), "update");
}

/**
 * @param value - What is there or was there: where a whole part comes or goes, the worst of its leaves counts.
 * @returns null where the provider sees no difference.
 */
export function propertyEffect(
  type: string,
  keys: PropertyKeys,
  value: unknown,
  context: ReplacementContext,
): Effect | null {
  const names = keys.filter((key) => typeof key === "string");
  const effects = leafPaths(names, value).map((path) => pathEffect(type, path, context));
  const seen = effects.filter((effect) => effect !== null);
  return seen.length === 0 ? null : worstEffect(seen);
}

function pathEffect(type: string, path: readonly string[], context: ReplacementContext): Effect | null {
  const row = replacementRows().get(type);
  if (row === undefined) return "may-replace";
  const isIn = (paths: readonly (readonly string[])[]) =>
    paths.some((listed) => listed.every((name, index) => path[index] === name));
  if (isIn(row.replaces)) return "replace";
  const condition = CONDITIONS[type];
  if (condition?.properties.includes(path[0] ?? ""))
    return condition.replaces(context) ? "replace" : "update";
  if (isIn(row.updates)) return "update";
  return isIn(row.ignores) ? null : "may-replace";
}

/** Names only: elements of a list count alike. */
function leafPaths(path: readonly string[], value: unknown): readonly (readonly string[])[] {
  if (typeof value !== "object" || value === null || Object.keys(value).length === 0) return [path];
  if (Array.isArray(value)) return value.flatMap((inner) => leafPaths(path, inner));
  return Object.entries(value).flatMap(([key, inner]) => leafPaths([...path, key], inner));
}
