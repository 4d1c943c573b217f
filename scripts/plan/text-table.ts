/** Tables and figures as text, for terminals and pipes alike. */
import { stripVTControlCharacters } from "node:util";

/** Columns that every output of the plan keeps to: `COLUMNS`, else those of the terminal, else 80. */
export const PAGE_COLUMNS = pageColumns(process.env.COLUMNS, process.stdout.columns);

/**
 * Below 60 columns tables have no room for their last column; above 120 lines are too long to read.
 *
 * @param said - `COLUMNS`. @param terminal - Columns of the terminal; undefined without a terminal.
 */
export function pageColumns(said: string | undefined, terminal: number | undefined): number {
  return Math.min(120, Math.max(60, Number(said) || terminal || 80));
}

interface TableOptions {
  /** Spaces before each line. @default 2 */
  readonly indent?: number;
  /** @default {@link PAGE_COLUMNS} */
  readonly width?: number;
}

const GAP = "  ";

/**
 * A table whose columns are as wide as their cells; the last one is left-aligned and wraps at spaces, so that no line is
 * wider than the page unless a single word is.
 *
 * @param columns - Titles; `>` before a title aligns its column at the right.
 * @param rows - Cells by row; a missing cell is empty.
 */
export function textTable(
  columns: readonly string[],
  rows: readonly (readonly string[])[],
  { indent = 2, width = PAGE_COLUMNS }: TableOptions = {},
): string[] {
  const titles = columns.map((column) => column.replace(/^>/, ""));
  const last = columns.length - 1;
  const widths = titles
    .slice(0, last)
    .map((title, index) => Math.max(title.length, ...rows.map((row) => (row[index] ?? "").length)));
  const used = indent + widths.reduce((sum, each) => sum + each + GAP.length, 0);
  const lines = (cells: readonly string[]): string[] => {
    const head = widths.map((size, index) => {
      const cell = cells[index] ?? "";
      return columns[index]?.startsWith(">") ? cell.padStart(size) : cell.padEnd(size);
    });
    const [first = "", ...rest] = wrapText(cells[last] ?? "", Math.max(20, width - used));
    return [
      `${" ".repeat(indent)}${[...head, first].join(GAP)}`.trimEnd(),
      ...rest.map((part) => `${" ".repeat(used)}${part}`),
    ];
  };
  return [titles, ...rows].flatMap(lines);
}

/** Text in lines of at most `width` characters, broken at spaces; a longer word has a line of its own, and colour no width. */
export function wrapText(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (stripVTControlCharacters(longer).length <= width || line === "") {
      line = longer;
    } else {
      lines.push(line);
      line = word;
    }
  }
  return [...lines, line];
}

/** A paragraph with a margin, wrapped to the page. */
export function paragraph(text: string, indent = 2): string[] {
  return wrapText(text, PAGE_COLUMNS - indent).map((line) => `${" ".repeat(indent)}${line}`);
}

/** `1234567.891` with two digits as `1,234,567.89`, the same in every locale. */
export function figure(value: number, digits: number): string {
  const [whole = "", fraction] = value.toFixed(digits).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** The time that {@link duration} shows. */
export function shownSeconds(seconds: number): number {
  return seconds < 90 ? Math.round(seconds) : 60 * Math.round(seconds / 60);
}

/** Seconds of an estimate as `45 s`, `12 min` or `2 h 5 min`; from 90 seconds on, it says no more than minutes. */
export function duration(seconds: number): string {
  const shown = shownSeconds(seconds);
  if (seconds < 90) return `${shown} s`;
  const minutes = shown / 60;
  if (minutes < 90) return `${minutes} min`;
  const rest = minutes % 60;
  return rest === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${rest} min`;
}
