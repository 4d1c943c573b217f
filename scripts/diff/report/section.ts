/** A report before it is Markdown or text. */
import type { Inline } from "../../markdown.ts";

/** A point of a list, a row of a table, or a resource. */
export interface Entry {
  /** One, but for rows. */
  readonly cells: readonly Inline[];
  /** Below it: points, or lines of a unified diff. */
  readonly details?: { readonly points: readonly Inline[] } | { readonly hunk: readonly string[] };
}

export interface Section {
  readonly title: string;
  /** Titles of a table's columns; absent: a list. */
  readonly columns?: readonly string[];
  /** Without any the section is left out. */
  readonly entries: readonly Entry[];
  /** Whether a comment shows only its title until a reader asks. @default "long": where it is longer than a screen */
  readonly folded?: "never" | "always";
  /** Where there is no room for all, these are cut before the others. @default false */
  readonly isDetail?: boolean;
}

/** What a stack's report says, in the order in which a reviewer needs it. */
export interface StackReport {
  readonly stack: string;
  /** One line. */
  readonly verdict: Inline;
  /** Whether merging leaves the stack exactly as it is, as far as both sides could be read. */
  readonly isUnchanged: boolean;
  /** What was compared, and how. */
  readonly comparison: Inline;
  /** What could not be compared, and why. */
  readonly notes: readonly Inline[];
  /** None is empty. */
  readonly sections: readonly Section[];
  /** Command that says all of it. */
  readonly command: string;
}

/** A list of points. */
export function list(title: string, items: readonly Inline[], style: Partial<Section> = {}): Section {
  return { title, entries: items.map((item) => ({ cells: [item] })), ...style };
}

/** Items with the same key, in the order of their first ones. */
export function grouped<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
): readonly (readonly Item[])[] {
  const groups = new Map<string, Item[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return [...groups.values()];
}
