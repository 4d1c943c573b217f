/** docs/architecture.md against the tree: every folder is described, and every path in it exists. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

const text = readFileSync(join(projectRoot, "docs/architecture.md"), "utf8");

const codes = [...text.matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);

const tracked = spawnSync("git", ["ls-files"], { cwd: projectRoot, encoding: "utf8" })
  .stdout.split("\n")
  .filter((file) => file !== "" && existsSync(join(projectRoot, file)));

/** Folders whose folders are described one by one. */
const OPEN = [".", "infra", "infra/plan", "components", "containers", "containers/services", "scripts"];

/** Where a shortened path of the document may begin. */
const ROOTS = [
  "",
  "infra",
  "infra/plan",
  "infra/plan/kubernetes",
  "infra/plan/aws",
  "infra/plan/catalogue",
  "containers/services/gateway",
];

const isPresent = (path: string) => ROOTS.some((root) => existsSync(join(projectRoot, root, path)));

test("docs/architecture.md describes every folder of the tree", () => {
  const folders = new Set(
    tracked.flatMap((file) => {
      const parents = file
        .split("/")
        .slice(0, -1)
        .map((_, index, names) => names.slice(0, index + 1).join("/"));
      return parents.filter((folder) => OPEN.includes(dirname(folder)) && !/^\./.test(folder));
    }),
  );
  const isDescribed = (folder: string) =>
    codes.some((code) => code === `${folder}/` || code.startsWith(`${folder}/`));
  expect(folders.size).toBeGreaterThan(60);
  expect([...folders].filter((folder) => !isDescribed(folder))).toEqual([]);
});

test("every folder and file that docs/architecture.md names is in the tree", () => {
  const paths = codes.filter(
    (code) => /^[\w.-]+(?:\/[\w.-]*)+$/.test(code) || /\.(?:ts|py|json|yaml)$/.test(code),
  );
  expect(paths.length).toBeGreaterThan(70);
  expect(paths.filter((path) => !/[<>*]/.test(path) && !isPresent(path))).toEqual([]);
});

test("every name of code in the walk of docs/architecture.md is declared in the program", () => {
  const [, walk = ""] = /^## A model from the stack file to its URL$([\s\S]*?)^## /m.exec(text) ?? [];
  const names = [...walk.matchAll(/`([a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*)`/g)].map(([, name = ""]) => name);
  const sources = tracked
    .filter((file) => /^infra\/.*\.ts$/.test(file))
    .map((file) => readFileSync(join(projectRoot, file), "utf8"));
  const isDeclared = (name: string) =>
    sources.some((source) =>
      new RegExp(`\\b(?:function|const|interface|type|class) ${name}\\b`).test(source),
    );
  expect(names.length).toBeGreaterThan(12);
  expect(names.filter((name) => !isDeclared(name))).toEqual([]);
});

test("docs/decisions/README.md has the title of every decision, and the decision that supersedes it", () => {
  const folder = "docs/decisions";
  const rows = readdirSync(join(projectRoot, folder))
    .filter((name) => /^\d{4}-/.test(name))
    .toSorted()
    .map((name) => {
      const decision = readFileSync(join(projectRoot, folder, name), "utf8");
      const [, title = ""] = /^# (.+)$/m.exec(decision) ?? [];
      const [, other] = /^Superseded by \[(\d{4})\]/m.exec(decision) ?? [];
      return `- [${title}](${name})${other === undefined ? "" : `, superseded by ${other}`}`;
    });
  const index = readFileSync(join(projectRoot, folder, "README.md"), "utf8");
  expect(index.split("\n").filter((line) => line.startsWith("- "))).toEqual(rows);
});
