/**
 * Reads documents, users' strings, comments and titles of tests by Vale's rules in `styles/`: `tsx lint.ts PYTHON`. Ends with 1 if a text breaks a rule, or if
 * a rule misses a line of `wrong.txt`, and with SKIPPED if this machine can't build Vale; its last line then gives the reason.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { SKIPPED } from "../../scripts/testing/suites.ts";
import { buildGoModules } from "../harness/kubernetes/go-build.ts";
import { allTexts } from "./texts.ts";

/** Of Vale's JSON, by file. */
type Findings = Readonly<
  Record<string, readonly { readonly Line: number; readonly Check: string; readonly Message: string }[]>
>;

/** Paths as Git takes them. Recorded output is checked where its strings are. */
const DOCUMENTS = ["*.md", "containers/services/gateway/public/*.html", ":!test/recorded"];

const [, , python = "python3"] = process.argv;

process.exitCode = await lint();

async function lint(): Promise<number> {
  const hasCompiler = spawnSync("cc", ["--version"]).status === 0;
  const built = hasCompiler
    ? await buildGoModules(["vale"], (line) => process.stderr.write(`${line}\n`))
    : { reason: "no C compiler on PATH, with which Vale is built" };
  if ("reason" in built) {
    process.stderr.write(`${built.reason}\n`);
    return SKIPPED;
  }
  const problems = [...missedLines(built.vale), ...brokenDocuments(built.vale), ...brokenTexts(built.vale)];
  process.stdout.write(problems.map((line) => `${line}\n`).join(""));
  return problems.length === 0 ? 0 : 1;
}

function vale(folder: string, files: readonly string[]): Findings {
  const args = ["--config", join(import.meta.dirname, "vale.ini"), "--output=JSON", ...files];
  const { stdout, stderr } = spawnSync(join(folder, "vale"), args, {
    cwd: projectRoot,
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  if (!stdout.startsWith("{")) throw new Error(`Vale failed: ${stdout}${stderr}`);
  return JSON.parse(stdout) as Findings;
}

function brokenDocuments(folder: string): readonly string[] {
  const { stdout } = spawnSync("git", ["ls-files", ...DOCUMENTS], { cwd: projectRoot, encoding: "utf8" });
  return Object.entries(vale(folder, stdout.trim().split("\n"))).flatMap(([file, findings]) =>
    findings.map(({ Line, Check, Message }) => `${file}:${Line}: ${Message} (${Check})`),
  );
}

/** Each in a paragraph of its own. */
function brokenTexts(folder: string): readonly string[] {
  const texts = allTexts(python);
  const directory = mkdtempSync(join(tmpdir(), "engine-room-prose-"));
  try {
    const file = join(directory, "texts.txt");
    writeFileSync(file, texts.map(({ text }) => `${withoutCode(text)}\n`).join("\n"));
    return (vale(folder, [file])[file] ?? []).flatMap(({ Line, Check, Message }) => {
      const text = texts[(Line - 1) / 2];
      return text === undefined ? [] : [`${text.file}:${text.line}: ${Message} (${Check})\n    ${text.text}`];
    });
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** As a sentence of its own. Code in backquotes and values in braces are not words. */
function withoutCode(text: string): string {
  const words = text.replaceAll(/`[^`]*`|\{\w+\}/g, "…");
  return /[.?!]$/.test(words) ? words : `${words}.`;
}

/** Each line of `wrong.txt` breaks a rule. */
function missedLines(folder: string): readonly string[] {
  const file = join(import.meta.dirname, "wrong.txt");
  const found = new Set(Object.values(vale(folder, [file])).flatMap((all) => all.map(({ Line }) => Line)));
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line, index) =>
      line === "" || found.has(index + 1)
        ? []
        : [`test/prose/wrong.txt:${index + 1}: no rule finds this line`],
    );
}
