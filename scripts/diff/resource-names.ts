/**
 * Names of resources, of the elements of their lists, and of the paths of options; and aliases by which the engine
 * finds resources again.
 */
import { type LeafDifference, leafDifferences, type PropertyKeys } from "../program/changes.ts";
import { makeUrn, urnParts } from "../program/serialized.ts";

type Inputs = Readonly<Record<string, unknown>>;

/**
 * `Deployment engine-room/llava`, `Container engine-room-llava`: the name from the inputs, else that of the program.
 * Placeholders of secret or unknown values are not names.
 */
export function resourceLabel({
  type,
  name,
  inputs,
}: {
  readonly type: string;
  readonly name: string;
  readonly inputs: Inputs;
}): string {
  const kind = `${type.startsWith("pulumi:providers:") ? "Provider " : ""}${type.split(/[:/]/).at(-1)}`;
  const { metadata } = inputs as { readonly metadata?: Inputs };
  const given = type.startsWith("kubernetes:")
    ? [metadata?.namespace, metadata?.name]
    : [type.startsWith("docker:") ? inputs.name : undefined];
  const isName = (text: unknown): text is string =>
    typeof text === "string" && text !== "" && !text.startsWith("[");
  return `${kind} ${isName(given.at(-1)) ? given.filter(isName).join("/") : name}`;
}

/**
 * Keys of list elements, in Kubernetes' types and wherever else all elements have the key; the first that is unique is
 * used.
 */
const ELEMENT_KEYS = ["mountPath", "devicePath", "name", "containerPort", "ip"];

function elementNames(_keys: PropertyKeys, list: readonly unknown[]): readonly string[] | undefined {
  for (const key of ELEMENT_KEYS) {
    const names = list.map((element) => (element as Inputs | null)?.[key]);
    const isKnown = names.every((name) => typeof name === "string" || typeof name === "number");
    if (isKnown && new Set(names).size === list.length) return names.map(String);
  }
  return undefined;
}

/** Leaves that differ between two forms of the inputs, also within texts of JSON; elements of lists by their names. */
export function resourceDifferences(before: unknown, after: unknown): readonly LeafDifference[] {
  return leafDifferences(before, after, elementNames).flatMap((difference) => {
    const [was, is] = [parsedJson(difference.before), parsedJson(difference.after)];
    if (was === undefined || is === undefined) return [difference];
    const inner = leafDifferences(was, is, elementNames, difference.keys);
    // Only whitespace differs.
    return inner.length === 0 ? [difference] : inner;
  });
}

/** Parses a text that is an object or a list of JSON, such as a file of a ConfigMap; else undefined. */
export function parsedJson(value: unknown): unknown {
  if (typeof value !== "string" || !/^\s*[[{]/.test(value)) return undefined;
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}

const SEGMENT = /\["((?:[^"\\]|\\.)*)"\]|\[(\d+|\*)\]|([^.[\]]+)/g;

/** `spec.template`, `data["a.b"]` and `list[*].name`, as options and providers write paths. */
export function pathSegments(path: string): readonly string[] {
  return [...path.matchAll(SEGMENT)].map(([, quoted, index, name]) => quoted ?? index ?? name ?? "");
}

/** The same for keys, which options and providers identify by their index. */
export function keySegments(keys: PropertyKeys): readonly string[] {
  return keys.map((key) => String(typeof key === "object" ? key.index : key));
}

/** Whether a path is at or below another, in which `*` is any name. */
export function isAtOrBelow(place: readonly string[], path: readonly string[]): boolean {
  return path.length <= place.length && path.every((name, index) => name === "*" || name === place[index]);
}

interface AliasedResource {
  readonly type: string;
  readonly name: string;
  readonly urn: string;
  readonly parent: string;
  readonly options: { readonly aliases?: readonly string[] };
}

/** The SDK's specification of an alias; empty fields are unchanged. */
interface AliasSpec {
  readonly name?: string;
  readonly type?: string;
  readonly stack?: string;
  readonly project?: string;
  readonly parenturn?: string;
  readonly noparent?: boolean;
}

/**
 * Pairs the resources of two graphs: by URN, else by an alias of the later one, as Pulumi's engine does
 * (`pkg/resource/deploy/step_generator.go`).
 *
 * @returns URN of the earlier resource by that of the later one.
 */
export function earlierUrns(
  before: readonly { readonly urn: string }[],
  after: readonly AliasedResource[],
): ReadonlyMap<string, string> {
  const known = new Set(before.map(({ urn }) => urn));
  const byUrn = new Map(after.map((resource) => [resource.urn, resource]));
  const pairs = new Map<string, string>();
  const visited = new Set<string>();
  /** Parents first: a child inherits its parent's former name. */
  const visit = (resource: AliasedResource) => {
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

function aliasUrns(
  { type, name, urn, parent, options }: AliasedResource,
  pairs: ReadonlyMap<string, string>,
): readonly string[] {
  const own = (options.aliases ?? []).map((alias) => {
    if (alias.startsWith("urn:")) return alias;
    const spec = JSON.parse(alias) as AliasSpec;
    const { stack, project } = urnParts(urn);
    const former = spec.parenturn ? (pairs.get(spec.parenturn) ?? spec.parenturn) : parent;
    return makeUrn({
      stack: spec.stack || stack,
      project: spec.project || project,
      parent: spec.noparent ? "" : former,
      type: spec.type || type,
      name: spec.name || name,
    });
  });
  const formerParent = pairs.get(parent);
  if (formerParent === undefined || formerParent === parent) return own;
  // `{parent}-details` was `{former parent}-details`.
  const [now, former] = [urnParts(parent).name, urnParts(formerParent).name];
  const inherited = [urn, ...own].map((alias) => {
    const { name: child, ...rest } = urnParts(alias);
    const formerName = child.startsWith(now) ? `${former}${child.slice(now.length)}` : child;
    return makeUrn({ ...rest, parent: formerParent, name: formerName });
  });
  return [...own, ...inherited];
}
