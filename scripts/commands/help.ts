/** What `--help` says of a command, wrapped in one place. */
import { wrapText } from "../plan/text-table.ts";
import { keepSpaces, withSpaces } from "../terminal-text.ts";
import type { Command } from "./command.ts";

/** Longer lines are hard to read, however wide the terminal is. */
const MOST_COLUMNS = 100;
/** In which the explanation of an option begins, behind the margin. */
const TEXT_COLUMN = 21;
const MARGIN = "  ";

const STACK_USAGE = "[--stack NAME] [--config-file FILE]";
const STACK_DETAILS = [
  "--stack NAME  the stack (default: local)",
  "--config-file FILE  its configuration (default: Pulumi.NAME.yaml)",
] as const;

/** `npx engine-room NAME …`, on one line. */
export function usageText(name: string, { usage, takesNoStack }: Command): string {
  return `npx engine-room ${name} ${usage}${takesNoStack === true ? "" : ` ${STACK_USAGE}`}`.replace(
    / {2}/,
    " ",
  );
}

/** @param columns - Of the terminal; undefined: there is none. */
export function helpText(name: string, command: Command, columns: number = MOST_COLUMNS): string {
  const width = Math.min(MOST_COLUMNS, columns);
  const { summary, details = [], takesNoStack } = command;
  const all = [...(takesNoStack === true ? [] : STACK_DETAILS), ...details];
  const paragraphs = [
    wrapText(summary, width),
    usageLines(name, command, width),
    all.flatMap((detail) => detailLines(detail, width)),
    wrapText("Exit codes: 0 done, 1 failed, 2 wrong command line.", width),
  ].filter(({ length }) => length > 0);
  return `${paragraphs.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

function usageLines(name: string, command: Command, width: number): readonly string[] {
  const head = `npx engine-room ${name} `;
  return hanging(head, usageText(name, command).slice(head.length), width);
}

/** An option beside its explanation, or a sentence. */
function detailLines(detail: string, width: number): readonly string[] {
  const [, option, text] = /^(\S.*?) {2,}(.+)$/.exec(detail) ?? [];
  if (option !== undefined && text !== undefined)
    return hanging(`${option}  `.padEnd(TEXT_COLUMN), text, width);
  const sentence = detail.trimStart();
  return hanging(" ".repeat(detail.length - sentence.length), sentence, width);
}

/** A text that wraps behind its head; what stands in brackets stays together. A longer head has a line of its own. */
function hanging(head: string, text: string, width: number): readonly string[] {
  const isLong = head.length > TEXT_COLUMN;
  const margin = `${MARGIN}${" ".repeat(isLong ? TEXT_COLUMN : head.length)}`;
  const lines = wrapText(bracketsKept(text), width - margin.length).map(withSpaces);
  const [first = "", ...rest] = isLong ? ["", ...lines] : lines;
  return [`${MARGIN}${head}${first}`.trimEnd(), ...rest.map((line) => `${margin}${line}`)];
}

/** A line may end within them at a `|` alone. */
function bracketsKept(text: string): string {
  let depth = 0;
  return text
    .split("")
    .map((letter, index) => {
      if (letter === "[") depth += 1;
      if (letter === "]") depth -= 1;
      return depth > 0 && text[index - 1] !== "|" ? keepSpaces(letter) : letter;
    })
    .join("");
}
