/** What happens to resources: what must be seen before a change is merged, and then every one of them, by kind. */
import { code, type Inline, joined, strong } from "../../markdown.ts";
import { propertyPath } from "../../program/changes.ts";
import { SECRET_PLACEHOLDER } from "../../program/serialized.ts";
import { ownName, resourceDifferences, resourceLabel } from "../resource-names.ts";
import type { ChangeKind, PropertyDifference, ResourceChange } from "../types.ts";
import { keptClaims, type Loss, machineWords, refusals } from "./consequences.ts";
import { type Entry, list, type Section } from "./section.ts";
import { excerpt, yamlHunk } from "./yaml-hunk.ts";

/** Each kind as people say it of a resource, in the order of a report. */
export const KIND_WORDS: Readonly<Record<ChangeKind, string>> = {
  replace: "replaced",
  "may-replace": "may be replaced",
  delete: "deleted",
  update: "updated",
  create: "created",
};

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

/** Two of one name can't be there at once. */
const IN_THE_WAY: Readonly<Record<Exclude<Loss, "delete">, string>> = {
  replace:
    "it is retained and the new one has its name: the old one stays in the way of `up`, so rename or remove one of them",
  "may-replace":
    "it is retained and the new one has its name: where the provider replaces it, the old one stays in the way of `up`",
};

const MOST_NAMED_PATHS = 5;
const LONGEST_VALUE = 100;

/** Losses of what is held or stored, replacements that nobody can rule out, and updates that are refused. */
export function dangerSection(resources: readonly ResourceChange[]): Section {
  const items = resources.flatMap((change): Inline[] => {
    const { kind, label } = change;
    if (kind === "create") return [];
    if (kind === "update")
      return refusals(change).map((words) => [code(label), " ", strong("may be refused"), `: ${words}`]);
    const reasons: readonly Inline[] = [
      ...causes(change, "the table of replacements does not know ", "may-replace"),
      ...holding(change, kind),
      ...keptClaims(change, kind),
    ];
    return reasons.length === 0 ? [] : [[...fate(change, kind), ": ", ...joined(reasons, "; ")]];
  });
  return list("Look at these first", items, { folded: "never" });
}

/** What an update of the template that machines start from means for those that are there. */
export function machineSection(resources: readonly ResourceChange[]): Section {
  const items = resources.flatMap((change) =>
    machineWords(change).map((words): Inline => [code(change.label), `: ${words}.`]),
  );
  return list("Machines that are there", items, { folded: "never" });
}

function ownNames({ type, before, after }: ResourceChange) {
  return {
    former: ownName({ type, inputs: before ?? {} }),
    now: ownName({ type, inputs: after ?? {} }),
  };
}

/** Whether what is retained has the name that its replacement needs. */
function inTheWay(change: ResourceChange): boolean {
  const { kind, kept } = change;
  if (kept !== "retained" || (kind !== "replace" && kind !== "may-replace")) return false;
  const { former, now } = ownNames(change);
  return former !== undefined && former === now;
}

function holding(change: ResourceChange, kind: Loss): readonly Inline[] {
  if (change.kept === null) return [];
  return [[kind !== "delete" && inTheWay(change) ? IN_THE_WAY[kind] : KEPT[change.kept][kind]]];
}

/** What may be lost, and what comes in its place where that has another name. */
function fate(change: ResourceChange, kind: Loss): Inline {
  const { type, name, label, before } = change;
  const words = strong(`${kind === "may-replace" ? "" : "is "}${KIND_WORDS[kind]}`);
  const { former, now } = ownNames(change);
  if (before === null || former === undefined || now === undefined || former === now)
    return [code(label), " ", words];
  return [code(resourceLabel({ type, name, inputs: before })), " ", words, " by ", code(now)];
}

/** Properties that decide what happens; none where it is not they, as with what replaces a resource by its own options. */
function causes({ kind, properties }: ResourceChange, words: string, effect: Loss): readonly Inline[] {
  const deciding = properties.filter((property) => property.effect === effect);
  if (kind !== effect || deciding.length === 0) return [];
  const more = deciding.length - MOST_NAMED_PATHS;
  const named = deciding.slice(0, MOST_NAMED_PATHS).map(({ path }): Inline => [code(path)]);
  return [[words, ...joined([...named, ...(more > 0 ? [[`${more} more`]] : [])], ", ")]];
}

/** Every resource, a section a kind. */
export function resourceSections(resources: readonly ResourceChange[]): readonly Section[] {
  return (Object.keys(KIND_WORDS) as ChangeKind[]).map((kind) => ({
    title: `${KIND_WORDS[kind].charAt(0).toUpperCase()}${KIND_WORDS[kind].slice(1)}`,
    entries: resources.filter((change) => change.kind === kind).map(resourceEntry),
    folded: "always",
    isDetail: true,
  }));
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
  return { cells: [head], details: details(change) };
}

/**
 * A hunk for several properties of a Kubernetes object, and for texts of several lines; never where the two objects show less
 * than the properties, as with secrets that are masked alike, or more, as with what the program tells the engine to ignore.
 */
function details({ kind, type, before, after, properties }: ResourceChange): NonNullable<Entry["details"]> {
  const found = resourceDifferences(type, before ?? {}, after ?? {});
  const leaves = new Map(found.map((leaf) => [propertyPath(leaf.keys), leaf]));
  const isLong = found.some((leaf) => [leaf.before, leaf.after].every(isLongText));
  const isWhole = leaves.size === properties.length && properties.every(({ path }) => leaves.has(path));
  if (isWhole && (isLong || (type.startsWith("kubernetes:") && properties.length > 1)))
    return { hunk: yamlHunk(before ?? {}, after ?? {}) };
  const points = properties.map((property): Inline => {
    const { path, effect } = property;
    if ([property.before, property.after].every((value) => value === SECRET_PLACEHOLDER))
      return [code(path), ": secret, changed"];
    const leaf = leaves.get(path);
    const [was, is] = shownValues(property, leaf?.before, leaf?.after);
    const isWorse = effect !== null && effect !== "update" && kind !== effect;
    return [code(path), ": ", was, " → ", is, isWorse ? ` (${KIND_WORDS[effect]})` : ""];
  });
  return { points };
}

/** Of several lines, or JSON, of which a line would show nothing. */
function isLongText(value: unknown): boolean {
  return typeof value === "string" && (value.includes("\n") || /^\s*[[{]/.test(value));
}

type ShownSpan = Inline[number];

/** Long texts are shown where they differ; whatever else there is, as it was found. */
function shownValues(
  { before, after }: PropertyDifference,
  was: unknown,
  is: unknown,
): readonly [ShownSpan, ShownSpan] {
  const isMasked = [before, after].includes(SECRET_PLACEHOLDER);
  if (typeof was === "string" && typeof is === "string" && !isMasked) {
    const [old, now] = [JSON.stringify(was), JSON.stringify(is)];
    return [code(excerpt(old, now, LONGEST_VALUE)), code(excerpt(now, old, LONGEST_VALUE))];
  }
  const span = (value: string | undefined): ShownSpan =>
    value === undefined ? "absent" : value === SECRET_PLACEHOLDER ? "secret" : code(value);
  return [span(before), span(after)];
}
