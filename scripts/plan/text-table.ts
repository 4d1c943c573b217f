/** Tables and figures as text, for terminals and pipes alike. */
import { stripVTControlCharacters } from "node:util";

/** Where there is no terminal, and the environment says nothing. */
const DEFAULT_COLUMNS = 80;
/** Below it tables have no room for their last column; above it lines are too long to read. */
const [LEAST_COLUMNS, MOST_COLUMNS] = [60, 120];

/** Columns that every output of the plan keeps to: those that `COLUMNS` says, or the terminal has. */
export const PAGE_COLUMNS = pageColumns(process.env.COLUMNS, process.stdout.columns);

/**
 * @param said - What `COLUMNS` says.
 * @param terminal - undefined where there is none.
 */
export function pageColumns(said: string | undefined, terminal: number | undefined): number {
  return Math.min(MOST_COLUMNS, Math.max(LEAST_COLUMNS, Number(said) || terminal || DEFAULT_COLUMNS));
}

/** Part of a report: a heading and the lines below it. */
export interface Section {
  readonly title: string;
  readonly lines: readonly string[];
}

interface Column {
  readonly title: string;
  /** @default "left" */
  readonly align?: "left" | "right";
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
 * @param rows - Cells by row; a missing cell is empty.
 */
export function textTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  { indent = 2, width = PAGE_COLUMNS }: TableOptions = {},
): string[] {
  const fixed = columns.slice(0, -1);
  const widths = fixed.map(({ title }, index) =>
    Math.max(title.length, ...rows.map((row) => (row[index] ?? "").length)),
  );
  const used = indent + widths.reduce((sum, each) => sum + each + GAP.length, 0);
  const margin = " ".repeat(indent);
  const lines = (cells: readonly string[]): string[] => {
    const head = fixed.map(({ align }, index) => {
      const cell = cells[index] ?? "";
      return align === "right" ? cell.padStart(widths[index] ?? 0) : cell.padEnd(widths[index] ?? 0);
    });
    const [first = "", ...rest] = wrapText(cells[fixed.length] ?? "", Math.max(20, width - used));
    return [
      `${margin}${[...head, first].join(GAP)}`.trimEnd(),
      ...rest.map((part) => `${" ".repeat(used)}${part}`),
    ];
  };
  return [lines(columns.map(({ title }) => title)), ...rows.map(lines)].flat();
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
  const margin = " ".repeat(indent);
  return wrapText(text, PAGE_COLUMNS - indent).map((line) => `${margin}${line}`);
}

/** `1234567.891` with two digits as `1,234,567.89`, the same in every locale. */
export function figure(value: number, digits: number): string {
  const [whole = "", fraction] = value.toFixed(digits).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** Seconds of an estimate as `45 s`, `12 min` or `2 h 5 min`; from 90 seconds on, it says no more than minutes. */
export function duration(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const rest = minutes % 60;
  return rest === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${rest} min`;
}
