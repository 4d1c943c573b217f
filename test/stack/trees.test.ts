/** Trees that `diff` compares: checked out by Git, with packages of npm, rendered by processes of their own. */
import { execFileSync, spawnSync } from "node:child_process";
import {
  appendFileSync,
  copyFileSync,
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
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { compareWithBase } from "../../scripts/diff/compare-trees.ts";
import { linkNodePackages } from "../../scripts/diff/node-packages.ts";
import { npmFailure } from "../../scripts/diff/npm-failure.ts";
import { baseFile, commitOf, withBaseTree } from "../../scripts/diff/trees.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { runCommand } from "../scripts/plan/run-plan.ts";

/** Git with an author. @returns What it prints. */
function gitIn(project: string, ...argv: readonly string[]): string {
  const author = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
  return execFileSync("git", [...author, ...argv], { cwd: project, encoding: "utf8" });
}

describe("two trees of the project", () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "engine-room-compare-")));

  const project = join(folder, "project");

  beforeEach(() => {
    vi.stubEnv("ENGINE_ROOM_CACHE_DIR", join(folder, "cache"));
  });

  beforeAll(async () => {
    vi.stubEnv("ENGINE_ROOM_CACHE_DIR", join(folder, "cache"));
    execFileSync("git", ["clone", "--quiet", "--shared", projectRoot, project]);
    await linkNodePackages(project, projectRoot);
  }, 60_000);

  afterEach(() => {
    vi.unstubAllEnvs();
    git("checkout", "--quiet", ".");
  });

  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  const git = (...argv: readonly string[]) => gitIn(project, ...argv);

  function compare(stack: string) {
    const configFile = join(project, `Pulumi.${stack}.yaml`);
    return compareWithBase({ stack: { name: stack, configFile }, ref: "HEAD", project });
  }

  const ENTRY_POINT = "scripts/diff/render-child.ts";

  test("a stack is new where the base has no file of it", async () => {
    copyFileSync(join(project, "Pulumi.local.yaml"), join(project, "Pulumi.fresh.yaml"));
    const { base, resources, secrets } = await compare("fresh");
    expect(base).toMatchObject({ ref: "HEAD", failure: "It has no Pulumi.fresh.yaml: the stack is new." });
    expect(resources?.map(({ kind }) => kind)).toEqual(Array(8).fill("create"));
    expect(secrets).toEqual([]);
  });

  test("older trees are rendered too: by their commands without the entry point, by tsx without it in the bundle", async () => {
    const loader = join(project, "loader/import-source.mjs");
    const entryPoints = readFileSync(loader, "utf8");
    expect(entryPoints).toContain(`  "${ENTRY_POINT}",\n`);
    writeFileSync(loader, entryPoints.replace(`  "${ENTRY_POINT}",\n`, ""));
    git("rm", "--quiet", ENTRY_POINT);
    git("commit", "--quiet", "--all", "--message", "older");
    git("checkout", "--quiet", "HEAD~1", "--", ENTRY_POINT);
    try {
      const { base, head, resources, unchanged } = await compare("local");
      expect([base.failure, head.failure, resources, unchanged]).toEqual([null, null, [], 8]);
    } finally {
      git("reset", "--quiet", "--hard", "HEAD~1");
    }
  });

  test("each tree has its own reason: a base whose program fails, and a working tree whose stack file has a problem", async () => {
    writeFileSync(join(project, "infra/index.ts"), 'throw new Error("It is broken: " + import.meta.url);\n');
    git("commit", "--quiet", "--all", "--message", "broken");
    appendFileSync(join(project, "Pulumi.local.yaml"), "  engine-room:vector: { vectorSize: 1 }\n");
    try {
      const { base, head, resources } = await compare("local");
      // Paths are as they are in the tree, wherever that lies.
      expect(base).toMatchObject({ ref: "HEAD", failure: "It is broken: infra/index.ts", problems: [] });
      expect(head).toMatchObject({ ref: null, commit: null, failure: null, problems: [{ path: "vector" }] });
      expect(resources).toBeNull();
    } finally {
      git("reset", "--quiet", "--hard", "HEAD~1");
    }
  });

  test("a component with another type and another name of its child is unchanged with aliases, and replaced without", async () => {
    const refactor = (file: string, ...edits: readonly (readonly [found: string, now: string])[]) => {
      const path = join(project, file);
      const text = edits.reduce(
        (edited, [found, now]) => {
          expect(edited).toContain(found);
          return edited.replace(found, now);
        },
        readFileSync(path, "utf8"),
      );
      writeFileSync(path, text);
    };
    refactor(
      "components/services/local-services.ts",
      [
        '"services:LocalGateway", name)',
        '"services:Gateway", name, { aliases: [{ type: "engine-room:services:LocalGateway" }] })',
      ],
      ["}-server`,", '}-server`.replace("gateway-server", "gateway-process"),'],
      [
        "{ parent: this })",
        '{ parent: this, aliases: name === "gateway" ? [{ name: "gateway-server" }] : [] })',
      ],
      ['"services:LocalDatabase"', '"services:Database"'],
    );
    const { resources, unchanged } = await compare("local");
    expect(resources?.map(({ kind, name }) => [kind, name])).toEqual([
      ["delete", "mongo-server"],
      ["delete", "vector-server"],
      ["create", "mongo-server"],
      ["create", "vector-server"],
    ]);
    expect(unchanged).toBe(6);
  });

  test("an unknown commit leaves no temporary folder behind", async () => {
    const temporary = mkdtempSync(join(folder, "temporary-"));
    vi.stubEnv("TMPDIR", temporary);
    const stack = { name: "local", configFile: join(project, "Pulumi.local.yaml") };
    await expect(compareWithBase({ stack, ref: "no-such-commit", project })).rejects.toThrow("no commit");
    expect(readdirSync(temporary)).toEqual([]);
  });

  test("a temporary folder is removed also when the process is told to end", () => {
    const temporary = mkdtempSync(join(folder, "ended-"));
    const module = join(projectRoot, "scripts/diff/temporary-folders.ts");
    const program = `
    import { withFolder } from ${JSON.stringify(module)};
    setInterval(() => {}, 1000);
    await withFolder(${JSON.stringify(temporary)}, async () => {
      process.kill(process.pid, "SIGTERM");
      await new Promise(() => {});
    });`;
    const argv = ["--import", "tsx", "--input-type=module", "--eval", program];
    expect(spawnSync(process.execPath, argv, { cwd: projectRoot, timeout: 60_000 }).status).toBe(143);
    expect(existsSync(temporary)).toBe(false);
  });

  test("`diff` says what is missing or wrong on its command line", async () => {
    expect(await runCommand("diff")).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("--base"),
    });
    expect(await runCommand("diff", "--base", "HEAD", "--format", "xml")).toMatchObject({ exitCode: 2 });
    expect(await runCommand("diff", "--base", "no-such-commit")).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('Git has no commit "no-such-commit"'),
    });
    expect(await runCommand("diff", "--base", "HEAD", "--out", "no/such/folder.txt")).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(
        /^There is no folder .*no\/such for --out; make it, or name a file elsewhere\.$/m,
      ),
    });
  });

  test("a stack without a file in the working tree is reported with a path relative to the project", async () => {
    const { exitCode, stdout, stderr } = await runCommand("diff", "--base", "HEAD", "--stack", "typo");
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toContain("The stack typo has no file Pulumi.typo.yaml.");
    expect(stderr).not.toContain(projectRoot);
  });
});

