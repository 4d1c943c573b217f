/** What must be seen before a change is merged: what may be lost, and what `up` would not get past. */
import { ownName, resourceLabel } from "../resource-label.ts";
import type { ResourceChange } from "../types.ts";
import { keptClaims, type Loss } from "./claim-losses.ts";
import { code, type Inline, joined, strong } from "./inline.ts";
import { KIND_WORDS } from "./kind-words.ts";
import { refusals } from "./refusals.ts";
import { listSection, type Section } from "./section.ts";

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

/** Losses of what is held or stored, replacements that nobody can rule out, and updates that are refused. */
export function dangerSections(resources: readonly ResourceChange[]): readonly Section[] {
  const items = resources.flatMap((change): Inline[] => {
    const { kind } = change;
    if (kind === "update")
      return refusals(change).map(
        (reason): Inline => [code(change.label), " ", strong("may be refused"), ": ", ...reason],
      );
    if (kind === "create") return [];
    const reasons: readonly Inline[] = [
      ...causes(change, "the table of replacements does not know ", "may-replace"),
      ...holding(change, kind),
      ...keptClaims(change, kind),
    ];
    if (reasons.length === 0) return [];
    const fate = strong(`${kind === "may-replace" ? "" : "is "}${KIND_WORDS[kind]}`);
    return [[...fateOf(change, fate), ": ", ...joined(reasons, "; ")]];
  });
  return listSection("Look at these first", items, { folded: "never" });
}

/** Whether what is retained has the name that its replacement needs. */
export function inTheWay(change: ResourceChange): boolean {
  const { kind, kept } = change;
  if (kept !== "retained" || (kind !== "replace" && kind !== "may-replace")) return false;
  const { former, now } = ownNames(change);
  return former !== undefined && former === now;
}

function ownNames({ type, before, after }: ResourceChange) {
  return {
    former: ownName({ type, inputs: before ?? {} }),
    now: ownName({ type, inputs: after ?? {} }),
  };
}

function holding(change: ResourceChange, kind: Loss): readonly Inline[] {
  const { kept } = change;
  if (kept === null) return [];
  return [[kind !== "delete" && inTheWay(change) ? IN_THE_WAY[kind] : KEPT[kept][kind]]];
}

/** What may be lost, and what comes in its place where that has another name. */
function fateOf(change: ResourceChange, fate: Inline[number]): Inline {
  const { type, name, label, before } = change;
  const { former, now } = ownNames(change);
  if (before === null || former === undefined || now === undefined || former === now)
    return [code(label), " ", fate];
  return [code(resourceLabel({ type, name, inputs: before })), " ", fate, " by ", code(now)];
}

/** Properties that decide what happens; none where it is not they, as with what replaces a resource by its own options. */
export function causes({ kind, properties }: ResourceChange, words: string, effect: Loss): readonly Inline[] {
  const deciding = properties.filter((property) => property.effect === effect);
  if (kind !== effect || deciding.length === 0) return [];
  const more = deciding.length - MOST_NAMED_PATHS;
  const named = deciding.slice(0, MOST_NAMED_PATHS).map(({ path }): Inline => [code(path)]);
  return [[words, ...joined([...named, ...(more > 0 ? [[`${more} more`]] : [])], ", ")]];
}
