/** One comment of a pull request for all its stacks. */
import type { StackDiff } from "../types.ts";
import { code, counted, type Inline, markdownInline } from "./inline.ts";
import { renderSection } from "./markdown-section.ts";
import { listSection, type Section, type StackReport } from "./section.ts";
import { shares } from "./shares.ts";
import { stackReport } from "./stack-report.ts";
import { isUnchanged } from "./verdict.ts";

/** GitHub takes at most 65,536, of which whoever posts the comment may need some. */
const MAX_CHARACTERS = 65_000;

/** What verdicts may take of a comment, and what resources have at least where they need it. */
const MOST_SUMMARY_PART = 0.25;
const LEAST_DETAIL_PART = 0.4;

/**
 * Verdicts first, then each stack that changes. Where there is no room for all, the longest sections are cut, those of
 * resources before the others, and each says how much is missing.
 *
 * @param diffs - In the order in which they are shown.
 * @returns At most `maxCharacters` UTF-16 code units where these are some thousands; same differences, same bytes.
 */
export function markdownComment(diffs: readonly StackDiff[], maxCharacters: number = MAX_CHARACTERS): string {
  const reports = diffs.map((diff) => ({ diff, report: stackReport(diff) }));
  const all = reports.map(({ report }) => report);
  const comparisons = new Set(all.map(({ comparison }) => markdownInline(comparison)));
  const isShared = comparisons.size === 1;
  const opening = [
    verdicts(all, Math.floor(maxCharacters * MOST_SUMMARY_PART)),
    ...(isShared ? comparisons : []),
  ].join(GAP);
  const changed = reports
    .filter(({ diff }) => !isUnchanged(diff))
    .map(
      ({ report }): TitledReport => ({
        ...report,
        notes: [...(isShared ? [] : [report.comparison]), ...report.notes],
        title: reports.length === 1 ? null : stackTitle(report),
      }),
    );
  const bodies = stackBodies(changed, maxCharacters - opening.length - GAP.length);
  return `${[opening, ...bodies].join(GAP)}\n`;
}

const GAP = "\n\n";

function stackTitle({ stack }: StackReport): string {
  return `### Stack ${markdownInline([code(stack)])}`;
}

function verdicts(reports: readonly StackReport[], room: number): string {
  const [first, ...others] = reports;
  if (first === undefined) return "There is no stack to compare.";
  if (others.length === 0) return `${stackTitle(first)}${GAP}${markdownInline(sentence(first.verdict))}`;
  const items = reports.map(({ stack, verdict }): Inline => [code(stack), ": ", ...sentence(verdict)]);
  const [section] = listSection("", items, { folded: "never" });
  return section === undefined ? "" : renderSection(section, room).markdown;
}

function sentence(verdict: Inline): Inline {
  return [...verdict, "."];
}

interface TitledReport extends StackReport {
  /** null: the comment is about one stack, whose title stands above the verdict. */
  readonly title: string | null;
}

/** As many stacks as have room for their frames; the others are counted. */
function stackBodies(reports: readonly TitledReport[], room: number): readonly string[] {
  const least = reports.map((report) => bodyOf(report, 0).length + GAP.length);
  const most = otherStacks(reports.length).length + GAP.length;
  let used = most;
  const count = least.findIndex((size) => {
    used += size;
    return used > room;
  });
  const shown = count === -1 ? reports : reports.slice(0, count);
  const sections = shown.flatMap((report) => report.sections);
  const frames = least.slice(0, shown.length).reduce((sum, size) => sum + size, most);
  const extra = extraRooms(sections, room - frames);
  const bodies = shown.map((report) => bodyOf(report, extra));
  return count === -1 ? bodies : [...bodies, otherStacks(reports.length - count)];
}

function otherStacks(count: number): string {
  return `_There is no room for more than the verdict of ${counted(count, "other stack")}._`;
}

type Rooms = ReadonlyMap<Section, number>;

/** What each section gets besides its frame: resources share what all others leave, and at least their part. */
function extraRooms(sections: readonly Section[], room: number): Rooms {
  const wanted = new Map(
    sections.map((section) => [section, size(section, Number.POSITIVE_INFINITY) - size(section, 0)]),
  );
  const [facts, details] = [false, true].map((isDetail) =>
    sections.filter((section) => section.isDetail === isDetail),
  ) as [Section[], Section[]];
  const want = (some: readonly Section[]) => some.map((section) => wanted.get(section) ?? 0);
  const total = (sizes: readonly number[]) => sizes.reduce((sum, each) => sum + each, 0);
  const held = Math.min(total(want(details)), Math.floor(room * LEAST_DETAIL_PART));
  const ofFacts = shares(want(facts), room - held);
  const ofDetails = shares(want(details), room - total(ofFacts));
  return new Map([
    ...facts.map((section, index) => [section, ofFacts[index] ?? 0] as const),
    ...details.map((section, index) => [section, ofDetails[index] ?? 0] as const),
  ]);
}

function size(section: Section, room: number): number {
  return renderSection(section, room).markdown.length;
}

/** @param extra - Room of each section besides its frame; 0: none of them has any. */
function bodyOf({ title, notes, sections, command }: TitledReport, extra: Rooms | 0): string {
  const rendered = sections.map((section) =>
    renderSection(section, extra === 0 ? 0 : size(section, 0) + (extra.get(section) ?? 0)),
  );
  const all: Inline = [
    "What is left out here is in the run's artifact, and in what ",
    code(command),
    " prints.",
  ];
  return [
    ...(title === null ? [] : [title]),
    ...notes.map(markdownInline),
    ...rendered.map(({ markdown }) => markdown),
    ...(rendered.some(({ isCut }) => isCut) ? [markdownInline(all)] : []),
  ].join(GAP);
}
