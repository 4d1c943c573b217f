/** Names of resources: by which people know them, and by which the engine and API servers find them again. */
import { z } from "zod";
import {
  type ElementNames,
  type LeafDifference,
  leafDifferences,
  type PropertyKeys,
} from "../program/changes.ts";
import { makeUrn, urnParts } from "../program/serialized.ts";
import type { GraphResource } from "./rendered-tree.ts";

type Named = Pick<GraphResource, "type" | "name" | "inputs">;

/**
 * `Deployment engine-room/llava`, `Container engine-room-llava`; the name in the program where the inputs have none, or one
 * that only `up` knows.
 */
export function resourceLabel({ type, name, inputs }: Named): string {
  const kind = type.split(/[:/]/).at(-1) ?? type;
  if (type.startsWith("pulumi:providers:")) return `Provider ${kind} ${name}`;
  return `${kind} ${ownName({ type, inputs }) ?? name}`;
}

/**
 * What the cluster or the host knows it by: two that have it can't be there at once. undefined: only `up` knows, or the
 * type has no names that are known here.
 */
export function ownName({ type, inputs }: Omit<Named, "name">): string | undefined {
  if (type.startsWith("docker:")) return isPlain(inputs.name) ? inputs.name : undefined;
  if (!type.startsWith("kubernetes:")) return undefined;
  const { name, namespace } = (inputs.metadata ?? {}) as { name?: unknown; namespace?: unknown };
  if (!isPlain(name)) return undefined;
  return isPlain(namespace) ? `${namespace}/${name}` : name;
}

/** No placeholder of a secret or of something unknown. */
function isPlain(value: unknown): value is string {
  return typeof value === "string" && value !== "" && !value.startsWith("[");
}

/** The SDK's specification of an alias; what is empty is as it is now. */
const aliasSpec = z.object({
  name: z.string().default(""),
  type: z.string().default(""),
  stack: z.string().default(""),
  project: z.string().default(""),
  parenturn: z.string().default(""),
  noparent: z.boolean().default(false),
});

/**
 * Pairs the resources of two graphs: by URN, else by an alias of the later one, as Pulumi's engine does
 * (`pkg/resource/deploy/step_generator.go`).
 *
 * @returns URN of the earlier resource by that of the later one.
 */
export function earlierUrns(
  before: readonly GraphResource[],
  after: readonly GraphResource[],
): ReadonlyMap<string, string> {
  const known = new Set(before.map(({ urn }) => urn));
  const byUrn = new Map(after.map((resource) => [resource.urn, resource]));
  const pairs = new Map<string, string>();
  const visited = new Set<string>();
  /** Parents first: a child inherits what its parent was called. */
  const visit = (resource: GraphResource) => {
    if (visited.has(resource.urn)) return;
    visited.add(resource.urn);
    const parent = byUrn.get(resource.parent);
    if (parent !== undefined) visit(parent);
    const earlier = [resource.urn, ...aliasUrns(resource, pairs)].find((urn) => known.has(urn));
    if (earlier !== undefined) pairs.set(resource.urn, earlier);
  };
  for (const resource of after) visit(resource);
  return pairs;
}

function aliasUrns(resource: GraphResource, pairs: ReadonlyMap<string, string>): readonly string[] {
  const own = resource.options.aliases.map((alias) => aliasUrn(resource, alias, pairs));
  const formerParent = pairs.get(resource.parent);
  if (formerParent === undefined || formerParent === resource.parent) return own;
  return [...own, ...[resource.urn, ...own].map((urn) => inheritedUrn(urn, resource.parent, formerParent))];
}

function aliasUrn(resource: GraphResource, alias: string, pairs: ReadonlyMap<string, string>): string {
  if (alias.startsWith("urn:")) return alias;
  const spec = aliasSpec.parse(JSON.parse(alias));
  const { stack, project } = urnParts(resource.urn);
  const parent = spec.parenturn === "" ? resource.parent : (pairs.get(spec.parenturn) ?? spec.parenturn);
  return makeUrn({
    stack: spec.stack || stack,
    project: spec.project || project,
    parent: spec.noparent ? "" : parent,
    type: spec.type || resource.type,
    name: spec.name || resource.name,
  });
}

/** `{parent}-details` was `{former parent}-details`. */
function inheritedUrn(urn: string, parent: string, formerParent: string): string {
  const { name, ...rest } = urnParts(urn);
  const parentName = urnParts(parent).name;
  const formerName = name.startsWith(parentName)
    ? `${urnParts(formerParent).name}${name.slice(parentName.length)}`
    : name;
  return makeUrn({ ...rest, parent: formerParent, name: formerName });
}

/**
 * `listMapKeys` and `patchMergeKey` of the API's types, by the name of the list: `staging/src/k8s.io/api/core/v1/types.go` of
 * Kubernetes. What is not here has no key, and its elements are known by where they stand.
 */
const MERGE_KEYS: Readonly<Record<string, string>> = {
  containers: "name",
  env: "name",
  ephemeralContainers: "name",
  hostAliases: "ip",
  imagePullSecrets: "name",
  initContainers: "name",
  ports: "containerPort",
  volumeDevices: "devicePath",
  volumeMounts: "mountPath",
  volumes: "name",
};

/** Leaves that differ between two forms of the inputs; elements of Kubernetes' lists by what the API server knows them by. */
export function resourceDifferences(
  type: string,
  before: unknown,
  after: unknown,
): readonly LeafDifference[] {
  return leafDifferences(before, after, type.startsWith("kubernetes:") ? elementNames(type) : undefined);
}

function elementNames(type: string): ElementNames {
  return (keys, list) => {
    const name = keys.at(-1);
    if (typeof name !== "string") return undefined;
    const key = name === "ports" && type === "kubernetes:core/v1:Service" ? "port" : MERGE_KEYS[name];
    if (key === undefined) return undefined;
    const names = list.map((element) => (element as Readonly<Record<string, unknown>> | null)?.[key]);
    const known = names.filter((one) => typeof one === "string" || typeof one === "number").map(String);
    // A port may be there twice, for two protocols.
    return known.length === list.length && new Set(known).size === list.length ? known : undefined;
  };
}

const SEGMENT = /\["((?:[^"\\]|\\.)*)"\]|\[(\d+|\*)\]|([^.[\]]+)/g;

/**
 * Whether a difference is at or below one of the paths of a resource option, such as `spec.template`, `data["a.b"]`,
 * `list[*].name` and `*`.
 */
export function isAtOption(paths: readonly string[], keys: PropertyKeys): boolean {
  // Options know elements by where they stand.
  const names = keys.map((key) => String(typeof key === "object" ? key.index : key));
  return paths.some((path) => {
    const segments = [...path.matchAll(SEGMENT)].map(([, quoted, index, name]) => quoted ?? index ?? name);
    return segments.every(
      (segment, position) => position < names.length && (segment === "*" || segment === names[position]),
    );
  });
}
