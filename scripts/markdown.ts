/**
 * The only module that writes Markdown for GitHub: reports of `diff`, and texts of jobs for summaries, comments and issues. Text within a
 * line is written for terminals too. Names and values come from stack files, programs and pull requests, and are data: markup, escape
 * codes, mentions and links in them have no effect.
 */

/** Prose; literal text; a warning; or an address that a job knows, with words of this program. */
type Span =
  | string
  | { readonly code: string }
  | { readonly strong: string }
  | { readonly words: string; readonly url: string };
export type Inline = readonly Span[];

/** A value, path or name, shown as it is. */
export function code(text: string): Span {
  return { code: text };
}

export function strong(text: string): Span {
  return { strong: text };
}

export function link(words: string, url: string): Span {
  return { words, url };
}

/** Parts with something between them. */
export function joined(parts: readonly Inline[], separator: string): Inline {
  return parts.flatMap((part, index) => (index === 0 ? part : [separator, ...part]));
}

/** Another author's text of at most so many characters, with `…` in place of the rest. */
export function clipped(text: string, characters: number): string {
  return text.length > characters ? `${text.slice(0, characters)}…` : text;
}

/** A longer text is not read in a comment, and may be there to keep the comment's job busy. */
const LONGEST_SPAN = 2_000;

function spanText(span: Span): string {
  if (typeof span === "string") return span;
  return "code" in span ? span.code : "url" in span ? span.words : span.strong;
}

/** Approximate number of characters of {@link markdownInline}, without creating them. */
export function characters(inline: Inline): number {
  return inline.reduce((sum, span) => sum + Math.min(spanText(span).length, LONGEST_SPAN), 0);
}

const SHORT_ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/**
 * Shows invisible characters, such as escape codes, changes of direction and fillers, as their escapes in JSON; likewise more than three
 * marks on one letter, which would cover the lines above and below.
 */
export function visible(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?<=\p{M}{3})\p{M}/gu,
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
  return withWholeProse(inline)
    .map((span) => {
      if (typeof span === "string") return prose(span);
      if ("code" in span) return visible(span.code);
      return "url" in span ? `${span.words} (${visible(span.url)})` : prose(span.strong);
    })
    .join("");
}

/**
 * For GitHub, in paragraphs and points; a mark at the beginning would turn it into a list or a new line. It is never empty: an empty point
 * turns the line above into a heading.
 */
export function markdownInline(inline: Inline): string {
  const text = written(withWholeProse(inline).flatMap(piecesOf)).trimStart();
  return text === "" ? NOTHING : text.replace(/^(\d*)([-+=:.)])/, String.raw`$1\$2`);
}

/** Placeholder for an empty text. */
const NOTHING = '""';

/** Joins prose next to prose: a word, and GitHub's references, may span both. */
function withWholeProse(inline: Inline): Inline {
  const whole: Span[] = [];
  for (const span of inline) {
    const last = whole.at(-1);
    if (typeof last === "string" && typeof span === "string") whole.splice(-1, 1, `${last}${span}`);
    else whole.push(span);
  }
  return whole;
}

/** Code, words as they are read, or Markdown of this file. */
type Piece = { readonly code: string } | { readonly words: string } | { readonly markdown: string };

function piecesOf(span: Span): readonly Piece[] {
  const text = clipped(spanText(span), LONGEST_SPAN);
  if (typeof span === "string") return prosePieces(text);
  if ("code" in span) return [{ code: text }];
  if ("strong" in span) {
    const words = written(prosePieces(text)).trim();
    return words === "" ? [] : [{ markdown: `**${words}**` }];
  }
  return ADDRESS.test(span.url)
    ? [{ markdown: `[${written(prosePieces(text))}](${span.url})` }]
    : [...prosePieces(`${text} (`), { code: clipped(span.url, LONGEST_SPAN) }, { words: ")" }];
}

/** An address without characters that end a link. */
const ADDRESS = /^https?:\/\/[\w.:/?=&%~-]+$/;

/** Text between backticks is code, as in every sentence of this project. */
function prosePieces(text: string): readonly Piece[] {
  return prose(text)
    .split(/`([^`]+)`/)
    .flatMap((part, index) => (index % 2 === 1 ? [{ code: part }] : part.split(/( )/).flatMap(wordPieces)));
}

/**
 * Text that Markdown or GitHub would interpret. A backslash is useless against GitHub, which looks for mentions, issues, commits, the
 * repository's own references (`ABC-1`), emoji and formulas in the parsed text, except in code.
 * https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/autolinked-references-and-urls
 */
const ACTIVE =
  /[`\\*_[\]<>&~|@#$]|\/\/|www\.|\.\p{L}{2}|:[\w+-]+:|\p{L}-\d|GHSA-|mailto:|\b[0-9a-f]{7,40}\b/iu;

/** A sum of money, whose sign can be escaped by a backslash. */
const MONEY = /^[+−-]?\$\d[\d,.]*$/u;

function wordPieces(word: string): readonly Piece[] {
  const [before = ""] = /^["'(]*/.exec(word) ?? [];
  const [after = ""] = /(?<![.,;:!?)"'])[.,;:!?)"']*$/.exec(word.slice(before.length)) ?? [];
  const inner = word.slice(before.length, word.length - after.length);
  if (MONEY.test(inner))
    return [{ words: before }, { markdown: inner.replace("$", String.raw`\$`) }, { words: after }];
  if (!ACTIVE.test(word)) return [{ words: word }];
  return ACTIVE.test(inner) ? [{ words: before }, { code: inner }, { words: after }] : [{ code: word }];
}

/** Joins code next to code: a parser would misread two adjacent runs of backticks. */
function written(pieces: readonly Piece[]): string {
  const merged: Piece[] = [];
  for (const piece of pieces.filter((one) => !("words" in one) || one.words !== "")) {
    const last = merged.at(-1);
    if (last !== undefined && "code" in last && "code" in piece)
      merged.splice(-1, 1, { code: `${last.code}${piece.code}` });
    else merged.push(piece);
  }
  return merged
    .map((piece) =>
      "code" in piece ? codeSpan(piece.code) : "words" in piece ? piece.words : piece.markdown,
    )
    .join("");
}

function codeSpan(text: string): string {
  const shown = visible(text);
  if (shown.trim() === "") return NOTHING;
  const fence = "`".repeat(longestRun(shown) + 1);
  const pad = /^`|`$|^ .* $/.test(shown) ? " " : "";
  return `${fence}${pad}${shown}${pad}${fence}`;
}

/** Lines as a block of code that none of them can end. */
export function codeBlock(language: string, lines: readonly string[]): string {
  const text = lines.map(visible).join("\n");
  const fence = "`".repeat(Math.max(3, longestRun(text) + 1));
  return `${fence}${language}\n${text}\n${fence}`;
}

function longestRun(text: string): number {
  return [...text.matchAll(/`+/g)].reduce((longest, [run]) => Math.max(longest, run.length), 0);
}
