/** The text of a stack file: its values, what is wrong with it as YAML, and on which line a value is. */
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from "yaml";
import { ConfigError, type Problem, pathParts, shownValue, withoutCredentials } from "../problems.ts";

/** Keys of a stack file beside `config`: https://www.pulumi.com/docs/iac/concepts/projects/stack-settings-file/ */
const PULUMI_KEYS = ["config", "secretsprovider", "encryptedkey", "encryptionsalt", "environment"];

export interface StackText {
  /** Values of `config:` by full keys; empty if there are problems. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly problems: readonly Problem[];
  /** Whether it takes values from Pulumi ESC. */
  readonly hasEnvironment: boolean;
  /** Line of the value at a path, or of the nearest mapping around it; undefined if the path is not of this file. */
  lineOf(path: string): number | undefined;
}

/** @param file - As the user would type it. */
export function parseStackText(file: string, text: string): StackText {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter });
  const lineAt = (node: unknown) => {
    const offset = (node as Node | null | undefined)?.range?.[0];
    return offset === undefined ? undefined : counter.linePos(offset).line;
  };
  const refused = (problems: readonly Problem[]): StackText => ({
    config: {},
    problems,
    hasEnvironment: false,
    lineOf: () => undefined,
  });
  const found = contentOf(document);
  if ("error" in found) return refused([syntaxProblem(file, text, found.error)]);
  const { content } = found;
  const problems = isMapping(content) ? misplacedKeys(content) : [noMapping("(stack file)", content)];
  const config = isMapping(content) ? (content.config ?? {}) : {};
  if (!isMapping(config)) problems.push(noMapping("config", config));
  if (problems.length > 0)
    return refused(problems.map((one) => located(one, lineAt(topPair(document, one.path)?.key) ?? 1)));
  return {
    config: config as StackText["config"],
    problems,
    hasEnvironment: isMapping(content) && content.environment !== undefined,
    lineOf: (path) => lineAt(nodeAt(document, path)),
  };
}

interface SyntaxError {
  readonly message: string;
  readonly pos: readonly number[];
}

/** Only when values are made of it, a file shows that an alias has no anchor. */
function contentOf(document: Document): { readonly content: unknown } | { readonly error: SyntaxError } {
  const [error] = document.errors;
  if (error !== undefined) return { error };
  try {
    return { content: document.toJS() ?? {} };
  } catch (thrown) {
    const { message } = thrown as Error;
    const name = /^Unresolved alias.*: (\S+)$/.exec(message)?.[1];
    const sentence = name === undefined ? message : `The alias *${name} has no anchor`;
    return { error: { message: sentence, pos: [aliasOffset(document, name)] } };
  }
}

function aliasOffset(document: Document, name: string | undefined): number {
  let offset = 0;
  visit(document, {
    Alias: (_key, alias) => {
      if (alias.source !== name) return undefined;
      offset = alias.range?.[0] ?? 0;
      return visit.BREAK;
    },
  });
  return offset;
}

function noMapping(path: string, value: unknown): Problem {
  return {
    path,
    value: shownValue(["hub"], { hub: value }),
    reason: "It must be a mapping.",
    fix: "Write `config:`, and each key on a line of its own below it, indented by two spaces.",
  };
}

/**
 * The same error with lines of a stack file, as far as that can be read; any other error as it is.
 *
 * @param file - Absolute path. @param name - As the user would type it.
 * @param values - Checked values by full keys, which may come from another file: only equal values get a line.
 */
export function withLines(
  error: unknown,
  file: string,
  name: string,
  values?: Readonly<Record<string, string>>,
): unknown {
  if (!(error instanceof ConfigError) || error.problems.some(({ line }) => line !== undefined)) return error;
  const text = readText(file, name);
  if (text === undefined) return error;
  // Nothing of it was read.
  if (text.problems.length > 0)
    return Object.keys(values ?? {}).length > 0 ? error : new ConfigError(text.problems, name);
  const isFrom = (path: string) => {
    const full = Object.keys(values ?? {}).find((one) => shortKey(one) === pathParts(path)[0]);
    return full === undefined || isSame(values?.[full] ?? "", text.config[full]);
  };
  const found = error.problems.map((one) => (isFrom(one.path) ? located(one, text.lineOf(one.path)) : one));
  return found.some(({ line }) => line !== undefined) ? new ConfigError(found, name) : error;
}

