/**
 * Text that fits the terminal it is printed on, with colours by meaning; pipes and files get whole lines without colours, which
 * scripts and logs search.
 */
import { styleText } from "node:util";
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

/** In colour where `stream` is a terminal; NO_COLOR and FORCE_COLOR decide otherwise. @param stream - Where it is printed. */
export function styled(
  meaning: keyof typeof STYLES,
  text: string,
  stream: NodeJS.WriteStream = process.stdout,
): string {
  return styleText(STYLES[meaning], text, { stream });
}

/** Stands for a space that no line ends at. Unicode leaves it to whoever uses it, so that no text has it. */
const KEPT_SPACE = "\ue000";

/** Wrapped where the stream is a terminal that knows its width; as it is elsewhere. */
export function forTerminal(
  text: string,
  { isTTY = false, columns = 0 }: Pick<NodeJS.WriteStream, "isTTY" | "columns">,
): string {
  if (!isTTY || columns === 0) return text;
  return text
    .split("\n")
    .flatMap((line) => wrapLine(line, columns))
    .join("\n");
}

/** Below its own beginning: behind the margin and the number of a list. What stands in backquotes is typed, and stays whole. */
function wrapLine(line: string, columns: number): readonly string[] {
  const [head = ""] = /^ *(?:\d+\. )?/.exec(line) ?? [];
  const body = line.slice(head.length).replaceAll(/`[^`]*`/g, keepSpaces);
  const [first = "", ...rest] = wrapText(body, columns - head.length).map(withSpaces);
  return [`${head}${first}`, ...rest.map((part) => `${" ".repeat(head.length)}${part}`)];
}

/** Text that {@link wrapText} takes for one word. */
export function keepSpaces(text: string): string {
  return text.replaceAll(" ", KEPT_SPACE);
}

/** The text as it was. */
export function withSpaces(text: string): string {
  return text.replaceAll(KEPT_SPACE, " ");
}
