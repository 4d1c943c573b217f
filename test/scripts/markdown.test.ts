import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { driftReport } from "../../scripts/ci/drift.ts";
import { outputsSummary, previewStackFailure } from "../../scripts/ci/outputs-summary.ts";
import { previewText } from "../../scripts/ci/preview-comment.ts";
import { markdownComment } from "../../scripts/diff/print.ts";
import type { ResourceChange, StackDiff } from "../../scripts/diff/types.ts";
import {
  code,
  codeBlock,
  type Inline,
  joined,
  markdownInline,
  plainInline,
  strong,
} from "../../scripts/markdown.ts";
import { missingCmark, PARSERS, type Page, pageOf, references } from "../harness/gfm.ts";
import { needs } from "../harness/requirements.ts";
import { times } from "../harness/thorough.ts";
import { change } from "./diff/diffs.ts";

const HOSTILE = [
  "<img src=x onerror=alert(1)>",
  "</details><script>alert(1)</script>",
  "</summary></details><h1>Approved</h1>",
  "<!-- engine-room: preview -->",
  "-->",
  "@octocat and @org/team, owner/repo#12, #34, GH-56, owner/repo@0123456",
  "fixes #1",
  "https://evil.example www.evil.example a@evil.example mailto:a@evil.example evil.example evil.com",
  "preview-www.evil.example.com",
  "see www.1x.भारत/login now",
  "www.1`x.evil.com/`y",
  "www.1 (WWW.2",
  "[click](https://evil.example) ![x](//evil.example/x.png) [x]: https://evil.example [^1]",
  "`a``[Security\u00a0review:\u00a0approved](https://evil.example.com)x`",
  "`y``@octocat",
  "`a` `@b `c` @d`e",
  "`code` `` two ``` three",
  "```\n# heading\n```",
  "~~~\n~~gone~~",
  "| a | b |\\| c \\",
  "# heading",
  "heading\n===",
  "---",
  "- point",
  "- [ ] task",
  "[x] task",
  "> [!WARNING]",
  "    indented",
  "1. first",
  "**bold** _it_ ~~gone~~ $x$ $`y`$ $$z$$ &lt; &#64;octocat \\",
  "$1 \\href{javascript:alert(1)}{x} $1",
  "line\u2028two\u0000three\u202efour\u200bfive\u3164six",
  ":tada: 0123456789abcdef0123456789abcdef01234567 CVE-2025-1 GHSA-abcd-abcd-abcd",
  "two  \nlines\\\nthree",
] as const;

