/** A command as a person types it. */

const PLAIN = /^[A-Za-z0-9_@%+=:,./-]+$/;
const CONTROL = /[\n\r\t]/;

/**
 * One command for bash: environment first, then the program, one line for each long flag with its values, continued with a
 * backslash. Typed in a container it runs exactly the given argv.
 */
export function shellLine(
  argv: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): string {
  const assignments = Object.entries(environment)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${quote(value)}`);
  const lines: string[][] = [[...assignments]];
  for (const word of argv) {
    if (word.startsWith("--")) lines.push([]);
    lines.at(-1)?.push(quote(word));
  }
  return lines
    .filter((words) => words.length > 0)
    .map((words) => words.join(" "))
    .join(" \\\n  ");
}

function quote(word: string): string {
  if (PLAIN.test(word)) return word;
  if (CONTROL.test(word)) {
    const escaped = word
      .replace(/['\\]/g, "\\$&")
      .replace(/\n/g, "\\n")
      .replace(/\r/g, "\\r")
      .replace(/\t/g, "\\t");
    return `$'${escaped}'`;
  }
  return `'${word.replace(/'/g, "'\\''")}'`;
}
