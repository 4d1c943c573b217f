import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { baseFile, commitOf, withBaseTree } from "../../../scripts/diff/trees.ts";

let folder: string;
let project: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "engine-room-trees-")));
  project = join(folder, "project");
  vi.stubEnv("ENGINE_ROOM_CACHE_DIR", join(folder, "cache"));
  write("package.json", '{ "name": "small", "workspaces": ["members/*"] }');
  write(
    "package-lock.json",
    JSON.stringify({
      lockfileVersion: 3,
      packages: { "": {}, "members/inner": {}, "node_modules/@small/inner": { link: true } },
    }),
  );
  write("members/inner/package.json", '{ "name": "@small/inner" }');
  write("members/inner/text", "base");
  write(".gitignore", "node_modules/\n");
  git("init", "--quiet");
  git("add", ".");
  git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "base");
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

function write(path: string, text: string, root = project): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function git(...argv: readonly string[]): string {
  return execFileSync("git", argv, { cwd: project, encoding: "utf8" });
}

/** As `npm ci` would: a package, a scoped one, one for a member alone, and the links of the workspace. */
let installs = 0;
async function install(target: string): Promise<void> {
  installs += 1;
  write("node_modules/plain/text", "plain", target);
  write("node_modules/@other/scoped/text", "scoped", target);
  write("node_modules/.bin/tool", "tool", target);
  write("members/inner/node_modules/own/text", "own", target);
  mkdirSync(join(target, "node_modules/@small"));
  symlinkSync("../../members/inner", join(target, "node_modules/@small/inner"));
}

test("the base has its own files and packages, and leaves nothing behind", async () => {
  write("members/inner/text", "changed");
  write("untracked", "new");
  git("add", "members/inner/text");
  const before = [git("status", "--porcelain"), readFileSync(join(project, ".git/index")).toString("hex")];
  const seen = await withBaseTree(
    { project, commit: await commitOf(project, "HEAD"), install },
    async ({ project: base, failure }) => {
      expect(failure).toBeNull();
      const at = (path: string) => readFileSync(join(base ?? "", path), "utf8");
      expect(at("node_modules/@small/inner/text")).toBe("base");
      expect(realpathSync(join(base ?? "", "node_modules/@small/inner"))).toBe(
        realpathSync(join(base ?? "", "members/inner")),
      );
      expect(
        ["plain/text", "@other/scoped/text", ".bin/tool"].map((path) => at(join("node_modules", path))),
      ).toEqual(["plain", "scoped", "tool"]);
      expect(at("members/inner/node_modules/own/text")).toBe("own");
      expect(existsSync(join(base ?? "", "untracked"))).toBe(false);
      // A clean-up of somebody else, meanwhile.
      git("worktree", "prune");
      return base;
    },
  );
  expect(existsSync(seen ?? "")).toBe(false);
  expect(git("worktree", "list").trim().split("\n")).toHaveLength(1);
  expect([git("status", "--porcelain"), readFileSync(join(project, ".git/index")).toString("hex")]).toEqual(
    before,
  );
});

test("packages of one lock file are installed once, also by two at the same time", async () => {
  installs = 0;
  const text = () =>
    withBaseTree({ project, commit: "HEAD", install }, async ({ project: base }) =>
      readFileSync(join(base ?? "", "node_modules/plain/text"), "utf8"),
    );
  expect(await Promise.all([text(), text()])).toEqual(["plain", "plain"]);
  const installed = installs;
  expect(await text()).toBe("plain");
  expect(installs).toBe(installed);
  expect(readdirSync(join(folder, "cache/node-packages"))).toHaveLength(1);
});

test("packages of the working tree serve where the lock file is the same", async () => {
  await install(project);
  const { createHash } = await import("node:crypto");
  const sha256 = createHash("sha256")
    .update(readFileSync(join(project, "package-lock.json")))
    .digest("hex");
  write("node_modules/.engine-room-lock", sha256);
  const refuse = () => Promise.reject(new Error("Nothing is to be installed."));
  await withBaseTree({ project, commit: "HEAD", install: refuse }, async ({ project: base }) => {
    expect(readFileSync(join(base ?? "", "node_modules/@small/inner/text"), "utf8")).toBe("base");
    expect(realpathSync(join(base ?? "", "node_modules/plain"))).toBe(join(project, "node_modules/plain"));
  });
});

test("a failed use, and a base without a lock file, end with the same clean-up", async () => {
  await expect(
    withBaseTree({ project, commit: "HEAD", install }, () => Promise.reject(new Error("no"))),
  ).rejects.toThrow("no");
  git("rm", "--quiet", "--cached", "package-lock.json");
  git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "no lock");
  expect(await withBaseTree({ project, commit: "HEAD", install }, async ({ failure }) => failure)).toBe(
    "It has no package-lock.json.",
  );
  expect(git("worktree", "list").trim().split("\n")).toHaveLength(1);
  expect(readdirSync(join(folder, "cache/worktrees"))).toEqual([]);
});

test("a commit that Git does not have is named, with what to do", async () => {
  expect(await commitOf(project, "HEAD")).toBe(git("rev-parse", "HEAD").trim());
  await expect(commitOf(project, "--help")).rejects.toThrow('Git has no commit "--help" here; fetch it');
});

test("a stack file outside of the project serves both sides", async () => {
  expect(await baseFile(join(project, "Pulumi.a.yaml"), project, "/base")).toBe("/base/Pulumi.a.yaml");
  expect(await baseFile(join(folder, "Pulumi.a.yaml"), project, "/base")).toBe(join(folder, "Pulumi.a.yaml"));
});
