/** Names that a resource had before, as Pulumi's engine works them out: `pkg/resource/deploy/step_generator.go`. */
import { z } from "zod";
import { makeUrn, urnParts } from "../program/urns.ts";
import type { GraphResource } from "./rendered-tree.ts";

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
 * Pairs the resources of two graphs: by URN, else by an alias of the later one.
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
  const inherited = [resource.urn, ...own].map((urn) => inheritedUrn(urn, resource.parent, formerParent));
  return [...own, ...inherited];
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
  const { stack, project, type, name } = urnParts(urn);
  const parentName = urnParts(parent).name;
  const formerName = name.startsWith(parentName)
    ? `${urnParts(formerParent).name}${name.slice(parentName.length)}`
    : name;
  return makeUrn({ stack, project, parent: formerParent, type, name: formerName });
}
