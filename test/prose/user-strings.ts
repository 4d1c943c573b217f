/** Sentences that users read and that no document has: errors, help, plans, reports, the web UI, alerts. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { parse as parseYaml } from "yaml";
import { projectRoot } from "../../scripts/program/stack-file.ts";

export interface UserString {
  /** Relative to the project. */
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** In one line; code in backquotes, values that are only known at run time in braces. */
  readonly text: string;
}

const FOLDERS = ["bootstrap", "components", "containers", "infra", "loader", "policy", "scripts"];

/** A sentence, or a part of it: three words in a row. */
const PROSE = /[a-z]\w* [a-z]+ [a-z]+/i;

/** Programs and templates: shell, Python, JavaScript, Jinja. */
const CODE = /^(?:#!|import |from \w+ import|const |if |for |values? =|text =)|\{%|\{\{ ?\w|\(\) ?\{/;

export function userStrings(python: string): readonly UserString[] {
  const { stdout } = spawnSync("git", ["ls-files", ...FOLDERS], { cwd: projectRoot, encoding: "utf8" });
  const files = stdout.split("\n").filter((file) => !/(^|\/)(tests?|data)\//.test(file));
  const scripts = files.filter((file) => /\.(ts|mjs|js)$/.test(file));
  const alerts = files.filter((file) => /\/monitoring\/.*\.yaml$/.test(file));
  const modules = files.filter((file) => file.endsWith(".py"));
  return [...scripts.flatMap(ofScript), ...alerts.flatMap(ofAlerts), ...ofPython(python, modules)].filter(
    ({ text }) => PROSE.test(text) && !CODE.test(text),
  );
}

function ofScript(file: string): readonly UserString[] {
  const source = ts.createSourceFile(
    file,
    readFileSync(join(projectRoot, file), "utf8"),
    ts.ScriptTarget.Latest,
    true,
  );
  const strings: UserString[] = [];
  const visit = (node: ts.Node): void => {
    const text = textOf(node);
    if (text !== null) {
      const line = source.getLineAndCharacterOfPosition(node.getStart()).line + 1;
      strings.push({ file, line, text: text.replaceAll(/\s+/g, " ").trim() });
    }
    // Strings within the holes of a template are strings of their own.
    ts.forEachChild(node, visit);
  };
  visit(source);
  return strings;
}

function textOf(node: ts.Node): string | null {
  // `"jan feb mar".split(" ")`
  if (ts.isPropertyAccessExpression(node.parent ?? node)) return null;
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return null;
  return node.templateSpans.reduce(
    (text, { expression, literal }) => `${text}{${nameOf(expression)}}${literal.text}`,
    node.head.text,
  );
}

/** Last name of an expression, for who reads a finding. */
function nameOf(expression: ts.Expression): string {
  return /(\w+)\W*$/.exec(expression.getText())?.[1] ?? "value";
}

function ofAlerts(file: string): readonly UserString[] {
  const text = readFileSync(join(projectRoot, file), "utf8");
  const lines = text.split("\n");
  const strings: UserString[] = [];
  JSON.stringify(parseYaml(text), (key, value: unknown) => {
    if (typeof value === "string" && ["summary", "description"].includes(key)) {
      const start = value.slice(0, 30);
      strings.push({
        file,
        line: lines.findIndex((line) => line.includes(start)) + 1,
        text: value.replaceAll(/\s+/g, " "),
      });
    }
    return value;
  });
  return strings;
}

const PYTHON_STRINGS = `
import ast, json, sys
for file in sys.stdin.read().split():
    tree = ast.parse(open(file).read())
    documentation = {id(node.body[0].value) for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body and isinstance(node.body[0], ast.Expr)}
    def visit(node):
        if id(node) in documentation: return
        text = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str): text = node.value
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "{value}" for part in node.values)
        if text: print(json.dumps({"file": file, "line": node.lineno, "text": " ".join(text.split())}))
        if not isinstance(node, ast.JoinedStr):
            for child in ast.iter_child_nodes(node): visit(child)
    visit(tree)
`;

function ofPython(python: string, files: readonly string[]): readonly UserString[] {
  const { status, stdout, stderr } = spawnSync(python, ["-c", PYTHON_STRINGS], {
    cwd: projectRoot,
    input: files.join("\n"),
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw new Error(`Strings of Python can't be read: ${stderr}`);
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as UserString);
}
