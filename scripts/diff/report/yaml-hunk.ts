/** An object before and after as people write it, and the lines of it that differ. */
import { structuredPatch } from "diff";
import { stringify } from "yaml";

const CONTEXT_LINES = 2;
/** Longer lines are cut around what differs in them. */
const LONGEST_LINE = 160;

/**
 * Lines of a unified diff. Each hunk begins with the keys above it, and is indented no more than it must be: phones have
 * room for some 35 characters.
 *
 * @param before - Inputs with secrets masked.
 */
export function yamlHunk(before: object, after: object): readonly string[] {
  const [old, now] = [yamlText(before), yamlText(after)];
  const { hunks } = structuredPatch("", "", old, now, undefined, undefined, { context: CONTEXT_LINES });
  const [oldLines, newLines] = [old.split("\n"), now.split("\n")];
  return hunks.flatMap(({ oldStart, newStart, lines: changed }) => {
    const first = changed.findIndex((line) => !line.startsWith(" "));
    const [lines, start] = changed[first]?.startsWith("-") ? [oldLines, oldStart] : [newLines, newStart];
    const above = keysAbove(lines, start - 1 + first);
    const ofText = changed.filter((line) => !line.startsWith("\\"));
    return [
      ["@@", ...(above.length === 0 ? [] : [above.join(" / ")]), "@@"].join(" "),
      ...shortened(outdented(ofText)),
    ];
  });
}

/** Keys in one order whatever the program's is. */
function yamlText(inputs: object): string {
  return stringify(readable(inputs), {
    sortMapEntries: true,
    lineWidth: 0,
    blockQuote: "literal",
    aliasDuplicateObjects: false,
  });
}

/** JSON within a text, such as a file of a ConfigMap, a value a line. */
function readable(value: unknown): unknown {
  if (typeof value === "string") return jsonLines(value);
  if (Array.isArray(value)) return value.map(readable);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, readable(inner)]));
  return value;
}

function jsonLines(text: string): string {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return `${JSON.stringify(JSON.parse(text), null, 2)}\n`;
  } catch {
    return text;
  }
}

/** Keys of the mappings in which a line stands, outermost first. */
function keysAbove(lines: readonly string[], index: number): readonly string[] {
  const keys: string[] = [];
  let indent = indentation(lines[index] ?? "");
  for (let above = index - 1; above >= 0 && indent > 0; above--) {
    const line = lines[above] ?? "";
    if (line.trim() === "" || indentation(line) >= indent) continue;
    indent = indentation(line);
    const [, key] = /^\s*(?:- )*"?([^":]+)"?:/.exec(line) ?? [];
    // Brackets of JSON have none.
    if (key !== undefined) keys.unshift(key);
  }
  return keys;
}

function indentation(line: string): number {
  return line.length - line.trimStart().length;
}

/** The sign stays, and what all lines are indented by goes. */
function outdented(lines: readonly string[]): readonly string[] {
  const filled = lines.filter((line) => line.slice(1).trim() !== "");
  const common = Math.min(...filled.map((line) => indentation(line.slice(1))));
  return lines.map((line) => `${line[0]}${line.slice(1 + common)}`);
}

/** A line that was taken out and the one that came in its place are cut at the same column. */
function shortened(lines: readonly string[]): readonly string[] {
  const others = counterparts(lines);
  return lines.map((line, index) =>
    line.length <= LONGEST_LINE
      ? line
      : `${line[0]}${excerpt(line.slice(1), lines[others.get(index) ?? -1]?.slice(1) ?? "", LONGEST_LINE)}`,
  );
}

/** Of the n-th of a run of removed lines the n-th of the added ones that follow, and the other way round. */
function counterparts(lines: readonly string[]): ReadonlyMap<number, number> {
  const pairs = new Map<number, number>();
  const run = (start: number, sign: string) => {
    const length = lines.slice(start).findIndex((line) => !line.startsWith(sign));
    return length === -1 ? lines.length - start : length;
  };
  for (let start = 0; start < lines.length; ) {
    const removed = run(start, "-");
    const added = run(start + removed, "+");
    for (let place = 0; place < Math.min(removed, added); place += 1) {
      pairs.set(start + place, start + removed + place);
      pairs.set(start + removed + place, start + place);
    }
    start += Math.max(1, removed + added);
  }
  return pairs;
}

const LEAD = 30;

/** So many characters of a text, from shortly before it differs from another one. */
export function excerpt(text: string, other: string, characters: number): string {
  if (text.length <= characters) return text;
  let first = 0;
  while (first < text.length && text[first] === other[first]) first++;
  const latest = text.length - characters;
  const start = other === "" ? 0 : Math.min(Math.max(0, first - LEAD), latest);
  const end = start + characters;
  return `${start > 0 ? "…" : ""}${text.slice(start, end)}${end < text.length ? "…" : ""}`;
}
