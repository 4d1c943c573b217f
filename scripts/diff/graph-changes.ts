/** What happens to every resource between two rendered graphs. */
import { canonicalJson } from "../../infra/plan/plain-data.ts";
import { type LeafDifference, leafDifferences, propertyPath, shortJson } from "../program/changes.ts";
import { isMaskedSecret, SECRET_PLACEHOLDER, UNKNOWN_PLACEHOLDER, withoutMarks } from "../program/marks.ts";
import { earlierUrns } from "./aliases.ts";
import { isAtOption } from "./option-paths.ts";
import type { GraphResource } from "./rendered-tree.ts";
import { propertyEffect, replacementRow, worstEffect } from "./replacements/property-effects.ts";
import type { ReplacementContext } from "./replacements/types.ts";
import { resourceDifferences } from "./resource-differences.ts";
import { resourceLabel } from "./resource-label.ts";
import type { ChangeKind, PropertyDifference, ResourceChange } from "./types.ts";

export interface GraphChanges {
  /** Sorted by kind (replace, may-replace, delete, update, create), then by URN. */
  readonly changes: readonly ResourceChange[];
  /** Number of resources that stay as they are. */
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
    if (former === undefined) return created(resource);
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
  const changes = [...found.filter((change) => change !== null), ...[...earlier.values()].map(deleted)];
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

const KIND_ORDER: Readonly<Record<ChangeKind, number>> = {
  replace: 0,
  "may-replace": 1,
  delete: 2,
  update: 3,
  create: 4,
};

/** In the order in which people read them: what may be lost first. */
export function sortedChanges(changes: readonly ResourceChange[]): readonly ResourceChange[] {
  return changes.toSorted((a, b) => KIND_ORDER[a.kind] - KIND_ORDER[b.kind] || (a.urn < b.urn ? -1 : 1));
}

function withoutMarkedInputs(resource: GraphResource): GraphResource {
  return { ...resource, inputs: withoutMarks(resource.inputs) as GraphResource["inputs"] };
}

function isManaged({ custom, readId }: GraphResource): boolean {
  return custom && readId === undefined;
}

function created(resource: GraphResource): ResourceChange {
  return {
    ...named(resource),
    kind: "create",
    properties: wholeProperties({}, resource.inputs),
    before: null,
    after: shownInputs(resource),
    kept: null,
    deletedFirst: null,
  };
}

function deleted(resource: GraphResource): ResourceChange {
  return {
    ...named(resource),
    kind: "delete",
    properties: wholeProperties(resource.inputs, {}),
    before: shownInputs(resource),
    after: null,
    kept: keptBy(resource.options),
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
  ].toSorted((a, b) => (a.path < b.path ? -1 : 1));
  if (properties.length === 0) return null;
  const kind = worstEffect(properties.map(({ effect }) => effect ?? "update"));
  const row = replacementRow(after.type);
  return {
    ...named(after),
    kind,
    properties,
    before: shownInputs(before),
    after: shownInputs(after),
    kept: keptBy(before.options),
    deletedFirst:
      kind === "update" ? null : (after.options.deleteBeforeReplace ?? row?.deletesFirst(context) ?? false),
  };
}

function inputDifferences(after: GraphResource, context: ReplacementContext): readonly PropertyDifference[] {
  const { ignoreChanges, replaceOnChanges } = after.options;
  const row = replacementRow(after.type);
  return resourceDifferences(after.type, context.before, context.after)
    .filter(({ keys }) => !isAtOption(ignoreChanges, keys))
    .flatMap((difference) => {
      const { keys } = difference;
      const byProvider = propertyEffect(row, keys, difference.after ?? difference.before, context);
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

/** Of a resource that comes or goes: each of its inputs as a whole. */
function wholeProperties(
  before: GraphResource["inputs"],
  after: GraphResource["inputs"],
): readonly PropertyDifference[] {
  return leafDifferences(before, after)
    .map((difference) => shownDifference(difference, null))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
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
