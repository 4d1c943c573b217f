/** A report before it is Markdown or text. */
import type { Inline } from "./inline.ts";

/** A point of a list, a row of a table, or a resource. */
export interface Entry {
  /** One, but for rows. */
  readonly cells: readonly Inline[];
  /** Below it: points, or lines of a unified diff. */
  readonly details?: { readonly points: readonly Inline[] } | { readonly hunk: readonly string[] };
}

export interface Section {
  /** Empty: it needs none. */
  readonly title: string;
  /** Titles of a table's columns; null: a list. */
  readonly columns: readonly string[] | null;
  readonly entries: readonly Entry[];
  /** Whether a comment shows only its title until a reader asks. `long`: where it is longer than a screen. */
  readonly folded: "never" | "long" | "always";
  /** Where there is no room for all, these are cut before the others. */
  readonly isDetail: boolean;
}

/** What a stack's report says, in the order in which a reviewer needs it. */
export interface StackReport {
  readonly stack: string;
  /** One line. */
  readonly verdict: Inline;
  /** What was compared, and how. */
  readonly comparison: Inline;
  /** What could not be compared, and why. */
  readonly notes: readonly Inline[];
  /** None is empty. */
  readonly sections: readonly Section[];
  /** Command that says all of it. */
  readonly command: string;
}

type Style = Partial<Pick<Section, "folded" | "isDetail">>;

/** None where there are no entries. */
export function entrySection(
  title: string,
  entries: readonly Entry[],
  { folded = "long", isDetail = false }: Style = {},
): readonly Section[] {
  return entries.length === 0 ? [] : [{ title, columns: null, entries, folded, isDetail }];
}

/** None where there are no items. */
export function listSection(title: string, items: readonly Inline[], style: Style = {}): readonly Section[] {
  return entrySection(
    title,
    items.map((item) => ({ cells: [item] })),
    style,
  );
}

/** None where there are no rows. */
export function tableSection(
  title: string,
  columns: readonly string[],
  rows: readonly (readonly Inline[])[],
): readonly Section[] {
  if (rows.length === 0) return [];
  return [{ title, columns, entries: rows.map((cells) => ({ cells })), folded: "long", isDetail: false }];
}
