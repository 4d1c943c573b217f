/**
 * Markdown as GitHub would show it, by two parsers: markdown-it, which also takes bare domains for links, and Debian's cmark-gfm,
 * of which GitHub's own is a version. Neither resolves mentions, issues, commits and emoji, which GitHub looks for afterwards in
 * text outside of code: https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/autolinked-references-and-urls
 */
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import MarkdownIt from "markdown-it";
import { debianProgram } from "./debian-program.ts";

const cmark = await debianProgram("cmark-gfm");

/** Reason why cmark-gfm is missing from the parsers; undefined if it is installed. */
export const missingCmark = "path" in cmark ? undefined : cmark.reason;

/** Raw HTML is left as it is, so that whatever gets through is seen. */
const markdownIt = new MarkdownIt({ html: true, linkify: true, breaks: true });

const EXTENSIONS = ["table", "strikethrough", "autolink", "tasklist", "footnotes"];

function byCmark(program: string, markdown: string): string {
  const libraries = join(dirname(program), "../lib");
  return execFileSync(
    program,
    ["--unsafe", "--hardbreaks", ...EXTENSIONS.flatMap((name) => ["--extension", name])],
    {
      input: markdown,
      encoding: "utf8",
      env: { LD_LIBRARY_PATH: join(libraries, readdirSync(libraries)[0] ?? "") },
    },
  );
}

/** Functions from Markdown to HTML, by parser. */
export const PARSERS: Readonly<Record<string, (markdown: string) => string>> = {
  "markdown-it": (markdown) => markdownIt.render(markdown),
  ...("path" in cmark ? { "cmark-gfm": (markdown: string) => byCmark(cmark.path, markdown) } : {}),
};

export interface Page {
  /** Tags as written, with attributes and end tags: `h3`, `a href="https://…"`, `/a`. */
  readonly tags: readonly string[];
  /** Headings of sections, open and folded. */
  readonly titles: readonly string[];
  /** The visible text. */
  readonly text: string;
  /** The part of it in which GitHub looks for references; `\0` in place of each code and each end of an element. */
  readonly active: string;
}

const CHARACTERS: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', amp: "&" };

/** Reads a parser's HTML as a browser would. Text has `<` only as an entity, so each `<` begins a tag or a comment. */
export function pageOf(html: string): Page {
  const read = (part: string) =>
    part
      .replaceAll(/<[^>]*>/g, "")
      .replaceAll(/&(lt|gt|quot|amp);/g, (_, name: string) => CHARACTERS[name] ?? "");
  return {
    tags: [...html.matchAll(/<([^>]*)>?/g)].map(([, tag = ""]) => tag),
    titles: [...html.matchAll(/<(h4|summary)>(.*?)<\/\1>/gs)].map(([, , title = ""]) => read(title)),
    text: read(html),
    active: read(html.replaceAll(/<code[^>]*>.*?<\/code>/gs, "\0").replaceAll(/<[^>]*>/g, "\0")),
  };
}

/** Text that GitHub would turn into references, or the two parsers into links. */
const REFERENCES: Readonly<Record<string, RegExp>> = {
  mention: /@/,
  // `GH-1`, and references of a repository's own autolinks: https://docs.github.com/en/rest/repos/autolinks
  issue: /#\d|[a-z]-\d|\bGHSA-/i,
  commit: /\b[0-9a-f]{7,40}\b/i,
  emoji: /:[\w+-]+:/,
  address: /\/\/|\bwww\.|\bmailto:/i,
  formula: /\$(?!\d)/,
  hidden: /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u,
};

/** Kinds of references that GitHub would find in a page. */
export function references({ active }: Page): readonly string[] {
  const text = active.replaceAll("\0", "\n");
  return Object.keys(REFERENCES).filter((name) => REFERENCES[name]?.test(text));
}
