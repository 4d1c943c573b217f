/**
 * Sentences that no document has: users' strings (errors, help, plans, reports, the web UI, alerts), comments, and titles of tests.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { parse as parseYaml } from "yaml";
import { projectRoot } from "../../scripts/program/stack-file.ts";

export interface Text {
  /** Relative to the project. */
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** In one line; code in backquotes, values that are only known at run time in braces. */
  readonly text: string;
}

/** Paths as Git takes them. Recorded output is checked where its strings are. */
const SOURCES = ["*.ts", "*.mjs", "*.js", "*.py", "*.sh", "*.yaml", "*.yml", "*Dockerfile*"];
const NOT_OURS = [":!test/recorded", ":!**/data/**", ":!**/fixtures/**"];

const IN_TESTS = /(^|\/)tests?\//;

/** A sentence, or a part of it: three words in a row. */
const PROSE = /[a-z]\w* [a-z]+ [a-z]+/i;

/** Programs and templates: shell, Python, JavaScript, Jinja. */
const CODE = /^(?:#!|import |from \w+ import|const |if |for |values? =|text =)|\{%|\{\{ ?\w|\(\) ?\{/;

/** Marks of tools that read comments; the reason follows. */
const DIRECTIVE =
  /^(?:biome-ignore [\w/]+:|@ts-\S+|type: ignore\S*|noqa\S*( \w+)?|syntax=\S+|yaml-language-server:.*|hadolint \S+|zizmor: \S+)/;

export function allTexts(python: string): readonly Text[] {
  const args = ["ls-files", ...SOURCES, ...NOT_OURS];
  const { stdout } = spawnSync("git", args, { cwd: projectRoot, encoding: "utf8" });
  const files = stdout.trim().split("\n");
  const scripts = files.filter((file) => /\.(ts|mjs|js)$/.test(file));
  const modules = files.filter((file) => file.endsWith(".py"));
  const others = files.filter((file) => !scripts.includes(file) && !modules.includes(file));
  const texts = [...scripts.flatMap(ofScript), ...others.flatMap(ofOther), ...ofPython(python, modules)];
  return texts
    .map((text) => ({ ...text, text: text.text.replaceAll(/\s+/g, " ").trim() }))
    .filter(({ text }) => PROSE.test(text) && !CODE.test(text));
}

function ofScript(file: string): readonly Text[] {
  const content = readFileSync(join(projectRoot, file), "utf8");
  const source = ts.createSourceFile(file, content, ts.ScriptTarget.Latest, true);
  const lineAt = (position: number) => source.getLineAndCharacterOfPosition(position).line + 1;
  const comments = new Map<number, ts.CommentRange>();
  const strings: Text[] = [];
  const isTest = IN_TESTS.test(file);
  const visit = (node: ts.Node): void => {
    const ranges = [
      ...(ts.getLeadingCommentRanges(content, node.pos) ?? []),
      ...(ts.getTrailingCommentRanges(content, node.end) ?? []),
    ];
    if (!ts.isJsxText(node)) for (const range of ranges) comments.set(range.pos, range);
    const text = !isTest || isTitle(node) ? stringOf(node) : null;
    if (text !== null) strings.push({ file, line: lineAt(node.getStart()), text });
    // Strings within the holes of a template are strings of their own.
    for (const child of node.getChildren(source)) visit(child);
  };
  visit(source);
  const lines = [...comments.values()]
    .sort((a, b) => a.pos - b.pos)
    .flatMap(({ pos, end }) => commentLines(content.slice(pos, end), lineAt(pos)));
  return [...strings, ...paragraphs(file, lines)];
}

/** The first argument of `it("…")`, `describe.each(…)("…")`, `it.skipIf(…)("…")`. */
function isTitle(node: ts.Node): boolean {
  const call = node.parent;
  return (
    call !== undefined &&
    ts.isCallExpression(call) &&
    call.arguments[0] === node &&
    /^(?:it|test|describe)\b/.test(call.expression.getText())
  );
}

function stringOf(node: ts.Node): string | null {
  // `"jan feb mar".split(" ")`
  if (ts.isPropertyAccessExpression(node.parent ?? node)) return null;
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return null;
  return node.templateSpans.reduce(
    (text, { expression, literal }) => `${text}{${nameOf(expression)}}${literal.text}`,
    node.head.text,
  );
}

/** Last name of an expression, for the reader of a finding. */
function nameOf(expression: ts.Expression): string {
  return /(\w+)\W*$/.exec(expression.getText())?.[1] ?? "value";
}

type Line = readonly [line: number, text: string];

/** Without the marks of a comment. */
function commentLines(comment: string, first: number): readonly Line[] {
  return comment.split("\n").map((text, index) => [
    first + index,
    text
      .replace(/^\s*(?:\/\*\*?|\*\/|\*(?= |$)|\/\/)/, "")
      .replace(/\*\/$/, "")
      .trim(),
  ]);
}

/** Lines in a row are a paragraph; an empty line, a tag of JSDoc and a row of a list begin another. */
function paragraphs(file: string, lines: readonly Line[]): readonly Text[] {
  const texts: { file: string; line: number; last: number; text: string }[] = [];
  for (const [line, raw] of lines) {
    const begins = raw === "" || /^(?:@\w+|- |\d+\. )/.test(raw) || texts.at(-1)?.last !== line - 1;
    const text = raw
      .replace(DIRECTIVE, "")
      .replaceAll(/@param \w+ -|@\w+/g, "")
      .replace(/^- |^\d+\. /, "")
      .trim();
    const before = texts.at(-1);
    if (begins || before === undefined) texts.push({ file, line, last: line, text });
    else Object.assign(before, { last: line, text: `${before.text} ${text}` });
  }
  return texts;
}

/** Comments behind `#`, and what alerts say. */
function ofOther(file: string): readonly Text[] {
  const content = readFileSync(join(projectRoot, file), "utf8");
  const comments = content
    .split("\n")
    .flatMap((text, index): Line[] =>
      /^\s*#(?!!)/.test(text) ? [[index + 1, text.replace(/^\s*#+ ?/, "")]] : [],
    );
  return [
    ...paragraphs(file, comments),
    ...(/\/monitoring\/.*\.yaml$/.test(file) ? ofAlerts(file, content) : []),
  ];
}

function ofAlerts(file: string, content: string): readonly Text[] {
  const lines = content.split("\n");
  const texts: Text[] = [];
  JSON.stringify(parseYaml(content), (key, value: unknown) => {
    if (typeof value === "string" && ["summary", "description"].includes(key)) {
      const start = value.slice(0, 30);
      texts.push({ file, line: lines.findIndex((line) => line.includes(start)) + 1, text: value });
    }
    return value;
  });
  return texts;
}

/** Prints a JSON array of kind, file, line and text for each string, paragraph of documentation and line of a comment. */
const PYTHON_TEXTS = `
import ast, io, json, re, sys, tokenize
def show(kind, line, text): print(json.dumps([kind, file, line, text]))
for file in sys.stdin.read().split():
    source = open(file).read()
    tree = ast.parse(source)
    is_test = re.search(r"(^|/)tests?/", file)
    documentation = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            documentation[id(node.body[0])] = node.body[0]
    for node in documentation.values():
        for index, line in enumerate(node.value.value.split("\\n")): show("comment", node.lineno + index, line.strip())
    def visit(node):
        if id(node) in documentation: return
        text = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str): text = node.value
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "{value}" for part in node.values)
        if text: show("string", node.lineno, text)
        if not isinstance(node, ast.JoinedStr):
            for child in ast.iter_child_nodes(node): visit(child)
    if not is_test: visit(tree)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT: show("comment", token.start[0], token.string.lstrip("# "))
`;

function ofPython(python: string, files: readonly string[]): readonly Text[] {
  const { status, stdout, stderr } = spawnSync(python, ["-c", PYTHON_TEXTS], {
    cwd: projectRoot,
    input: files.join("\n"),
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw new Error(`Texts of Python can't be read: ${stderr}`);
  const rows = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as ["string" | "comment", string, number, string]);
  return files.flatMap((file) => {
    const own = rows.filter((row) => row[1] === file);
    const comments = own
      .filter(([kind]) => kind === "comment")
      .map(([, , line, text]): Line => [line, text])
      .sort((a, b) => a[0] - b[0]);
    const strings = own
      .filter(([kind]) => kind === "string")
      .map(([, , line, text]) => ({ file, line, text }));
    return [...strings, ...paragraphs(file, comments)];
  });
}
