/** One comment of a pull request for all its stacks. */
import { code, codeBlock, counted, markdownInline, markdownRow } from "../../markdown.ts";
import type { StackDiff } from "../types.ts";
import type { Entry, Section, StackReport } from "./section.ts";
import { stackReport } from "./stack-report.ts";

/** GitHub takes at most 65,536, of which whoever posts the comment may need some. */
const MAX_CHARACTERS = 65_000;
/** What fits a phone's screen without much scrolling. */
const LONGEST_OPEN_CHARACTERS = 1_500;
const MOST_HUNK_LINES = 80;
const GAP = "\n\n";

/** How much of each section is shown. */
interface Amounts {
  /** Most resources whose changed properties are shown, and most resources. */
  readonly detailed: number;
  readonly resources: number;
  /** Most entries of every other section. */
  readonly facts: number;
}

/** From all to nothing but titles; the first with which a comment is short enough is taken. */
const AMOUNTS: readonly Amounts[] = [
  ...[Number.POSITIVE_INFINITY, 100, 50, 30, 20, 15, 10, 7, 5, 3, 2, 1, 0].map((detailed) => ({
    detailed,
    resources: Number.POSITIVE_INFINITY,
    facts: Number.POSITIVE_INFINITY,
  })),
  ...[100, 30, 10].map((most) => ({ detailed: 0, resources: most, facts: most })),
  { detailed: 0, resources: 0, facts: 10 },
  { detailed: 0, resources: 0, facts: 0 },
];

/**
 * Verdicts first, then each stack that changes. Where there is no room for all, entries are left out, those of resources before
 * the others, and each section says how many.
 *
 * @param diffs - In the order in which they are shown.
 * @returns At most `maxCharacters` UTF-16 code units where these are some thousands for each stack; same differences, same bytes.
 */
export function markdownComment(diffs: readonly StackDiff[], maxCharacters: number = MAX_CHARACTERS): string {
  const reports = diffs.map((diff) => withForms(stackReport(diff)));
  const comparisons = new Set(reports.map(({ comparison }) => markdownInline(comparison)));
  const isShared = comparisons.size === 1;
  const opening = [verdicts(reports), ...(isShared ? comparisons : [])];
  const bodies = (amounts: Amounts) =>
    reports
      .filter(({ isUnchanged }) => !isUnchanged)
      .map((report) => stackBody(report, { amounts, isAlone: reports.length === 1, isShared }))
      .filter((body) => body !== "");
  const comment = (parts: readonly string[]) => `${[...opening, ...parts].join(GAP)}\n`;
  const fits = (text: string) => text.length <= maxCharacters;
  for (const amounts of AMOUNTS) {
    const text = comment(bodies(amounts));
    if (fits(text)) return text;
  }
  const least = bodies(AMOUNTS.at(-1) as Amounts);
  const some = least.map((_, index) =>
    comment([...least.slice(0, least.length - index - 1), otherStacks(index + 1)]),
  );
  return some.find(fits) ?? comment([]);
}

function otherStacks(count: number): string {
  return `_There is no room for more than the verdict of ${counted(count, "other stack")}._`;
}

function stackTitle({ stack }: StackReport): string {
  return `### Stack ${markdownInline([code(stack)])}`;
}

function verdicts(reports: readonly StackReport[]): string {
  const [first, ...others] = reports;
  if (first === undefined) return "There is no stack to compare.";
  if (others.length === 0) return `${stackTitle(first)}${GAP}${markdownInline([...first.verdict, "."])}`;
  return reports
    .map(({ stack, verdict }) => `- ${markdownInline([code(stack), ": ", ...verdict, "."])}`)
    .join("\n");
}

/** A section with its entries as Markdown. */
interface FormedSection extends Section {
  /** Of each entry: with what is below it, and without. */
  readonly forms: readonly { readonly full: string; readonly short: string }[];
}

interface FormedReport extends StackReport {
  readonly sections: readonly FormedSection[];
}

function withForms(report: StackReport): FormedReport {
  const sections = report.sections.map((section) => ({
    ...section,
    forms: section.entries.map((entry) => ({
      full: entryText(entry, section),
      short: entryText({ cells: entry.cells }, section),
    })),
  }));
  return { ...report, sections };
}

interface BodyOptions {
  readonly amounts: Amounts;
  /** Whether the comment is about this stack alone, whose title stands above the verdict. */
  readonly isAlone: boolean;
  /** Whether all stacks were compared with the same. */
  readonly isShared: boolean;
}

function stackBody(report: FormedReport, { amounts, isAlone, isShared }: BodyOptions): string {
  const { comparison, notes, sections, command } = report;
  const shown = sections.map((section) => sectionText(section, amounts));
  const rest = ["What is left out here is in the run's artifact, and in what ", code(command), " prints."];
  return [
    ...(isAlone ? [] : [stackTitle(report)]),
    ...[...(isShared ? [] : [comparison]), ...notes].map(markdownInline),
    ...shown.map(({ text }) => text),
    ...(shown.some(({ isCut }) => isCut) ? [markdownInline(rest)] : []),
  ].join(GAP);
}

function sectionText(
  { title, columns, entries, folded, isDetail = false, forms }: FormedSection,
  { detailed, resources, facts }: Amounts,
): { readonly text: string; readonly isCut: boolean } {
  const shown = forms.slice(0, isDetail ? resources : facts);
  const parts = shown.map(({ full, short }, index) => (!isDetail || index < detailed ? full : short));
  const leftOut = entries.length - shown.length;
  const shortened = isDetail ? shown.slice(detailed).filter(({ full, short }) => full !== short).length : 0;
  const missing = [
    ...(leftOut === 0 ? [] : [`${counted(leftOut, "more is", "more are")} left out here`]),
    ...(shortened === 0 ? [] : [`${counted(shortened, "is", "are")} shown without what changes in them`]),
  ];
  const head =
    columns === undefined ? [] : [columns, columns.map(() => "---")].map((row) => `| ${row.join(" | ")} |`);
  // Blocks stand apart; points and rows do not.
  const hasBlocks = isDetail && entries.some(({ details }) => details !== undefined);
  const body = [
    [...head, ...parts].join(hasBlocks ? GAP : "\n"),
    missing.length === 0 ? "" : `_${missing.join(", and ")}._`,
  ]
    .filter((part) => part !== "")
    .join(GAP);
  const isFolded = folded === "always" || (folded !== "never" && body.length > LONGEST_OPEN_CHARACTERS);
  return {
    text: isFolded
      ? `<details><summary>${title} (${entries.length})</summary>${GAP}${body}${GAP}</details>`
      : `#### ${title}${GAP}${body}`,
    isCut: missing.length > 0,
  };
}

function entryText({ cells, details }: Entry, { columns, isDetail, entries }: Section): string {
  if (columns !== undefined) return markdownRow(cells);
  const head = markdownInline(cells[0] ?? []);
  // Within a point, a phone would have no width left for a block.
  const isBlock = isDetail === true && entries.some((entry) => entry.details !== undefined);
  const [mark, margin] = isBlock ? ["", ""] : ["- ", "  "];
  if (details === undefined) return `${mark}${head}`;
  if ("hunk" in details) return `${head}\n${codeBlock("diff", shortHunk(details.hunk))}`;
  const points = details.points.map((point) => `${margin}- ${markdownInline(point)}`);
  return [`${mark}${head}`, ...points].join("\n");
}

function shortHunk(lines: readonly string[]): readonly string[] {
  const more = lines.length - MOST_HUNK_LINES;
  return more > 0 ? [...lines.slice(0, MOST_HUNK_LINES), `… ${counted(more, "more line")}`] : lines;
}
