/**
 * Text within a line, written once for terminals and for GitHub: reports of `diff`, and what jobs write into summaries, comments
 * and issues. Names and values come from stack files, programs and pull requests, and are data: neither markup nor escape codes,
 * mentions or links of them take effect.
 */

/** Prose; something literal; or what must be seen first. */
type Span = string | { readonly code: string } | { readonly strong: string };
export type Inline = readonly Span[];

/** A value, path or name, shown as it is. */
export function code(text: string): Span {
  return { code: text };
}

export function strong(text: string): Span {
  return { strong: text };
}

/** Parts with something between them. */
export function joined(parts: readonly Inline[], separator: string): Inline {
  return parts.flatMap((part, index) => (index === 0 ? part : [separator, ...part]));
}

/** `1 model`, `2 models`. */
export function counted(count: number, singular: string, plural = `${singular}s`): string {
  return `${count} ${count === 1 ? singular : plural}`;
}

/** A text of others of at most so many characters, and `…` where it was longer. */
export function clipped(text: string, characters: number): string {
  return text.length > characters ? `${text.slice(0, characters)}…` : text;
}

const SHORT_ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Control and format characters, such as escape codes and changes of direction, as the escapes that JSON has for them. */
export function visible(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
    (character) =>
      SHORT_ESCAPES[character] ??
      Array.from(
        { length: character.length },
        (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`,
      ).join(""),
  );
}

/** Prose in one line. */
function prose(text: string): string {
  return visible(text.replaceAll(/\s+/g, " "));
}

/** For terminals, in one line. */
export function plainInline(inline: Inline): string {
  return inline
    .map((span) =>
      typeof span === "string" ? prose(span) : "code" in span ? visible(span.code) : prose(span.strong),
    )
    .join("");
}

/** For GitHub, in paragraphs and points, which a mark at the beginning would turn into headings or points of their own. */
export function markdownInline(inline: Inline): string {
  return inline
    .map(markdownSpan)
    .join("")
    .replace(/^\s*([#+=:-])/, String.raw`\$1`)
    .replace(/^\s*(\d+)([.)])/, String.raw`$1\$2`);
}

function markdownSpan(span: Span): string {
  if (typeof span === "string") return markdownProse(span);
  return "code" in span ? codeSpan(span.code) : `**${markdownProse(span.strong)}**`;
}

/** For GitHub, in a table, where a pipe ends the cell also within code. */
function markdownCell(inline: Inline): string {
  return inline
    .map((span) => {
      const markdown = markdownSpan(span);
      return typeof span === "object" && "code" in span ? markdown.replaceAll("|", String.raw`\|`) : markdown;
    })
    .join("");
}

/** What stands between backticks is code, as in every sentence of this project. */
function markdownProse(text: string): string {
  return prose(text)
    .split(/`([^`]+)`/)
    .map((part, index) =>
      index % 2 === 1 ? codeSpan(part) : part.replaceAll(/[^ ]+/g, (word) => markdownWord(word)),
    )
    .join("");
}

/**
 * GitHub looks for mentions, links, issues, commits and emoji after Markdown is parsed, where no backslash helps; within
 * code it looks for nothing.
 */
const ACTIVE = /@|#\d|\/\/|www\.|\bGH-\d|:[\w+-]+:|\b[0-9a-f]{7,40}\b/i;

function markdownWord(word: string): string {
  if (!ACTIVE.test(word)) return escapedWord(word);
  const [, before = "", inner = "", after = ""] = /^(["'(]*)(.*?)([.,;:!?)"']*)$/s.exec(word) ?? [];
  return ACTIVE.test(inner)
    ? `${escapedWord(before)}${codeSpan(inner)}${escapedWord(after)}`
    : codeSpan(word);
}

function escapedWord(word: string): string {
  return word.replaceAll(/[\\`*_[\]<>&~|$]/g, String.raw`\$&`);
}

function codeSpan(text: string): string {
  const shown = visible(text);
  if (shown.trim() === "") return '""';
  const fence = "`".repeat(longestRun(shown) + 1);
  const pad = /^`|`$|^ .* $/.test(shown) ? " " : "";
  return `${fence}${pad}${shown}${pad}${fence}`;
}

/** Lines as a block of code that no line of them can end. */
export function codeBlock(language: string, lines: readonly string[]): string {
  const text = lines.map(visible).join("\n");
  const fence = "`".repeat(Math.max(3, longestRun(text) + 1));
  return `${fence}${language}\n${text}\n${fence}`;
}

function longestRun(text: string): number {
  return Math.max(0, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
}

/** A row of a table. */
export function markdownRow(cells: readonly Inline[]): string {
  return `| ${cells.map(markdownCell).join(" | ")} |`;
}
