/** A section of a comment, within the room that it has. */
import { codeBlock, counted, markdownCell, markdownInline } from "./inline.ts";
import type { Entry, Section } from "./section.ts";

/** What fits a phone's screen without much scrolling. */
const LONGEST_OPEN_CHARACTERS = 1_500;
const MOST_HUNK_LINES = 80;

interface Forms {
  /** Without what is below it. */
  readonly short: string;
  readonly full: string;
}

interface RenderedSection {
  readonly markdown: string;
  /** Whether entries or what is below them are missing. */
  readonly isCut: boolean;
}

/**
 * @param room - UTF-16 code units. The frame of the section, with a sentence that says how much is missing, is there
 *   with less room too.
 */
export function renderSection(section: Section, room: number): RenderedSection {
  const forms = section.entries.map((entry) => entryForms(entry, section));
  const whole = framed(
    section,
    forms,
    forms.map(({ full }) => full),
  );
  if (whole.length <= room) return { markdown: whole, isCut: false };
  const { length } = forms;
  const most = framed(section, forms, [], missing(length, length));
  let left = room - most.length;
  const take = (text: string, instead = 0): boolean => {
    const fits = text.length - instead <= left;
    if (fits) left -= text.length - instead;
    return fits;
  };
  const gap = separator(section).length;
  const kept = forms.filter(({ short }) => take(short, -gap));
  const shown = kept.map(({ short, full }) => (take(full, short.length) ? full : short));
  const shortened = kept.filter(({ full }, index) => shown[index] !== full).length;
  return { markdown: framed(section, forms, shown, missing(length - kept.length, shortened)), isCut: true };
}

function missing(leftOut: number, shortened: number): string {
  const parts = [
    ...(leftOut === 0 ? [] : [`${counted(leftOut, "more is", "more are")} left out here`]),
    ...(shortened === 0 ? [] : [`${counted(shortened, "is", "are")} shown without what changes in them`]),
  ];
  return `_${parts.join(", and ")}._`;
}

function framed(section: Section, forms: readonly Forms[], shown: readonly string[], note?: string): string {
  const { title, columns } = section;
  const head = columns === null ? [] : [row(columns), row(columns.map(() => "---"))];
  const entries = [...head, ...shown].join(separator(section));
  const body = [entries, ...(note === undefined ? [] : [note])].filter((part) => part !== "").join("\n\n");
  if (!isFolded(section, forms)) return title === "" ? body : `#### ${title}\n\n${body}`;
  return `<details><summary>${title} (${forms.length})</summary>\n\n${body}\n\n</details>`;
}

function isFolded({ folded }: Section, forms: readonly Forms[]): boolean {
  if (folded !== "long") return folded === "always";
  return forms.reduce((sum, { full }) => sum + full.length, 0) > LONGEST_OPEN_CHARACTERS;
}

/** Blocks stand apart; points and rows do not. */
function separator({ isDetail, entries }: Section): string {
  return isDetail && entries.some(({ details }) => details !== undefined) ? "\n\n" : "\n";
}

function entryForms({ cells, details }: Entry, { columns, isDetail }: Section): Forms {
  if (columns !== null) return alike(row(cells.map(markdownCell)));
  const head = markdownInline(cells[0] ?? []);
  if (details === undefined) return alike(`- ${head}`);
  // Within a point, a phone would have no width left for a block.
  if ("hunk" in details)
    return { short: head, full: `${head}\n${codeBlock("diff", shortHunk(details.hunk))}` };
  const [mark, margin] = isDetail ? ["", ""] : ["- ", "  "];
  const points = details.points.map((point) => `${margin}- ${markdownInline(point)}`);
  return { short: `${mark}${head}`, full: [`${mark}${head}`, ...points].join("\n") };
}

function alike(text: string): Forms {
  return { short: text, full: text };
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

function shortHunk(lines: readonly string[]): readonly string[] {
  const more = lines.length - MOST_HUNK_LINES;
  return more > 0 ? [...lines.slice(0, MOST_HUNK_LINES), `… ${counted(more, "more line")}`] : lines;
}
