/** Reports as one comment of a pull request for all its stacks, and as text for terminals and pipes. */
import { counted } from "../../infra/problems.ts";
import { characters, code, type Inline, markdownInline, plainInline, visible } from "../markdown.ts";
import { PAGE_COLUMNS, wrapText } from "../plan/text-table.ts";
import { type StackReport, stackReport } from "./report.ts";
import type { Entry, Section } from "./resource-report.ts";
import type { StackDiff } from "./types.ts";

/** GitHub accepts at most 65,536, of which the rest of the comment may need some. */
const MAX_CHARACTERS = 65_000;
/** Limit for a stack's open sections: with its verdict and titles it is one screen, 2,500 characters at most. */
const OPEN_CHARACTERS = 1_600;
/** Further entries of a section are below its title. */
const OPEN_ENTRIES = 6;
const OPEN_POINTS = 4;
const GAP = "\n\n";

/** Maximum entries of each section that are shown, and maximum points below an entry. */
interface Amounts {
  readonly open: number;
  readonly folded: number;
  readonly points: number;
}

/** The first row that makes a comment short enough is used; without any, only verdicts are shown. */
const AMOUNTS: readonly Amounts[] = [
  { open: 1000, folded: 1000, points: 40 },
  { open: 1000, folded: 100, points: 10 },
  { open: 1000, folded: 50, points: 3 },
  { open: 1000, folded: 30, points: 0 },
  { open: 1000, folded: 0, points: 3 },
  { open: 20, folded: 0, points: 0 },
  { open: 3, folded: 0, points: 0 },
];

/**
 * Verdicts first, then each stack that changes.
 *
 * @param diffs - In the order in which they are shown.
 * @returns At most `maxCharacters` UTF-16 code units if these are some thousands; same differences, same bytes.
 */
export function markdownComment(diffs: readonly StackDiff[], maxCharacters: number = MAX_CHARACTERS): string {
  const reports = diffs.map(stackReport);
  if (reports.length === 0) return "There is no stack to compare.\n";
  const comparisons = [...new Set(reports.map(({ comparison }) => markdownInline(comparison)))];
  const shared = comparisons.length === 1 ? comparisons : [];
  const verdicts = reports.map(({ stack, verdict }) => bullet([code(stack), ": ", ...verdict, "."]));
  const opening = [verdicts.join("\n"), ...shared];
  const changed = reports.filter(({ isUnchanged }) => !isUnchanged);
  for (const amounts of AMOUNTS) {
    // Text that does not fit may take minutes to write.
    if (changed.reduce((sum, report) => sum + shownCharacters(report, amounts), 0) > maxCharacters) continue;
    const parts = changed.flatMap((report) => stackParts(report, amounts, shared.length === 0));
    const comment = `${[...opening, ...parts].join(GAP)}\n`;
    if (comment.length <= maxCharacters) return comment;
  }
  const least = `_There is no room for more than ${counted(reports.length, "verdict")}._`;
  return `${[...opening, least].join(GAP)}\n`;
}

function shownCharacters({ sections }: StackReport, { open, folded, points: most }: Amounts): number {
  const shown = sections.flatMap(({ entries, isFolded }) => entries.slice(0, isFolded ? folded : open));
  return shown
    .flatMap(({ text, points = [] }) => [text, ...points.slice(0, most)])
    .reduce((sum, inline) => sum + characters(inline), 0);
}

function stackParts(report: StackReport, amounts: Amounts, hasOwnComparison: boolean): readonly string[] {
  const { stack, comparison, notes, sections, whole } = report;
  const rest = ["The rest ", ...whole];
  let room = OPEN_CHARACTERS;
  const shown = sections.map((section) => {
    const { entries, rest: further } = openEntries(section, amounts);
    const characters = entries.reduce((sum, entry) => sum + entryCharacters(entry), section.title.length);
    const most = section.isFolded ? amounts.folded : amounts.open;
    if (entries.length === 0 || characters > room)
      return foldedText(section.title, section.entries, most, amounts.points);
    room -= characters;
    const lines = entries.flatMap((entry) => entryLines(entry, Math.min(amounts.points, OPEN_POINTS)));
    const below =
      further.length === 0 ? null : foldedText(`${section.title}, the others`, further, most, amounts.points);
    return {
      text: [`#### ${section.title}`, lines.join("\n"), ...(below === null ? [] : [below.text])].join(GAP),
      isCut: below?.isCut || entries.some((entry) => isCutAt(entry, Math.min(amounts.points, OPEN_POINTS))),
    };
  });
  return [
    `### Stack ${markdownInline([code(stack)])}`,
    ...[...(hasOwnComparison ? [comparison] : []), ...notes].map(markdownInline),
    ...shown.map(({ text }) => text),
    ...(shown.some(({ isCut }) => isCut) ? [markdownInline(rest)] : []),
  ];
}

/** By number only, so that the length of names does not decide which entries are shown. */
function openEntries({ entries, isFolded = false }: Section, { open }: Amounts) {
  if (isFolded) return { entries: [], rest: entries };
  const most = entries.length > OPEN_ENTRIES + 1 ? Math.min(open, OPEN_ENTRIES) : entries.length;
  return { entries: entries.slice(0, most), rest: entries.slice(most) };
}

/** In the form that a reader sees. */
function entryCharacters({ text, points = [] }: Entry): number {
  return [text, ...points.slice(0, OPEN_POINTS)].reduce((sum, inline) => sum + plainInline(inline).length, 0);
}

function isCutAt({ points = [] }: Entry, most: number): boolean {
  return points.length > most;
}

function foldedText(title: string, entries: readonly Entry[], most: number, points: number) {
  const lines = [
    ...entries.slice(0, most).flatMap((entry) => entryLines(entry, points)),
    ...(entries.length > most ? [leftOut(entries.length - most)] : []),
  ];
  return {
    text: `<details><summary>${title} (${entries.length})</summary>${GAP}${lines.join("\n")}${GAP}</details>`,
    isCut: entries.length > most || entries.some((entry) => isCutAt(entry, points)),
  };
}

function entryLines({ text, points = [] }: Entry, most: number): readonly string[] {
  return [
    bullet(text),
    ...points.slice(0, most).map((point) => `  ${bullet(point)}`),
    ...(points.length > most ? [`  ${leftOut(points.length - most)}`] : []),
  ];
}

function bullet(inline: Inline): string {
  return `- ${markdownInline(inline)}`;
}

function leftOut(count: number): string {
  return `- _${count} more_`;
}

/**
 * Prints the whole change.
 *
 * @returns Lines of at most {@link PAGE_COLUMNS} characters, except for longer words, so that they can be copied whole.
 */
export function textReport(diff: StackDiff): string {
  const { stack, verdict, comparison, notes, sections } = stackReport(diff);
  const lines = [
    `Stack ${visible(stack)}: ${plainInline(verdict)}`,
    ...[comparison, ...notes].map(plainInline),
  ].flatMap((line) => wrapText(line, PAGE_COLUMNS));
  const parts = sections.flatMap(({ title, entries }) => [
    "",
    title,
    ...entries.flatMap(({ text, points = [] }) => [
      ...pointLines(text, "  "),
      ...points.flatMap((point) => pointLines(point, "    ")),
    ]),
  ]);
  return `${[...lines, ...parts].join("\n")}\n`;
}

function pointLines(inline: Inline, margin: string): readonly string[] {
  const [first = "", ...rest] = wrapText(plainInline(inline), PAGE_COLUMNS - margin.length - 2);
  return [`${margin}- ${first}`, ...rest.map((line) => `${margin}  ${line}`)].map((line) => line.trimEnd());
}
