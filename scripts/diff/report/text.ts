/** What a change does to a stack, for terminals and pipes alike: no colour, no escape codes. */
import { clipped, type Inline, plainInline, visible } from "../../markdown.ts";
import { PAGE_COLUMNS, textTable, wrapText } from "../../plan/text-table.ts";
import type { StackDiff } from "../types.ts";
import type { Entry, Section } from "./section.ts";
import { stackReport } from "./stack-report.ts";

/** Longer names would push the last column, which wraps, off the page. */
const WIDEST_CELLS = [45, 20];

/**
 * @returns Lines of at most {@link PAGE_COLUMNS} characters, but for words and lines of hunks that are longer, so that they can
 * be copied whole. All that the change does is shown.
 */
export function textReport(diff: StackDiff): string {
  const { stack, verdict, comparison, notes, sections } = stackReport(diff);
  const lines = [
    `Stack ${visible(stack)}: ${plainInline(verdict)}`,
    ...[comparison, ...notes].map(plainInline),
  ].flatMap((line) => wrapText(line, PAGE_COLUMNS));
  const parts = sections.flatMap((section) => ["", section.title, ...sectionLines(section)]);
  return `${[...lines, ...parts].join("\n")}\n`;
}

function sectionLines({ columns, entries }: Section): readonly string[] {
  if (columns === undefined) return entries.flatMap(entryLines);
  const rows = entries.map(({ cells }) =>
    cells.map((cell, index) => clipped(plainInline(cell), WIDEST_CELLS[index] ?? PAGE_COLUMNS)),
  );
  return textTable(
    columns.map((title) => ({ title: title.toUpperCase() })),
    rows,
  );
}

function entryLines({ cells: [head = []], details }: Entry): readonly string[] {
  const below =
    details === undefined
      ? []
      : "points" in details
        ? details.points.flatMap((point) => pointLines(point, "    "))
        : details.hunk.map((line) => `      ${visible(line)}`.trimEnd());
  return [...pointLines(head, "  "), ...below];
}

function pointLines(inline: Inline, margin: string): readonly string[] {
  const [first = "", ...rest] = wrapText(plainInline(inline), PAGE_COLUMNS - margin.length - 2);
  return [`${margin}- ${first}`, ...rest.map((line) => `${margin}  ${line}`)].map((line) => line.trimEnd());
}
