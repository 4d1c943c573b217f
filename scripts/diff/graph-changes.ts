/** What happens to every resource between two rendered graphs. */
import { canonicalJson } from "../../infra/plan/plain-data.ts";
import { changedLines, isText, type LeafDifference, propertyPath, shortJson } from "../program/changes.ts";
import {
  isMaskedSecret,
  SECRET_PLACEHOLDER,
  UNKNOWN_PLACEHOLDER,
  withoutMarks,
} from "../program/serialized.ts";
import type { RenderedResource } from "../render.ts";
import { deletesFirst, propertyEffect, worstEffect } from "./replacements.ts";
import {
  earlierUrns,
  isAtOrBelow,
  keySegments,
  pathSegments,
  resourceDifferences,
  resourceLabel,
} from "./resource-names.ts";
import { type PropertyDifference, type ResourceChange, sortedChanges } from "./types.ts";

export interface GraphChanges {
  /** Sorted by kind (replace, may-replace, delete, update, create), then by URN. */
  readonly changes: readonly ResourceChange[];
  /** Number of resources that do not change, components among them, as the Pulumi engine counts. */
  readonly unchanged: number;
}

/** Components have no life of their own, and what is only read belongs to somebody else: neither makes an entry. */
export function graphChanges(
  before: readonly RenderedResource[],
  after: readonly RenderedResource[],
): GraphChanges {
  const pairs = earlierUrns(before, after);
  const earlier = new Map(before.filter(isOwn).map((resource) => [resource.urn, resource]));
  const [deletedWithBefore, deletedWithNow] = [deletedWithOf(before), deletedWithOf(after)];
  const changes: ResourceChange[] = [];
  let unchanged = 0;
  for (const resource of after.filter(isOwn)) {
    const former = earlier.get(pairs.get(resource.urn) ?? "");
    if (former !== undefined) earlier.delete(former.urn);
    const now = deletedWithNow(resource);
    const change =
      former === undefined
        ? wholeChange("create", resource)
        : changed(former, resource, [
            ["provider", former.provider, earlierName(resource.provider), "may-replace"],
            // Under another URN it may be the same as before.
            ["deletedWith", deletedWithBefore(former), earlierName(now), "update"],
          ]);
    if (change === null) unchanged += 1;
    else if (resource.custom) changes.push(change);
  }
  function earlierName(urn: string | undefined): string | undefined {
    return urn === undefined ? undefined : (pairs.get(urn) ?? urn);
  }
  const gone = [...earlier.values()].filter(({ custom }) => custom);
  return {
    changes: sortedChanges([...changes, ...gone.map((resource) => wholeChange("delete", resource))]),
    unchanged,
  };
}

function isOwn({ readId }: RenderedResource): boolean {
  return readId === undefined;
}

/** With which resource another one is deleted: the engine hands that down from parents to children. */
function deletedWithOf(
  resources: readonly RenderedResource[],
): (resource: RenderedResource) => string | undefined {
  const byUrn = new Map(resources.map((resource) => [resource.urn, resource]));
  return (resource) => {
    let holder: RenderedResource | undefined = resource;
    while (holder !== undefined && holder.options.deletedWith === undefined)
      holder = byUrn.get(holder.parent);
    return holder?.options.deletedWith;
  };
}

/** An option that both sides may have, and what another value does to a resource. */
type OptionPair = readonly [
  name: string,
  before: unknown,
  after: unknown,
  effect: NonNullable<PropertyDifference["effect"]>,
];

/**
 * Of the options that both have, those count that replace a resource whatever its inputs are, and `deletedWith`: with it the
 * provider is never asked to delete the resource, so a wrong one leaves it behind.
 */
function changed(
  before: RenderedResource,
  after: RenderedResource,
  inherited: readonly OptionPair[],
): ResourceChange | null {
  const { ignoreChanges = [], replaceOnChanges = [], deleteBeforeReplace } = after.options;
  const isAtOption = (paths: readonly string[], { keys }: LeafDifference) =>
    paths.some((path) => isAtOrBelow(keySegments(keys), pathSegments(path)));
  const inputs = resourceDifferences(before.inputs, after.inputs)
    .filter((difference) => !isAtOption(ignoreChanges, difference))
    .map((difference) => {
      const value = difference.after ?? difference.before;
      const byProvider = propertyEffect(after.type, difference.keys, value);
      return shownDifference(difference, isAtOption(replaceOnChanges, difference) ? "replace" : byProvider);
    });
  const [was, is] = [before.options.replacementTrigger, after.options.replacementTrigger];
  // A first trigger replaces nothing.
  const trigger: readonly OptionPair[] =
    was === undefined ? [] : [["replacementTrigger", was, is, "replace"]];
  const options = [...trigger, ...inherited]
    .filter(([, former, now]) => canonicalJson(former ?? null) !== canonicalJson(now ?? null))
    .map(([name, former = null, now = null, effect]) =>
      shownDifference({ keys: [`(${name})`], kind: "update", before: former, after: now }, effect),
    );
  const properties = [...inputs, ...options];
  if (properties.length === 0) return null;
  const kind = worstEffect(properties.map(({ effect }) => effect ?? "update"));
  const goesFirst = deleteBeforeReplace ?? deletesFirst(after.type, before.inputs, after.inputs);
  return describedChange({ kind, before, after, properties, deletedFirst: goesFirst });
}

