/** What happens to resources: what is dangerous, then every one of them, by kind. */
import { leafDifferences, propertyPath } from "../../program/changes.ts";
import { SECRET_PLACEHOLDER } from "../../program/marks.ts";
import type { ChangeKind, PropertyDifference, ResourceChange } from "../types.ts";
import { code, type Inline, joined, strong } from "./inline.ts";
import { type Entry, entrySection, listSection, type Section } from "./section.ts";
import { excerpt, yamlHunk } from "./yaml-hunk.ts";

/** Each kind as people say it of a resource, in the order of a report. */
export const KIND_WORDS: Readonly<Record<ChangeKind, string>> = {
  replace: "replaced",
  "may-replace": "may be replaced",
  delete: "deleted",
  update: "updated",
  create: "created",
};

type Loss = Extract<ChangeKind, "replace" | "may-replace" | "delete">;

/** What holding a resource means for what happens to it: `protect` and `retainOnDelete` of the Pulumi engine. */
const KEPT: Readonly<Record<NonNullable<ResourceChange["kept"]>, Readonly<Record<Loss, string>>>> = {
  protected: {
    replace: "it is protected, so `up` refuses to replace it",
    "may-replace": "it is protected, so `up` fails where the provider replaces it",
    delete: "it is protected, so `up` refuses to delete it",
  },
  retained: {
    replace: "it is retained: the old one stays beside the new one, and no stack knows it any more",
    "may-replace": "it is retained: where the provider replaces it, the old one stays and no stack knows it",
    delete: "it is retained: it stays where it is, and no stack knows it any more",
  },
};

const MOST_NAMED_PATHS = 5;

/** Losses of what is held, and replacements that nobody can rule out. */
export function dangerSections(resources: readonly ResourceChange[]): readonly Section[] {
  const items = resources.flatMap((change): Inline[] => {
    const { kind, kept, label } = change;
    if (kind === "update" || kind === "create") return [];
    const isUnknown = kind === "may-replace";
    const reasons: readonly Inline[] = [
      ...causes(change, "the table of replacements does not know ", "may-replace"),
      ...(kept === null ? [] : [[KEPT[kept][kind]]]),
    ];
    if (reasons.length === 0) return [];
    const fate = strong(`${isUnknown ? "" : "is "}${KIND_WORDS[kind]}`);
    return [[code(label), " ", fate, ": ", ...joined(reasons, "; ")]];
  });
  return listSection("Look at these first", items, { folded: "never" });
}

/** Every resource, a section a kind. */
export function resourceSections(resources: readonly ResourceChange[]): readonly Section[] {
  return (Object.keys(KIND_WORDS) as ChangeKind[]).flatMap((kind) => {
    const changes = resources.filter((change) => change.kind === kind);
    const word = KIND_WORDS[kind];
    return entrySection(`${word[0]?.toUpperCase()}${word.slice(1)}`, changes.map(resourceEntry), {
      folded: "always",
      isDetail: true,
    });
  });
}

function resourceEntry(change: ResourceChange): Entry {
  const { kind, label, kept, deletedFirst } = change;
  const notes: readonly Inline[] = [
    ...causes(change, "because of ", "replace"),
    ...(deletedFirst === true ? [["the old one goes first"]] : []),
    ...(kept === null ? [] : [[kept]]),
  ];
  const head: Inline = [code(label), ...(notes.length === 0 ? [] : [": ", ...joined(notes, "; ")])];
  // All inputs of what comes or goes would be a copy of what the program says of it.
  if (kind === "create" || kind === "delete") return { cells: [head] };
  return { cells: [head], details: readsBetterAsHunk(change) ? hunkOf(change) : pointsOf(change) };
}

/** Properties that decide what happens; none where it is not they, as with what replaces a resource by its own options. */
function causes({ kind, properties }: ResourceChange, words: string, effect: Loss): readonly Inline[] {
  const deciding = properties.filter((property) => property.effect === effect);
  if (kind !== effect || deciding.length === 0) return [];
  const more = deciding.length - MOST_NAMED_PATHS;
  const named = deciding.slice(0, MOST_NAMED_PATHS).map(({ path }): Inline => [code(path)]);
  return [[words, ...joined([...named, ...(more > 0 ? [[`${more} more`]] : [])], ", ")]];
}

/**
 * Several properties of a Kubernetes object, and texts of several lines; never where the two objects show less than the
 * properties, as with secrets that are masked alike, or more, as with what the program tells the engine to ignore.
 */
function readsBetterAsHunk({ type, before, after, properties }: ResourceChange): boolean {
  if (before === null || after === null) return false;
  const leaves = leafDifferences(before, after);
  const shown = new Set(leaves.map(({ keys }) => propertyPath(keys)));
  if (shown.size !== properties.length || !properties.every(({ path }) => shown.has(path))) return false;
  const isLong = leaves.some((leaf) => [leaf.before, leaf.after].every(isLongText));
  return isLong || (type.startsWith("kubernetes:") && properties.length > 1);
}

/** Of several lines, or JSON, of which a line would show nothing. */
function isLongText(value: unknown): boolean {
  return typeof value === "string" && (value.includes("\n") || /^\s*[[{]/.test(value));
}

function hunkOf({ before, after }: ResourceChange): NonNullable<Entry["details"]> {
  return { hunk: yamlHunk(before ?? {}, after ?? {}) };
}

function pointsOf({ kind, before, after, properties }: ResourceChange): NonNullable<Entry["details"]> {
  const leaves = new Map(leafDifferences(before, after).map((leaf) => [propertyPath(leaf.keys), leaf]));
  const points = properties.map((property): Inline => {
    const { path, effect } = property;
    const leaf = leaves.get(path);
    if ([property.before, property.after].every((value) => value === SECRET_PLACEHOLDER))
      return [code(path), ": secret, changed"];
    const [was, is] = values(property, leaf?.before, leaf?.after);
    const marked =
      effect !== null && effect !== "update" && kind !== effect ? ` (${KIND_WORDS[effect]})` : "";
    return [code(path), ": ", was, " → ", is, marked];
  });
  return { points };
}

const LONGEST_VALUE = 100;

type ShownSpan = Inline[number];

/** Long texts are shown where they differ; whatever else there is, as it was found. */
function values(property: PropertyDifference, was: unknown, is: unknown): readonly [ShownSpan, ShownSpan] {
  const { before, after } = property;
  const isText = typeof was === "string" && typeof is === "string";
  const isMasked = [before, after].includes(SECRET_PLACEHOLDER);
  if (isText && !isMasked) {
    const [old, now] = [JSON.stringify(was), JSON.stringify(is)];
    return [code(excerpt(old, now, LONGEST_VALUE)), code(excerpt(now, old, LONGEST_VALUE))];
  }
  const span = (value: string | undefined): ShownSpan =>
    value === undefined ? "absent" : value === SECRET_PLACEHOLDER ? "secret" : code(value);
  return [span(before), span(after)];
}