describe("the tree of a base", () => {
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
    git("commit", "--quiet", "--message", "base");
  });

  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  function write(path: string, text: string, root = project): void {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }

  const git = (...argv: readonly string[]) => gitIn(project, ...argv);

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

  test("the base has its own files and packages, and is removed afterwards", async () => {
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

  test("packages of one lock file are installed once, also for two bases at the same time", async () => {
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

  test("a base with the same lock file uses the packages of the working tree", async () => {
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

  test("a base is removed after a failure, and without a lock file", async () => {
    await expect(
      withBaseTree({ project, commit: "HEAD", install }, () => Promise.reject(new Error("no"))),
    ).rejects.toThrow("no");
    git("rm", "--quiet", "--cached", "package-lock.json");
    git("commit", "--quiet", "--message", "no lock");
    expect(await withBaseTree({ project, commit: "HEAD", install }, async ({ failure }) => failure)).toBe(
      "It has no package-lock.json.",
    );
    expect(git("worktree", "list").trim().split("\n")).toHaveLength(1);
    expect(readdirSync(join(folder, "cache/worktrees"))).toEqual([]);
  });

  test("an unknown commit is named, with what to do", async () => {
    expect(await commitOf(project, "HEAD")).toBe(git("rev-parse", "HEAD").trim());
    await expect(commitOf(project, "--help")).rejects.toThrow('Git has no commit "--help" here; fetch it');
  });

  test("a stack file outside the project is used for both sides", async () => {
    expect(await baseFile(join(project, "Pulumi.a.yaml"), project, "/base")).toBe("/base/Pulumi.a.yaml");
    expect(await baseFile(join(folder, "Pulumi.a.yaml"), project, "/base")).toBe(
      join(folder, "Pulumi.a.yaml"),
    );
  });
});

describe("packages of another lock file", () => {
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

  const git = (...argv: readonly string[]) => gitIn(project, ...argv);

  /** A package without a registry, as `npm pack` makes it. */
  function packed(version: string): string {
    const source = mkdtempSync(join(folder, "small-"));
    mkdirSync(join(source, "package"));
    writeFileSync(join(source, "package/package.json"), JSON.stringify({ name: "small", version }));
    const file = join(source, `small-${version}.tgz`);
    execFileSync("tar", ["-czf", file, "package"], { cwd: source });
    return `file:${file}`;
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

  test("a lock file that does not match package.json is reported with npm's reason, the same bytes each time", async () => {
    commitWith({ version: "1.0.0", resolved: packed("1.0.0") }, "2.0.0");
    writeFileSync(join(project, ".npmrc"), "registry=http://127.0.0.1:1/\nfetch-retries=0\n");
    git("add", ".");
    git("commit", "--quiet", "--message", "nowhere");
    const failure = await failureOfBase();
    expect(failure).toMatch(/^`npm ci` of its lock file ended with exit code 1: E[A-Z]+/);
    expect(failure).not.toMatch(/_logs|complete log|engine-room-installed/);
    expect(await failureOfBase()).toBe(failure);
  });

  test("an unreachable registry is reported with npm's code, and npm's own output goes to standard error", async () => {
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
  ])('what npm says in lines of "%s" is reported in one sentence: %j', (mark, lines, sentence) => {
    const stderr = ["other words", ...lines.map((line) => `${mark} ${line}`.trimEnd())].join("\n");
    expect(npmFailure(stderr, "/cache/1.9-abc")).toBe(sentence);
  });
});
