/** Compares every resource of two rendered graphs. */
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

/** Components and resources that are only read are left out. */
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
            // With another URN it may be the same as before.
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

/** Resource with which another is deleted: the engine passes that from parents to children. */
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

/** Option of both sides, and the effect of another value on a resource. */
type OptionPair = readonly [
  name: string,
  before: unknown,
  after: unknown,
  effect: NonNullable<PropertyDifference["effect"]>,
];

/**
 * Only options that both have count: those that replace a resource whatever its inputs are, and `deletedWith`, with
 * which the provider is never asked to delete the resource, so a wrong value leaves it behind.
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
  // A first trigger does not replace the resource.
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
  /** Whether a replaced resource is deleted before the new resource exists. */
  readonly deletedFirst: boolean;
}

type ChangedSide = Pick<RenderedResource, "type" | "name" | "urn" | "inputs" | "options">;

/** Form for a report; all secrets look alike. */
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
  // The engine uses the options with which a resource was last deployed.
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

/**
 * A difference in the form of reports: of texts, the lines that differ. @param effect - Null in a resource that is
 * created or deleted.
 */
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

/** Digests, of which twelve digits are unique enough. */
const DIGEST = /\b([0-9a-f]{12})[0-9a-f]{28,}\b/g;

const LONGEST_TEXT = 100;
/** Length of the common beginning that a cut text keeps before the first difference. */
const LEAD = 30;

/**
 * Returns JSON in one line, cut, long texts around their difference; placeholders of secret or unknown values without
 * quotes.
 */
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
