/** What happens to resources, every one of them, by kind. */
import { propertyPath } from "../../program/changes.ts";
import { SECRET_PLACEHOLDER } from "../../program/marks.ts";
import { resourceDifferences } from "../resource-differences.ts";
import type { ChangeKind, PropertyDifference, ResourceChange } from "../types.ts";
import { causes, inTheWay } from "./danger-section.ts";
import { code, type Inline, joined } from "./inline.ts";
import { KIND_WORDS } from "./kind-words.ts";
import { type Entry, entrySection, type Section } from "./section.ts";
import { excerpt, yamlHunk } from "./yaml-hunk.ts";

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
    // What is retained never goes.
    ...(deletedFirst === true && kept !== "retained" ? [["the old one goes first"]] : []),
    ...(kept === null ? [] : [[inTheWay(change) ? `${kept}, in the way of the new one` : kept]]),
  ];
  const head: Inline = [code(label), ...(notes.length === 0 ? [] : [": ", ...joined(notes, "; ")])];
  // All inputs of what comes or goes would be a copy of what the program says of it.
  if (kind === "create" || kind === "delete") return { cells: [head] };
  return { cells: [head], details: readsBetterAsHunk(change) ? hunkOf(change) : pointsOf(change) };
}

/**
 * Several properties of a Kubernetes object, and texts of several lines; never where the two objects show less than the
 * properties, as with secrets that are masked alike, or more, as with what the program tells the engine to ignore.
 */
function readsBetterAsHunk({ type, before, after, properties }: ResourceChange): boolean {
  if (before === null || after === null) return false;
  const leaves = resourceDifferences(type, before, after);
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

function pointsOf({ kind, type, before, after, properties }: ResourceChange): NonNullable<Entry["details"]> {
  const leaves = new Map(
    resourceDifferences(type, before, after).map((leaf) => [propertyPath(leaf.keys), leaf]),
  );
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
