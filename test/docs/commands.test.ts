/** What readers are told to type: there are such commands, and they take such words. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { type NpmCommand, npmCommands, packageFile, parseNpmCommand } from "../harness/npm-commands.ts";

const FILES = [".", "docs", "examples"].flatMap((folder) =>
  readdirSync(join(projectRoot, folder))
    .filter((name) => /\.(?:md|yaml)$/.test(name))
    .map((name) => join(folder, name)),
);

/** Code of a document; of a stack file its comments. What prose says of a command may leave out what it needs. */
function codeOf(file: string): string {
  const text = readFileSync(join(projectRoot, file), "utf8");
  if (file.endsWith(".yaml")) return text;
  return [...text.matchAll(/^ *```.*\n([\s\S]*?)^ *```$/gm)].map(([, code = ""]) => code).join("\n");
}

/** Scripts of package.json that are other programs have words of their own. */
const isOurs = ({ script }: NpmCommand) => packageFile.scripts[script]?.startsWith("node ") !== false;

const typed = FILES.toSorted().flatMap((file) =>
  npmCommands(codeOf(file).replaceAll(" … ", " "))
    .filter(isOurs)
    .map((command) => [file, [command.script, ...command.args].join(" "), command] as const),
);

test("documents type commands", () => expect(typed.length).toBeGreaterThan(60));

test.each(typed)("%s: npm run %s", async (_file, _words, command) => {
  await expect(parseNpmCommand(command)).resolves.toBeUndefined();
});
