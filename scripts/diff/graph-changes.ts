/** What happens to every resource between two rendered graphs. */
import { canonicalJson } from "../../infra/plan/plain-data.ts";
import { type LeafDifference, leafDifferences, propertyPath, shortJson } from "../program/changes.ts";
import {
  isMaskedSecret,
  SECRET_PLACEHOLDER,
  UNKNOWN_PLACEHOLDER,
  withoutMarks,
} from "../program/serialized.ts";
import type { GraphResource } from "./rendered-tree.ts";
import { deletesFirst, propertyEffect, type ReplacementContext, worstEffect } from "./replacements.ts";
import { earlierUrns, isAtOption, resourceDifferences, resourceLabel } from "./resource-names.ts";
import { type PropertyDifference, type ResourceChange, sortedChanges } from "./types.ts";

export interface GraphChanges {
  /** Sorted by kind (replace, may-replace, delete, update, create), then by URN. */
  readonly changes: readonly ResourceChange[];
  /** Number of resources that do not change. */
  readonly unchanged: number;
}

interface Graph {
  readonly resources: readonly GraphResource[];
  /** Whether secrets can be told apart. */
  readonly hasMarks: boolean;
}

/** Components have no life of their own, and what is only read belongs to somebody else: neither makes an entry. */
export function graphChanges(before: Graph, after: Graph): GraphChanges {
  const hasMarks = before.hasMarks && after.hasMarks;
  const [left, right] = [before, after].map(({ resources }) =>
    hasMarks ? resources : resources.map(withoutMarkedInputs),
  ) as [readonly GraphResource[], readonly GraphResource[]];
  const pairs = earlierUrns(left, right);
  const earlier = new Map(left.filter(isManaged).map((resource) => [resource.urn, resource]));
  const providers = new Map(right.map((resource) => [resource.urn, resource.inputs]));
  const [deletedWithBefore, deletedWithNow] = [left, right].map(deletedWithOf) as [Relation, Relation];
  const found = right.filter(isManaged).map((resource) => {
    const urn = pairs.get(resource.urn);
    const former = urn === undefined ? undefined : earlier.get(urn);
    if (former === undefined) return whole("create", resource);
    earlier.delete(former.urn);
    const provider = resource.provider === undefined ? {} : (providers.get(resource.provider) ?? {});
    const now = deletedWithNow(resource);
    return changed(former, resource, {
      provider,
      formerProvider: pairs.get(resource.provider ?? ""),
      // Under another URN it may be the same as before.
      deletedWith: [deletedWithBefore(former), pairs.get(now ?? "") ?? now],
    });
  });
  const changes = [
    ...found.filter((change) => change !== null),
    ...[...earlier.values()].map((gone) => whole("delete", gone)),
  ];
  return {
    changes: sortedChanges(changes),
    unchanged: found.filter((change) => change === null).length,
  };
}

/** Of a resource, the URN of another one; null: there is none. */
type Relation = (resource: GraphResource) => string | null;

/** With which one it is deleted: the engine hands that down from parents to children. */
function deletedWithOf(resources: readonly GraphResource[]): Relation {
  const byUrn = new Map(resources.map((resource) => [resource.urn, resource]));
  return (resource) => {
    let one: GraphResource | undefined = resource;
    while (one !== undefined && one.options.deletedWith === undefined) one = byUrn.get(one.parent);
    return one?.options.deletedWith ?? null;
  };
}

function withoutMarkedInputs(resource: GraphResource): GraphResource {
  return { ...resource, inputs: withoutMarks(resource.inputs) as GraphResource["inputs"] };
}

function isManaged({ custom, readId }: GraphResource): boolean {
  return custom && readId === undefined;
}

/** A resource that is on one side only. */
function whole(kind: "create" | "delete", resource: GraphResource): ResourceChange {
  const { inputs } = resource;
  const [before, after] = kind === "create" ? [{}, inputs] : [inputs, {}];
  return {
    ...named(resource),
    kind,
    properties: leafDifferences(before, after)
      .map((difference) => shownDifference(difference, null))
      .toSorted(byPath),
    before: kind === "create" ? null : shownInputs(resource),
    after: kind === "create" ? shownInputs(resource) : null,
    kept: kind === "create" ? null : keptBy(resource.options),
    deletedFirst: null,
  };
}

/** What a resource has from others. */
interface Surroundings {
  readonly provider: GraphResource["inputs"];
  /** URN of what is the provider now, as it was before. */
  readonly formerProvider: string | undefined;
  /** URNs of what it is deleted with, both as they were before. */
  readonly deletedWith: readonly [before: string | null, after: string | null];
}