function wholeChange(kind: "create" | "delete", resource: RenderedResource): ResourceChange {
  const [before, after] = kind === "create" ? [null, resource] : [resource, null];
  const properties = resourceDifferences(before?.inputs ?? {}, after?.inputs ?? {}).map((difference) =>
    shownDifference(difference, null),
  );
  return describedChange({ kind, before, after, properties, deletedFirst: false });
}

interface ChangedSides extends Pick<ResourceChange, "kind" | "properties"> {
  readonly before: ChangedSide | null;
  readonly after: ChangedSide | null;
  /** Of a replacement. */
  readonly deletedFirst: boolean;
}

type ChangedSide = Pick<RenderedResource, "type" | "name" | "urn" | "inputs" | "options">;

/** As a report has it, with secrets that all look alike. */
export function describedChange({
  kind,
  before,
  after,
  properties,
  deletedFirst,
}: ChangedSides): ResourceChange {
  const { type, name, urn, inputs } = (after ?? before) as ChangedSide;
  const shown = (side: ChangedSide | null) =>
    side === null ? null : (withoutMarks(side.inputs) as ResourceChange["before"]);
  // The engine heeds the options that a resource was last deployed with.
  const { protect, retainOnDelete } = before?.options ?? {};
  return {
    kind,
    type,
    name,
    urn,
    label: resourceLabel({ type, name, inputs }),
    properties: properties.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    before: shown(before),
    after: shown(after),
    kept: protect ? "protected" : retainOnDelete ? "retained" : null,
    deletedFirst: kind === "replace" || kind === "may-replace" ? deletedFirst : null,
  };
}

/** A difference as people see it: of texts, the lines that differ. @param effect - null in a resource that comes or goes as a whole. */
export function shownDifference(
  { keys, kind, before, after }: LeafDifference,
  effect: PropertyDifference["effect"],
): PropertyDifference {
  const areTexts = isText(before) && isText(after);
  const [was, is] = areTexts
    ? differingLines(before, after)
    : [
        kind === "add" ? undefined : shownValue(before, after),
        kind === "delete" ? undefined : shownValue(after, before),
      ];
  return {
    path: propertyPath(keys),
    kind,
    ...(was === undefined ? {} : { before: was }),
    ...(is === undefined ? {} : { after: is }),
    effect,
  };
}

/** Without indentation, in one line, cut; undefined: all lines of a side are on the other side too. */
function differingLines(before: string, after: string): readonly (string | undefined)[] {
  const lines = changedLines(before, after);
  return ["- ", "+ "].map((sign) => {
    const own = lines.filter((line) => line.startsWith(sign)).map((line) => line.slice(sign.length).trim());
    const text = own.join(" ⏎ ");
    if (own.length === 0) return undefined;
    return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
  });
}

/** Digests, of which twelve digits tell one from another. */
const DIGEST = /\b([0-9a-f]{12})[0-9a-f]{28,}\b/g;

const LONGEST_TEXT = 100;
/** Characters of a cut text that both sides have, before the first that differs. */
const LEAD = 30;

/** JSON in one line, cut, long texts around their difference; placeholders of what is secret or unknown without quotes. */
function shownValue(value: unknown, other: unknown): string {
  if (isMaskedSecret(value)) return SECRET_PLACEHOLDER;
  if (value === UNKNOWN_PLACEHOLDER) return UNKNOWN_PLACEHOLDER;
  if (typeof value !== "string" || typeof other !== "string" || value.length <= LONGEST_TEXT)
    return shortJson(value, (inner) => (isMaskedSecret(inner) ? SECRET_PLACEHOLDER : inner)).replace(
      DIGEST,
      "$1…",
    );
  const same = [...value].findIndex((character, index) => character !== other[index]);
  const start = Math.max(
    0,
    Math.min((same === -1 ? value.length : same) - LEAD, value.length - LONGEST_TEXT),
  );
  const end = start + LONGEST_TEXT;
  const inner = JSON.stringify(value.slice(start, end)).slice(1, -1);
  return `${start > 0 ? "…" : '"'}${inner}${end < value.length ? "…" : '"'}`;
}