/** Texts of characters that have a meaning in Markdown, in any order. */
const hostileText = fc
  .array(
    fc.oneof(
      fc.constantFrom(...HOSTILE),
      fc.constantFrom(..."`|\\*_~$<>[](){}!#@&:;.,/-+='\"x1a \u00a0\n\t".split("")),
      fc.constantFrom(
        "``",
        "```",
        "](",
        "](//e.example)",
        "![",
        "<a>",
        "@me",
        "#1",
        "www.e.example",
        "www.1",
        "word",
        " ",
      ),
      fc.string({ unit: "grapheme", maxLength: 4 }),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

const span = fc.oneof(
  hostileText,
  hostileText.map((text) => code(text)),
  hostileText.map((text) => strong(text)),
);

/** Opening tags. */
function elements({ tags }: Page): readonly string[] {
  return [...new Set(tags.filter((tag) => !tag.startsWith("/")))].toSorted();
}

/** A difference with one text in every field that comes from the compared trees. */
function filledWith(text: string): StackDiff {
  const problem = { path: text, value: text, reason: text, fix: text };
  const resource: ResourceChange = change({
    label: text,
    properties: [{ path: text, kind: "update", before: text, after: `${text}.`, effect: "update" }],
    before: { [text]: text },
    after: { [text]: `${text}.` },
  });
  const several = ["a", "b"].map((path) => ({ path, kind: "update", effect: "update" }) as const);
  return {
    stack: text,
    source: "rendered",
    account: text,
    base: { ref: text, commit: text, hasStack: true, failure: text, problems: [problem] },
    head: {
      ref: text,
      commit: text,
      hasStack: true,
      failure: `${text} ${text}`,
      problems: [{ ...problem, value: "" }],
    },
    resources: [
      resource,
      { ...resource, kind: "may-replace", kept: "retained" },
      { ...resource, kind: "delete", kept: "protected" },
      change({ properties: several, before: { a: text, b: `1\n${text}` }, after: { a: 1, b: `2\n${text}` } }),
    ],
    unchanged: 0,
    plan: {
      engines: {
        added: [{ model: text, engine: text, elsewhere: false }],
        removed: [{ model: text, engine: text, elsewhere: true }],
        rebuilt: [
          {
            model: text,
            before: text,
            after: text,
            reasons: [{ field: text, before: text, after: text, sentence: text }],
          },
        ],
        unchanged: [],
      },
      fit: [
        {
          pool: text,
          tenants: [text],
          before: null,
          after: { gpu: text, verdict: "fits", needGiB: 1, capacityGiB: 2 },
          gpusBefore: 0,
          gpusAfter: 2,
        },
      ],
      cost: [],
      costLines: [{ what: text, before: { arithmetic: text, hourlyUsd: 1 }, after: null }],
      pricesAsOf: "2026-01-01",
      machines: [{ pool: text, before: null, after: { count: 1, types: [text] } }],
      servers: [
        {
          model: text,
          pool: text,
          buildPool: text,
          gpus: 1,
          pullSeconds: 1,
          startSeconds: 1,
          coldStartSeconds: 2,
          buildStopsServers: true,
        },
      ],
      newBuilds: [],
      newBuildUsd: 0,
      coldStarts: [{ model: text, beforeSeconds: 1, afterSeconds: 2 }],
      warnings: { appeared: [problem], gone: [problem] },
    },
    secrets: [{ path: text, kind: "update" }],
    settings: [
      { path: `models[${text}]`, kind: "update", before: text, after: text },
      { path: `aws:${text}`, kind: "add", after: text },
      { path: `gateway.apiKeys[${text}]`, kind: "add" },
      { path: `access.admins[${text}]`, kind: "add", after: text },
      { path: "policies.hourlyUsdCap", kind: "delete", before: text },
    ],
    levels: [{ policy: text, before: "mandatory", after: "off" }],
    protections: [{ label: text, option: "protect", after: false }],
    providers: [{ provider: "aws", before: text, after: text, resources: [{ type: text, count: 1 }] }],
    violations: [
      { policy: text, level: "mandatory", resource: text, reason: text, fix: text, isNew: true },
      { policy: text, level: "advisory", resource: null, reason: text, fix: text, isNew: false },
    ],
    uncheckedPolicies: [{ policy: text, level: "mandatory" }],
  };
}

const OWN_URL = "https://github.example/room/actions/runs/1?pr=2";

const triton = (text: string) => ({ http: text, grpc: text, metrics: text, generate: text });

/** All Markdown that jobs write for GitHub, with one text in every field from other sources. */
const DOCUMENTS: Readonly<Record<string, (text: string) => string>> = {
  "the comment of `diff`": (text) => markdownComment([filledWith(text), filledWith(`${text} twice`)]),
  "the comment of a pull request": (text) =>
    previewText(
      [
        { stack: text, diff: null, failure: text },
        { stack: text, diff: filledWith(text), failure: null },
      ],
      { headSha: text, runUrl: OWN_URL, hasFailed: true, missing: [text], unread: 2 },
    ),
  "the endpoints of a stack": (text) =>
    outputsSummary(
      text,
      {
        endpoints: {
          gateway: text,
          mongo: text,
          vector: text,
          encoders: triton(text),
          models: { [text]: triton(text) },
          gatewayReach: text,
          reach: "cluster",
        },
        notes: [text, text],
      },
      text,
    ),
  "the failure of a stack": (text) => previewStackFailure(text, text, OWN_URL),
  "the failure of a stack, of a run without an address": (text) => previewStackFailure(text, text, text),
  "the issue of drift": (text) =>
    driftReport(text, {
      resources: [{ operation: text, urn: text, paths: [text] }],
      ignored: [{ urn: text, path: text, reason: text }],
    }),
  "a block of code": (text) => codeBlock("console", [text, text]),
};

/** Links, headings and blocks, without sections, which are split and folded when they are long. */
const structure = ({ tags }: Page) =>
  tags.filter((tag) => /^(h[1-35-6]|a\b|hr|input|img|table|blockquote|pre|br|del|sup|section)/.test(tag));

/** The program's titles, without numbers of entries. */
const titles = (page: Page) =>
  new Set(page.titles.map((title) => title.replace(/(, the others)? \(\d+\)$/, "")));

const OWN_ELEMENTS: ReadonlySet<string> = new Set([
  ...["h3", "h4", "p", "ul", "li", "code", "pre", "strong", "em", "details", "summary", "blockquote"],
  'code class="language-console"',
  `a href="${OWN_URL}"`,
]);

describe.each(["markdown-it", "cmark-gfm"] as const)("by %s", (parser) => {
  const options = needs(parser === "cmark-gfm" ? missingCmark : undefined);
  const page = (markdown: string) => pageOf(PARSERS[parser]?.(markdown) ?? "");
  // Several in one page, because a parser is a process.
  const inlines = fc.array(fc.array(span, { maxLength: 5 }), { minLength: 1, maxLength: 10 });

  test("any spans become a paragraph or a point with only code and strong words", options, () => {
    const check = (several: readonly Inline[]) => {
      const paragraphs = several.map((inline) => {
        const markdown = markdownInline(inline);
        return `${markdown}\n\n- ${markdown}\n  - ${markdown}\n\n> ${markdown}`;
      });
      const shown = page(paragraphs.join("\n\n"));
      const own = ["blockquote", "code", "li", "p", "strong", "ul"];
      expect(elements(shown).filter((tag) => !own.includes(tag))).toEqual([]);
      expect(shown.tags.filter((tag) => tag === "li")).toHaveLength(2 * several.length);
      expect(references(shown)).toEqual([]);
    };
    check(HOSTILE.map((text) => [text]));
    fc.assert(fc.property(inlines, check), { numRuns: times(50, 2_000) });
  });

  test("a text is read as it was written, except the backticks of its code", options, () => {
    const words = (text: string) => text.replaceAll(/[`"\s]/g, "");
    const check = (several: readonly Inline[]) => {
      // Strong words begin and end at white space.
      const apart = several.map((inline) =>
        joined(
          inline.map((one) => [one]),
          " ",
        ),
      );
      const { text } = page(apart.map(markdownInline).join("\n\n"));
      expect(words(text)).toBe(words(apart.map(plainInline).join("")));
    };
    check(HOSTILE.map((text) => [text]));
    fc.assert(fc.property(inlines, check), { numRuns: times(50, 2_000) });
  });

  test.each(Object.keys(DOCUMENTS))(
    "%s has no element and no reference that its values bring",
    options,
    (name) => {
      const write = DOCUMENTS[name] as (text: string) => string;
      const plain = page(write("word"));
      const check = (text: string) => {
        const shown = page(write(text));
        expect(structure(shown)).toEqual(structure(plain));
        expect(titles(shown)).toEqual(titles(plain));
        expect(elements(shown).filter((tag) => !OWN_ELEMENTS.has(tag))).toEqual([]);
        expect(references(shown)).toEqual([]);
      };
      for (const text of HOSTILE) check(text);
      const texts = hostileText.filter((text) => text !== "");
      fc.assert(fc.property(texts, check), { numRuns: times(10, 1_000) });
    },
  );
});

/** Texts whose repetitions take hours in a parser that tries every end for each beginning. */
const PARTS = ["`", "` ", "@ ", ".", ":a", "(", '"', "1", " ", "\u0301", "a", "::", "/", "s3:*,", "A=", "[ "];

test.each(PARTS)("a comment of 20 stacks whose texts are 90 kB of %j keeps to GitHub's limit", (part) => {
  const text = part.repeat(90_000 / part.length).concat("x");
  const stacks = Array.from({ length: 20 }, (_, index) => `stack-${index}`);
  const reports = stacks.map((stack) => ({ stack, diff: { ...filledWith(text), stack }, failure: null }));
  const run = { headSha: text, runUrl: OWN_URL, hasFailed: true, missing: stacks, unread: 1 };
  expect(previewText(reports, run).length).toBeLessThan(65_536);
});
