/**
 * Text that fits its terminal, with colours by meaning; pipes and files get unbroken lines without colours, which scripts and logs search.
 */
import { stripVTControlCharacters, styleText } from "node:util";
import { wrapText } from "./plan/text-table.ts";

/** Formats by meaning. */
const STYLES = {
  title: "bold",
  ok: "green",
  failed: "red",
  warning: "yellow",
  added: "green",
  changed: "yellow",
  deleted: "red",
  skipped: "dim",
} as const;

/** In colour if `stream` is a terminal; NO_COLOR and FORCE_COLOR decide otherwise. @param stream - Where it is printed. */
export function styled(
  meaning: keyof typeof STYLES,
  text: string,
  stream: NodeJS.WriteStream = process.stdout,
): string {
  return styleText(STYLES[meaning], text, { stream });
}

/** Replaces a space at which no line may end; a private-use character of Unicode, so that no text has it. */
const KEPT_SPACE = "\ue000";

/** Least number of columns for a text after a wide head. */
const LEAST_COLUMNS = 20;

/** Words about states and places in reports: many terminals open a place in a file by a click. */
const WORDS = {
  title: /\S+\.ya?ml:\d+/g,
  ok: /\bRUNNING\b|\bok$/gm,
  failed: /\b(?:FAILED|FATAL|EXITED|MISSING|\d+ problems?)\b/g,
  warning: /\b(?:STARTING|BACKOFF|STOPPED|\d+ warnings?)\b|\bWarning:/g,
} as const;

/** A report with those words in colour. */
export function highlighted(text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return Object.entries(WORDS).reduce(
    (before, [meaning, words]) =>
      before.replaceAll(words, (word) => styled(meaning as keyof typeof WORDS, word, stream)),
    text,
  );
}

type Terminal = Pick<NodeJS.WriteStream, "isTTY" | "columns">;

/** Wraps a text if the stream is a terminal of known width. */
export function forTerminal(text: string, terminal: Terminal): string {
  return text
    .split("\n")
    .map((line) => {
      const [margin = ""] = /^ *(?:\d+\. )?/.exec(line) ?? [];
      return hanging(margin, line.slice(margin.length), terminal);
    })
    .join("\n");
}

/** Indents wrapped lines to the end of a head, such as the columns before the last column. Typed text, in backquotes, is not wrapped. */
export function hanging(head: string, text: string, { isTTY = false, columns = 0 }: Terminal): string {
  if (!isTTY || columns === 0) return `${head}${text}`;
  const margin = stripVTControlCharacters(head).length;
  const body = text.replaceAll(/`[^`]*`/g, (typed) => typed.replaceAll(" ", KEPT_SPACE));
  const width = Math.max(LEAST_COLUMNS, columns - margin);
  const lines = wrapText(body, width).map((line) => line.replaceAll(KEPT_SPACE, " "));
  return lines.map((line, index) => `${index === 0 ? head : " ".repeat(margin)}${line}`).join("\n");
}

const OUTCOMES = { ok: "ok", FAILED: "failed", skipped: "skipped" } as const;

/** A line of a check at its end: outcome, columns, time and text. @param columns - Padded. */
export function resultLine(
  outcome: keyof typeof OUTCOMES,
  columns: readonly string[],
  milliseconds: number,
  text: string,
  out: NodeJS.WriteStream,
): string {
  const sign = styled(OUTCOMES[outcome], outcome.padEnd(7), out);
  const head = [sign, ...columns, `${String(milliseconds).padStart(6)} ms  `].join("  ");
  return `${hanging(head, text, out).trimEnd()}\n`;
}
