/** Lines that call `engine-room` that the project's own files type, and what their commands say of them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type ParsedLine } from "../../scripts/commands/command.ts";
import { COMMANDS } from "../../scripts/commands/index.ts";
import { rootParser } from "../../scripts/commands/main.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";

interface PackageFile {
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

/** The rest of a command, up to a pipe, a list, a redirection, a comment or the end of quoted code outside quotes. */
const REST = /(?:"[^"]*"|'[^']*'|[^|;&>#`)"'])*/y;

/** Each `npx engine-room COMMAND ARGS` of a text; a line that ends in a backslash continues in the next. */
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

/** @returns The parsed line; null if no command parses it. @throws The command's own error about its arguments. */
export async function parseNpmCommand({ script, args }: NpmCommand): Promise<ParsedLine | null> {
  // scripts/cli.mjs does it before there are packages.
  if (script === "install" && args.length === 0) return null;
  const root = rootParser();
  const parser = root.commands.find((command) => command.name() === script);
  const command = await COMMANDS[script]?.load();
  let parsed: ParsedLine | null = null;
  if (parser !== undefined && command !== undefined)
    describe(parser, command, async (line) => {
      parsed = line;
    });
  await root.parseAsync([script, ...args], { from: "user" });
  return parsed;
}
