/** Bases whose lock file is another one, installed by npm itself. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { npmFailure } from "../../../scripts/diff/npm-failure.ts";
import { withBaseTree } from "../../../scripts/diff/trees.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "engine-room-installed-")));
let project: string;
let projects = 0;
beforeEach(() => {
  projects += 1;
  project = join(folder, `project-${projects}`);
  mkdirSync(project);
  git("init", "--quiet");
  writeFileSync(join(project, ".gitignore"), "node_modules/\n");
  vi.stubEnv("ENGINE_ROOM_CACHE_DIR", join(folder, `cache-${projects}`));
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});
afterAll(() => rmSync(folder, { recursive: true }));

function git(...argv: readonly string[]): void {
  execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.org", ...argv], { cwd: project });
}

/** A package without a registry, as npm packs it. */
function packed(version: string): string {
  const source = mkdtempSync(join(folder, "small-"));
  writeFileSync(join(source, "package.json"), JSON.stringify({ name: "small", version }));
  execFileSync("npm", ["pack", "--silent", "--ignore-scripts"], { cwd: source });
  return `file:${join(source, `small-${version}.tgz`)}`;
}

interface LockedPackage {
  readonly version: string;
  readonly resolved: string;
}

function commitWith(locked: LockedPackage, wanted = locked.version): void {
  const root = { name: "project", version: "1.0.0", dependencies: { small: wanted } };
  writeFileSync(join(project, "package.json"), JSON.stringify(root));
  const packages = { "": root, "node_modules/small": locked };
  const lock = { name: root.name, version: root.version, lockfileVersion: 3, packages };
  writeFileSync(join(project, "package-lock.json"), JSON.stringify(lock));
  git("add", ".");
  git("commit", "--quiet", "--message", wanted);
}

const versionIn = (checkout: string): string =>
  JSON.parse(readFileSync(join(checkout, "node_modules/small/package.json"), "utf8")).version;

test("the base has the packages of its lock file, and the working tree keeps its own", async () => {
  commitWith({ version: "1.0.0", resolved: packed("1.0.0") });
  commitWith({ version: "2.0.0", resolved: packed("2.0.0") });
  execFileSync("npm", ["ci", "--silent", "--no-audit"], { cwd: project });
  const seen = await withBaseTree({ project, commit: "HEAD~1" }, async ({ project: base, failure }) => {
    expect(failure).toBeNull();
    return versionIn(base ?? "");
  });
  expect([seen, versionIn(project)]).toEqual(["1.0.0", "2.0.0"]);
});

const failureOfBase = () => withBaseTree({ project, commit: "HEAD" }, async ({ failure }) => failure);

test("a lock file that package.json has outgrown: the cause, and twice the same bytes", async () => {
  commitWith({ version: "1.0.0", resolved: packed("1.0.0") }, "2.0.0");
  writeFileSync(join(project, ".npmrc"), "registry=http://127.0.0.1:1/\nfetch-retries=0\n");
  git("add", ".");
  git("commit", "--quiet", "--message", "nowhere");
  const failure = await failureOfBase();
  expect(failure).toMatch(/^`npm ci` of its lock file ended with exit code 1: E[A-Z]+/);
  expect(failure).not.toMatch(/_logs|complete log|engine-room-installed/);
  expect(await failureOfBase()).toBe(failure);
});

test("a registry that can't be reached: the code alone, and all that npm said in the log", async () => {
  commitWith({ version: "1.0.0", resolved: "http://127.0.0.1:1/small.tgz" });
  writeFileSync(join(project, ".npmrc"), "fetch-retries=0\n");
  git("add", ".");
  git("commit", "--quiet", "--message", "nowhere");
  expect(await failureOfBase()).toBe(
    "`npm ci` of its lock file ended with exit code 1: ECONNREFUSED; its own output says more.",
  );
  expect(vi.mocked(process.stderr.write).mock.calls.join("")).toContain("127.0.0.1:1");
});

const LOG =
  "A complete log of this run can be found in: /root/.npm/_logs/2026-01-02T03_04_05_678Z-debug-0.log";

test.each([
  [
    "npm error",
    [
      "code EUSAGE",
      "",
      "`npm ci` can only install packages when package.json and the lock file are in sync.",
      "",
      "Missing: small@1.0.0 from lock file",
      "",
      "Clean install a project",
      "Usage:",
      "npm ci",
      LOG,
    ],
    "EUSAGE: `npm ci` can only install packages when package.json and the lock file are in sync. Missing: small@1.0.0 from lock file",
  ],
  [
    "npm ERR!",
    [
      "code E404",
      "404 Not Found - GET https://registry.example.org/small",
      "404",
      "404 It is not there.",
      LOG,
    ],
    "E404: Not Found - GET https://registry.example.org/small It is not there.",
  ],
  [
    "npm error",
    ["code EJSONPARSE", "path /cache/1.9-abc/package.json", "JSON.parse it is no JSON", LOG],
    "EJSONPARSE: path ./package.json JSON.parse it is no JSON",
  ],
  ["npm error", ["errno -2", LOG], "it gave no code of an error."],
])("%s, %j", (mark, lines, sentence) => {
  const stderr = ["other words", ...lines.map((line) => `${mark} ${line}`.trimEnd())].join("\n");
  expect(npmFailure(stderr, "/cache/1.9-abc")).toBe(sentence);
});
