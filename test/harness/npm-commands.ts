/** Lines that call `engine-room` that the project's own files type, and what their commands say of them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Command } from "../../scripts/commands/command.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";

interface PackageFile {
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly engines: { readonly node: string };
}
export const packageFile = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8")) as PackageFile;

export interface NpmCommand {
  readonly script: string;
  readonly args: readonly string[];
}

/** Words of a shell line, as far as quotes hold them together. */
const WORD = /(?:"[^"]*"|'[^']*'|[^\s"'])+/g;

/** What ends a command: a pipe, a list, a redirection, a comment, the end of quoted code; none of them within quotes. */
const REST = /(?:"[^"]*"|'[^']*'|[^|;&>#`)"'])*/y;

/** Each `npx engine-room COMMAND ARGS` of a text; a line that ends in a backslash goes on in the next. */
export function npmCommands(text: string): NpmCommand[] {
  return text
    .replaceAll("\\\n", " ")
    .split("\n")
    .flatMap((line) =>
      [...line.matchAll(/(?:npx engine-room|node scripts\/cli\.mjs) ([\w:-]+)/g)].map((found) => {
        REST.lastIndex = found.index + found[0].length;
        const rest = REST.exec(line)?.[0] ?? "";
        return { script: found[1] as string, args: (rest.match(WORD) ?? []).map(unquoted) };
      }),
    );
}

function unquoted(word: string): string {
  return word.replaceAll(/["']/g, "");
}

const COMMON = { stack: { type: "string" }, "config-file": { type: "string" } } as const;

/** @throws What the command itself would say of its arguments. */
export async function parseNpmCommand({ script, args }: NpmCommand): Promise<void> {
  const words = packageFile.scripts[script]?.split(" ") ?? [];
  if (words[0] !== "node") throw new Error(`package.json has no script ${script} of ours`);
  const [, , name = "", ...fixed] = words;
  const module = join(projectRoot, "scripts/commands", `${name}.ts`);
  const { command } = (await import(module)) as { readonly command: Command };
  const { positionals } = parseArgs({
    args: [...fixed, ...args],
    options: { ...(command.takesNoStack === true ? {} : COMMON), ...command.options },
    allowPositionals: (command.maxPositionals ?? 0) > 0,
  });
  if (positionals.length > (command.maxPositionals ?? 0))
    throw new Error(`too many words: ${positionals.join(" ")}`);
  if (name === "ci" && !command.details?.some((line) => line.startsWith(`${positionals[0]} `)))
    throw new Error(`ci has no task ${positionals[0]}`);
}
