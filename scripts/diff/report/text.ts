/** What a change does to a stack, for terminals and pipes alike: no colour, no escape codes. */
import { PAGE_COLUMNS, textTable, wrapText } from "../../plan/text-table.ts";
import type { StackDiff } from "../types.ts";
import { clipped, type Inline, plainInline, visible } from "./inline.ts";
import type { Entry, Section } from "./section.ts";
import { stackReport } from "./stack-report.ts";

/**
 * @returns Lines of at most {@link PAGE_COLUMNS} characters; nothing that the change does is left out but what the difference
 * itself has cut.
 */
export function textReport(diff: StackDiff): string {
  const { stack, verdict, comparison, notes, sections } = stackReport(diff);
  const lines = [
    ...wrapped(`Stack ${visible(stack)}: ${plainInline(verdict)}`, ""),
    ...[comparison, ...notes].flatMap((note) => wrapped(plainInline(note), "")),
    ...sections.flatMap((section) => ["", section.title, ...sectionLines(section)]),
  ];
  return `${lines.join("\n")}\n`;
}

/** Longer names would push the last column, which wraps, off the page. */
const WIDEST_CELLS = [45, 20];

function sectionLines({ columns, entries }: Section): readonly string[] {
  if (columns === null) return entries.flatMap(entryLines);
  const rows = entries.map(({ cells }) => cells.map((cell) => plainInline(cell)));
  return textTable(
    columns.map((title) => ({ title: title.toUpperCase() })),
    rows.map((cells) => cells.map((cell, index) => clipped(cell, WIDEST_CELLS[index] ?? PAGE_COLUMNS))),
  );
}

function entryLines({ cells: [head = []], details }: Entry): readonly string[] {
  const below =
    details === undefined
      ? []
      : "points" in details
        ? details.points.flatMap((point) => pointLines(point, "    "))
        : details.hunk.flatMap(hunkLines);
  return [...pointLines(head, "  "), ...below];
}

function pointLines(inline: Inline, margin: string): readonly string[] {
  const [first = "", ...rest] = wrapped(plainInline(inline), `${margin}  `);
  return [`${margin}- ${first.trimStart()}`, ...rest];
}

const HUNK_MARGIN = "      ";

/** A longer line goes on below, with the sign of its first part. */
function hunkLines(line: string): readonly string[] {
  const [sign = " ", text] = line.startsWith("@@") ? ["", visible(line)] : [line[0], visible(line.slice(1))];
  const width = PAGE_COLUMNS - HUNK_MARGIN.length - sign.length;
  return pieces(text, width).map((part) => `${HUNK_MARGIN}${sign}${part}`.trimEnd());
}

/** Wrapped at spaces, and within words that are longer than a line behind their own marks. */
function wrapped(text: string, margin: string): readonly string[] {
  const width = PAGE_COLUMNS - margin.length;
  const short = text
    .split(" ")
    .flatMap((word) => (word.length > width ? wordPieces(word, width) : [word]))
    .join(" ");
  return wrapText(short, width).map((line) => `${margin}${line}`.trimEnd());
}

/** `registry.example.org/room/services:1a2b` as `registry.example.org/room/`, `services:`, `1a2b`, as many as fit together. */
function wordPieces(word: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const part of word.split(/(?<=[/:@,;=])/).flatMap((one) => pieces(one, width))) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + part.length <= width) lines[lines.length - 1] = last + part;
    else lines.push(part);
  }
  return lines;
}

function pieces(text: string, width: number): readonly string[] {
  const parts: string[] = [];
  for (let start = 0; start === 0 || start < text.length; start += width)
    parts.push(text.slice(start, start + width));
  return parts;
}
