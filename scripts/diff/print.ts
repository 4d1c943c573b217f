/** Reports as one comment of a pull request for all its stacks, and as text for terminals and pipes. */
import { code, counted, type Inline, markdownInline, plainInline, visible } from "../markdown.ts";
import { PAGE_COLUMNS, wrapText } from "../plan/text-table.ts";
import { type StackReport, stackReport } from "./report.ts";
import type { Entry, Section } from "./resource-report.ts";
import type { StackDiff } from "./types.ts";

/** GitHub takes at most 65,536, of which whoever posts the comment may need some. */
const MAX_CHARACTERS = 65_000;
/** What fits a phone's screen without much scrolling. */
const LONGEST_OPEN_CHARACTERS = 1_500;
const GAP = "\n\n";

/** Most entries of each section that are shown, and most points below an entry. */
interface Amounts {
  readonly open: number;
  readonly folded: number;
  readonly points: number;
}

/** The first with which a comment is short enough is taken; without any, verdicts stand alone. */
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
 * @returns At most `maxCharacters` UTF-16 code units where these are some thousands; same differences, same bytes.
 */
export function markdownComment(diffs: readonly StackDiff[], maxCharacters: number = MAX_CHARACTERS): string {
  const reports = diffs.map(stackReport);
  if (reports.length === 0) return "There is no stack to compare.\n";
  const comparisons = [...new Set(reports.map(({ comparison }) => markdownInline(comparison)))];
  const shared = comparisons.length === 1 ? comparisons : [];
  const verdicts = reports.map(({ stack, verdict }) => bullet([code(stack), ": ", ...verdict, "."]));
  const opening = [verdicts.join("\n"), ...shared];
  const changed = reports.filter(({ isUnchanged }) => !isUnchanged);
  const comments = AMOUNTS.map((amounts) => () => [
    ...opening,
    ...changed.flatMap((report) => stackParts(report, amounts, shared.length === 0)),
  ]);
  const least = () => [...opening, `_There is no room for more than ${counted(reports.length, "verdict")}._`];
  for (const parts of comments) {
    const comment = `${parts().join(GAP)}\n`;
    if (comment.length <= maxCharacters) return comment;
  }
  return `${least().join(GAP)}\n`;
}

function stackParts(report: StackReport, amounts: Amounts, hasOwnComparison: boolean): readonly string[] {
  const { stack, comparison, notes, sections, command } = report;
  const rest = ["What is left out here is in the run's artifact, and in what ", code(command), " prints."];
  const shown = sections.map((section) => sectionText(section, amounts));
  return [
    `### Stack ${markdownInline([code(stack)])}`,
    ...[...(hasOwnComparison ? [comparison] : []), ...notes].map(markdownInline),
    ...shown.map(({ text }) => text),
    ...(shown.some(({ isCut }) => isCut) ? [markdownInline(rest)] : []),
  ];
}

function sectionText(
  { title, entries, isFolded = false }: Section,
  { open, folded, points }: Amounts,
): { readonly text: string; readonly isCut: boolean } {
  const most = isFolded ? folded : open;
  const lines = [
    ...entries.slice(0, most).flatMap((entry) => entryLines(entry, points)),
    ...(entries.length > most ? [leftOut(entries.length - most)] : []),
  ];
  const body = lines.join("\n");
  const hasTitleOnly = isFolded || body.length > LONGEST_OPEN_CHARACTERS;
  return {
    text: hasTitleOnly
      ? `<details><summary>${title} (${entries.length})</summary>${GAP}${body}${GAP}</details>`
      : `#### ${title}${GAP}${body}`,
    isCut: entries.length > most || entries.some((entry) => (entry.points?.length ?? 0) > points),
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
 * All that the change does.
 *
 * @returns Lines of at most {@link PAGE_COLUMNS} characters, but for words that are longer, so that they can be copied whole.
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