function changed(
  before: GraphResource,
  after: GraphResource,
  surroundings: Surroundings,
): ResourceChange | null {
  const { provider } = surroundings;
  const context: ReplacementContext = { before: before.inputs, after: after.inputs, provider };
  const properties = [
    ...inputDifferences(after, context),
    ...optionDifferences(before, after, surroundings),
  ].toSorted(byPath);
  if (properties.length === 0) return null;
  const kind = worstEffect(properties.map(({ effect }) => effect ?? "update"));
  return {
    ...named(after),
    kind,
    properties,
    before: shownInputs(before),
    after: shownInputs(after),
    kept: keptBy(before.options),
    deletedFirst:
      kind === "update" ? null : (after.options.deleteBeforeReplace ?? deletesFirst(after.type, context)),
  };
}

function inputDifferences(after: GraphResource, context: ReplacementContext): readonly PropertyDifference[] {
  const { ignoreChanges, replaceOnChanges } = after.options;
  return resourceDifferences(after.type, context.before, context.after)
    .filter(({ keys }) => !isAtOption(ignoreChanges, keys))
    .flatMap((difference) => {
      const { keys } = difference;
      const byProvider = propertyEffect(after.type, keys, difference.after ?? difference.before, context);
      const effect = isAtOption(replaceOnChanges, keys) ? "replace" : byProvider;
      return effect === null ? [] : [shownDifference(difference, effect)];
    });
}

/**
 * Options that make a resource anew whatever its inputs are, and `deletedWith`: with it nobody calls the provider to delete the
 * resource, so a wrong one leaves it behind. All others change nothing of it.
 */
function optionDifferences(
  before: GraphResource,
  after: GraphResource,
  { formerProvider, deletedWith }: Surroundings,
): readonly PropertyDifference[] {
  const trigger = [before.options.replacementTrigger, after.options.replacementTrigger] as const;
  const isTriggered = trigger[0] !== undefined && canonicalJson(trigger[0]) !== canonicalJson(trigger[1]);
  const moved = before.provider !== (after.provider === undefined ? undefined : formerProvider);
  return [
    ...(isTriggered ? [option("replacementTrigger", trigger[0], trigger[1] ?? null, "replace")] : []),
    ...(moved ? [option("provider", before.provider ?? null, after.provider ?? null, "may-replace")] : []),
    ...(deletedWith[0] === deletedWith[1] ? [] : [option("deletedWith", ...deletedWith, "update")]),
  ];
}

function option(
  name: string,
  before: unknown,
  after: unknown,
  effect: PropertyDifference["effect"],
): PropertyDifference {
  return shownDifference({ keys: [`(${name})`], kind: "update", before, after }, effect);
}

export function byPath(a: { readonly path: string }, b: { readonly path: string }): number {
  return a.path < b.path ? -1 : 1;
}

/** A difference as people see it. @param effect - null in a resource that comes or goes as a whole. */
export function shownDifference(
  { keys, kind, before, after }: LeafDifference,
  effect: PropertyDifference["effect"],
): PropertyDifference {
  return {
    path: propertyPath(keys),
    kind,
    ...(kind === "add" ? {} : { before: shownValue(before) }),
    ...(kind === "delete" ? {} : { after: shownValue(after) }),
    effect,
  };
}

/** JSON in one line, cut; what stands for a secret or for something unknown without quotes. */
function shownValue(value: unknown): string {
  if (isMaskedSecret(value)) return SECRET_PLACEHOLDER;
  if (value === UNKNOWN_PLACEHOLDER) return UNKNOWN_PLACEHOLDER;
  return shortJson(value, (inner) => (isMaskedSecret(inner) ? SECRET_PLACEHOLDER : inner));
}

function named(resource: GraphResource): Pick<ResourceChange, "type" | "name" | "urn" | "label"> {
  const { type, name, urn } = resource;
  return { type, name, urn, label: resourceLabel(resource) };
}

function shownInputs({ inputs }: GraphResource): GraphResource["inputs"] {
  return withoutMarks(inputs) as GraphResource["inputs"];
}

type KeepingOptions = Pick<GraphResource["options"], "protect" | "retainOnDelete">;

/** By the options that it was last deployed with: an engine heeds those. */
export function keptBy({ protect, retainOnDelete }: KeepingOptions): ResourceChange["kept"] {
  return protect ? "protected" : retainOnDelete ? "retained" : null;
}
