/** Links of all documents and paths of docs/proof.md, without the network: files, folders and headings that they name exist. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import MarkdownIt from "markdown-it";
import { expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

const files = spawnSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  cwd: projectRoot,
  encoding: "utf8",
})
  .stdout.split("\n")
  .filter((file) => !file.startsWith("test/recorded/") && existsSync(join(projectRoot, file)));

const read = (file: string) => readFileSync(join(projectRoot, file), "utf8");

const markdown = new MarkdownIt({ html: true });

const tokens = new Map(
  files.filter((file) => file.endsWith(".md")).map((file) => [file, markdown.parse(read(file), {})]),
);

/** GitHub's anchors of a document's headings; a repeated heading gets a number. */
function anchorsOf(file: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  const seen = new Map<string, number>();
  for (const [index, token] of (tokens.get(file) ?? []).entries()) {
    if (token.type !== "heading_open") continue;
    const inline = tokens.get(file)?.[index + 1]?.children ?? [];
    const text = inline.flatMap(({ type, content }) => (/^(text|code_inline)$/.test(type) ? [content] : []));
    const anchor = text
      .join("")
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, "")
      .replaceAll(" ", "-");
    const before = seen.get(anchor) ?? 0;
    seen.set(anchor, before + 1);
    anchors.add(before === 0 ? anchor : `${anchor}-${before}`);
  }
  return anchors;
}

/** Targets of links and pictures within the repository. */
function targetsOf(file: string): readonly string[] {
  return (tokens.get(file) ?? [])
    .flatMap(({ children }) => children ?? [])
    .flatMap((token) => token.attrGet("href") ?? token.attrGet("src") ?? [])
    .filter((target) => !/^[a-z]+:/.test(String(target)))
    .map((target) => decodeURI(String(target)));
}

/** @returns Why a target does not exist; absent if it exists. */
function faultOf(file: string, target: string): string | undefined {
  const [path = "", anchor] = target.split("#");
  const found = path === "" ? file : normalize(join(dirname(file), path)).replace(/\/$/, "");
  if (!existsSync(join(projectRoot, found))) return `${file}: ${target}: no such file`;
  if (anchor === undefined) return undefined;
  if (!tokens.has(found)) return `${file}: ${target}: an anchor in a file that is not Markdown`;
  return anchorsOf(found).has(anchor) ? undefined : `${file}: ${target}: no such heading`;
}

test("every link between the documents leads to a file and to a heading of it", () => {
  const links = [...tokens.keys()].flatMap((file) =>
    targetsOf(file).map((target) => [file, target] as const),
  );
  expect(links.length).toBeGreaterThan(150);
  expect(links.flatMap(([file, target]) => faultOf(file, target) ?? [])).toEqual([]);
});

/** Paths of the tree, with or without backquotes, without the dot at the end of a sentence. */
const PATH =
  /(?<![\w./-])(?:components|containers|infra|loader|policy|scripts|test)(?:\/(?:\{[^}]*\}|[\w.-]*\w))+/g;

/** `{a,b}` stands for both. */
function expanded(path: string): string[] {
  const [, before, words, after] = /^(.*?)\{(.*?)\}(.*)$/.exec(path) ?? [];
  return words?.split(",").flatMap((word) => expanded(`${before}${word}${after}`)) ?? [path];
}

test("every path of the tree in docs/proof.md exists", () => {
  const paths = [...read("docs/proof.md").matchAll(PATH)].flatMap(([path]) => expanded(path));
  expect(paths.length).toBeGreaterThan(200);
  expect(paths.filter((path) => !existsSync(join(projectRoot, path)))).toEqual([]);
});

test("every reference of a document is defined", () => {
  const undefinedOnes = [...tokens].flatMap(([file, all]) =>
    all
      .flatMap(({ children }) => children ?? [])
      .filter(({ type, content }) => type === "text" && /\]\[[^\]]*\]/.test(content))
      .map(({ content }) => `${file}: ${content}`),
  );
  expect(undefinedOnes).toEqual([]);
});

/** Paths from the root of the repository, in folders whose names are unique. */
const SOURCE_PATH =
  /(?<![\w/.-])(?:infra|components|scripts|test|policy|loader|bootstrap)\/[\w/-]+(?:\.test)?\.(?:ts|py|mjs|sh|md)\b/g;

/** Documents of TensorRT-LLM and its Triton backend, which comments name as sources. */
const UPSTREAM = /^docs\/(?:07_int4wo_build|llama|multimodal|operators|source\/.*|user_guide\/.*)\.md$/;

test("every document that code, comments and stack files name exists", () => {
  const named = files
    .filter((file) => /\.(?:m?[jt]s|py|ya?ml|json|sh)$|CODEOWNERS$/.test(file) && !/-lock\.json$/.test(file))
    .flatMap((file) =>
      [...read(file).matchAll(/(?<![\w/.-])docs\/[\w/-]+\.md(?:#[\w-]+)?/g)].map(
        ([name]) => [file, name] as const,
      ),
    )
    .filter(([, name]) => !UPSTREAM.test(name));
  expect(named.length).toBeGreaterThan(40);
  expect(
    named.flatMap(([file, name]) => (faultOf("README.md", name) === undefined ? [] : [`${file}: ${name}`])),
  ).toEqual([]);
});

test("every source file that a document names by its whole path exists", () => {
  const named = [...tokens.keys()].flatMap((file) =>
    [...read(file).matchAll(SOURCE_PATH)].map(([name]) => [file, name] as const),
  );
  expect(named.length).toBeGreaterThan(100);
  expect(
    named.flatMap(([file, name]) => (existsSync(join(projectRoot, name)) ? [] : [`${file}: ${name}`])),
  ).toEqual([]);
});