/** Problems or warnings about a stack file that can be read, with its lines. @param file - Absolute path. */
export function locatedProblems(problems: readonly Problem[], file: string): readonly Problem[] {
  const text = readText(file, file);
  return problems.map((problem) => located(problem, text?.lineOf(problem.path)));
}

function readText(file: string, name: string): StackText | undefined {
  try {
    return parseStackText(name, readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

function located(problem: Problem, line: number | undefined): Problem {
  return line === undefined ? problem : { ...problem, line };
}

/** A value as the Pulumi runtime passes it to a program. */
export function runtimeText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function isSame(text: string, value: unknown): boolean {
  try {
    return text === value || isDeepStrictEqual(JSON.parse(text), value);
  } catch {
    return false;
  }
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Keys of a namespace that are not below `config:`, or any if that is missing: Pulumi reads nothing of them. */
function misplacedKeys(content: Readonly<Record<string, unknown>>): Problem[] {
  const keys = Object.keys(content).filter((key) => !PULUMI_KEYS.includes(key));
  if (keys.length > 0 && (content.config ?? null) === null)
    return [
      {
        path: keys[0] ?? "",
        value: shownEntry(content, keys[0] ?? ""),
        reason: `\`config:\` is missing above ${keys.join(", ")}; only keys below it are read.`,
        fix: "Write `config:` on a line above them, and indent them all by two spaces.",
      },
    ];
  return keys
    .filter((key) => key.includes(":"))
    .map((key) => ({
      path: key,
      value: shownEntry(content, key),
      reason: "The key is beside `config:`; only keys below it are read.",
      fix: "Indent it by two spaces, like the other keys below `config:`.",
    }));
}

/** Value of a key that has its namespace, or none. */
export function shownEntry(content: Readonly<Record<string, unknown>>, key: string): string {
  return shownValue([shortKey(key)], { [shortKey(key)]: content[key] });
}

/** `models` of `engine-room:models`. */
function shortKey(key: string): string {
  return key.slice(key.indexOf(":") + 1);
}

/** A key of the file itself, with its value. */
function topPair({ contents }: Document, name: string) {
  return isMap(contents) ? contents.items.find(({ key }) => isScalar(key) && key.value === name) : undefined;
}

/**
 * Node at a path: the key of a mapping, the entry of a list. Keys may contain dots, so the path is compared with the file's
 * keys. The path of an absent key gives the node of `config`; an option of a command has no node.
 */
function nodeAt(document: Document, path: string): unknown {
  const top = topPair(document, "config");
  if (top === undefined || path.startsWith("-")) return undefined;
  let found: unknown = top.key;
  let inside: unknown = top.value;
  for (let rest = path; rest !== ""; ) {
    const node = isAlias(inside) ? inside.resolve(document) : inside;
    const isTop = node === top.value;
    const entries = isSeq(node)
      ? node.items.map((item, index) => ({ name: `[${index}]`, key: item, value: item }))
      : isMap(node)
        ? node.items.map(({ key, value }) => ({ name: String(key), key, value }))
        : [];
    const [next] = entries
      .map((entry) =>
        isTop && !isStart(rest, entry.name) ? { ...entry, name: shortKey(entry.name) } : entry,
      )
      .filter(({ name }) => isStart(rest, name))
      .toSorted((a, b) => b.name.length - a.name.length);
    if (next === undefined) break;
    [found, inside] = [next.key, next.value];
    rest = rest.slice(next.name.length).replace(/^\./, "");
  }
  return found;
}

function isStart(path: string, key: string): boolean {
  return key !== "" && path.startsWith(key) && /^[.[]|^$/.test(path.slice(key.length));
}

/** Errors of the parser in words, each with what most often is meant; others keep the parser's sentence. */
const SYNTAX: readonly (readonly [parser: RegExp, reason: string, fix: string])[] = [
  [/^Tabs/, "a tab indents the line", "Indent by spaces."],
  [/end with a ]/, "a list that begins with [ has no ]", "Write ] where the list ends."],
  [/end with a }/, "a mapping that begins with { has no }", "Write } where the mapping ends."],
  [/^Missing closing/, "a quote is not closed", "Close the quote on its own line."],
  [
    /same column/,
    "a key is not below the keys beside it",
    "Indent the line exactly like the keys beside it.",
  ],
  [
    /without - indicator/,
    "a key is not below its list entry",
    "Indent the line like the first key of its entry.",
  ],
  [/must be unique/, "a key is there twice", "Keep one of them."],
  [/in compact mappings/, "a value contains a colon and a space", "Put the value into quotes."],
  [/^Implicit keys/, "a key has no colon and space behind it", "Write `key: value`, with both."],
  [/cannot start with/, "a value begins with a reserved character", "Put the value into quotes."],
  [
    /has no anchor/,
    "a value that begins with * is an alias, and has no anchor",
    "Put the value into quotes.",
  ],
];

function syntaxProblem(file: string, text: string, { message, pos }: SyntaxError): Problem {
  const lines = text.split(/\r?\n/);
  const [sentence = ""] = message.split("\n");
  const known = SYNTAX.find(([parser]) => parser.test(sentence));
  const [, words, fix] = known ?? [
    null,
    sentence.replace(/ at line \d+, column \d+:?$/, ""),
    "Correct that line.",
  ];
  const before = text.slice(0, pos[0]).split(/\r?\n/);
  const below = lines[before.length] ?? "";
  if (
    /in compact mappings/.test(sentence) &&
    indentOf(below) > indentOf(before.at(-1) ?? "") &&
    /^\s*[\w:-]+:(\s|$)/.test(below)
  )
    return placedProblem(
      file,
      lines,
      { line: before.length + 1, column: indentOf(below) + 1 },
      "the line is indented deeper than the key above it, which has a value already",
      "Indent the line exactly like the keys beside it.",
    );
  const end = { line: before.length, column: (before.at(-1) ?? "").length + 1 };
  const { line, column } = (sentence.startsWith("Missing closing") && openingQuote(lines, sentence)) || end;
  return placedProblem(file, lines, { line, column }, words, fix);
}

function indentOf(line: string): number {
  return line.search(/\S|$/);
}

interface Place {
  /** Both from 1. */
  readonly line: number;
  readonly column: number;
}

/** With the line, the line before it, and a caret below the place. */
function placedProblem(
  file: string,
  lines: readonly string[],
  { line, column }: Place,
  words: string,
  fix: string,
): Problem {
  const numbered = [line - 1, line].flatMap((number) =>
    number < 1 ? [] : [`${String(number).padStart(4)} | ${maskedLine(lines[number - 1] ?? "")}`],
  );
  const place = `Invalid YAML at line ${line}, column ${column}: ${words}.`;
  return {
    path: file,
    value: maskedLine(lines[line - 1] ?? "").trim(),
    reason: [place, ...numbered, `     | ${" ".repeat(column - 1)}^`].join("\n"),
    fix,
    line,
  };
}

/** The parser sees that a quote was never closed where the file ends; it begins on the first line with an odd number. */
function openingQuote(
  lines: readonly string[],
  sentence: string,
): { line: number; column: number } | undefined {
  const quote = sentence.includes("'") ? "'" : '"';
  const index = lines.findIndex((line) => line.split(quote).length % 2 === 0);
  return index < 0 ? undefined : { line: index + 1, column: (lines[index] ?? "").lastIndexOf(quote) + 1 };
}

/** A line of a file that does not parse: what may be a credential is told by the key before it. */
function maskedLine(line: string): string {
  const shown = line.replace(/(\b(?:token|apiKey|password|secret|secure)["']?\s*:\s*)\S.*$/i, "$1[secret]");
  return withoutCredentials(shown.replaceAll("\t", "→"));
}
