/**
 * Text of systemd's units, with its own rules of quoting: https://www.freedesktop.org/software/systemd/man/252/systemd.syntax.html
 * and, for what a command line adds to them, systemd.service.html#Command%20lines of the same folder.
 */

/** A section's lines in their order; a key may stand there several times. */
export type UnitSection = readonly (readonly [key: string, value: string])[];

/** `[Name]` and its lines, one section after the other. */
export function unitText(sections: Readonly<Record<string, UnitSection>>): string {
  return Object.entries(sections)
    .map(([name, lines]) => `[${name}]\n${lines.map(([key, value]) => `${key}=${value}\n`).join("")}`)
    .join("\n");
}

/** Needs no quotes; neither `#` nor `;`, which begin a comment even in a continued line, nor what is expanded. */
const PLAIN = /^[\w@+=:,./-]+$/;

/**
 * A command of `ExecStart=` and the like: systemd runs exactly these words. One line for each, continued with a backslash.
 *
 * @param argv - The program's absolute path first.
 * @throws Error where a word can be no argument of a program: it has a NUL, or half of a surrogate pair.
 */
export function commandLine(argv: readonly string[]): string {
  return argv.map(commandWord).join(" \\\n  ");
}

/** Doubled, `%` is no specifier and `$` no variable. */
function commandWord(word: string): string {
  if (word.includes("\0") || !word.isWellFormed())
    throw new Error(`No program can be given the argument ${JSON.stringify(word)}`);
  if (PLAIN.test(word)) return word;
  return `"${word.replace(/["\\]/g, "\\$&").replace(/[%$]/g, "$&$&").replace(CONTROL, escaped)}"`;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what has to be escaped.
const CONTROL = /[\u0001-\u001f\u007f]/g;

function escaped(character: string): string {
  return `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
}
