/** Trees that `diff` compares: checked out by Git, with packages of npm, rendered in their own processes. */
import { execFileSync } from "node:child_process";
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
import { commitOf, outputOf, providePackages, withBase, withBaseTree } from "../../scripts/diff/base-tree.ts";
import { compareWithBase, fileInBase } from "../../scripts/diff/compare.ts";
import { renderTree } from "../../scripts/diff/rendered-tree.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { runCommand } from "../scripts/plan/run-plan.ts";

/** Runs Git with an author. @returns Its output. */
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
    await providePackages(project, projectRoot);
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

  test("members of the workspace have their own packages too", () => {
    const own = "containers/services/gateway/node_modules/undici";
    expect(existsSync(join(project, own))).toBe(existsSync(join(projectRoot, own)));
  });

  test("a program that prints too much is not reported as slow", async () => {
    const argv = ["-e", `process.stdout.write("x".repeat(${65 * 2 ** 20}))`];
    await expect(outputOf(process.execPath, argv, { cwd: folder, timeoutSeconds: 60 })).rejects.toThrow(
      "printed more than 64 MiB",
    );
  });

  test.each(["", '{"version":', "null"])("a tree whose program writes %j is not rendered", async (text) => {
    const broken = mkdtempSync(join(folder, "broken-"));
    for (const file of ["loader/run.mjs", "scripts/diff/render-child.ts"]) {
      mkdirSync(dirname(join(broken, file)), { recursive: true });
      writeFileSync(
        join(broken, file),
        `import("node:fs").then((fs) => fs.writeFileSync("out.json", '${text}'));`,
      );
    }
    const request = {
      project: broken,
      place: broken,
      stack: "a",
      configFile: join(broken, "a.yaml"),
      secretKey: "0",
    };
    const tree = await renderTree({ ...request, out: join(broken, "out.json") });
    expect(tree).toMatchObject({ resources: null, failure: "Its program wrote no readable output." });
  });

  const ENTRY_POINT = "scripts/diff/render-child.ts";

  test("a stack is new if the base has no file of it", async () => {
    copyFileSync(join(project, "Pulumi.local.yaml"), join(project, "Pulumi.fresh.yaml"));
    const { base, resources, secrets } = await compare("fresh");
    expect(base).toMatchObject({ ref: "HEAD", failure: "It has no Pulumi.fresh.yaml: the stack is new." });
    expect(resources?.map(({ kind }) => kind)).toEqual(Array(8).fill("create"));
    expect(secrets).toEqual([]);
  });

  test("a commit with the same program is not checked out, and the difference has the same bytes as if it were", async () => {
    const configFile = join(project, "Pulumi.onprem.yaml");
    const text = readFileSync(configFile, "utf8");
    const programOf = () =>
      withBase(project, "HEAD", "Pulumi.onprem.yaml", async ({ program, project: base }) => ({
        isOwn: program === project,
        text: readFileSync(join(base, "Pulumi.onprem.yaml"), "utf8"),
      }));
    writeFileSync(configFile, text.replace("replicas: 2", "replicas: 1"));
    const other = join(project, "untracked.ts");
    const [fast, quick] = [await compare("onprem"), await programOf()];
    writeFileSync(other, "");
    try {
      expect([quick, await programOf()]).toEqual([
        { isOwn: true, text },
        { isOwn: false, text },
      ]);
      expect(JSON.stringify(await compare("onprem"))).toBe(JSON.stringify(fast));
      expect(fast.resources?.length).toBeGreaterThan(0);
    } finally {
      rmSync(other);
    }
    writeFileSync(configFile, `${text}# A comment.\n`);
    expect(await compare("onprem")).toMatchObject({ resources: [], settings: [] });
  });

  test("a stack file from outside the project is compared with the stack file of the base", async () => {
    const outside = join(folder, "changed.yaml");
    const text = readFileSync(join(project, "Pulumi.local.yaml"), "utf8");
    writeFileSync(outside, `${text.trimEnd()}\n  engine-room:gateway: { port: 8123 }\n`);
    const stack = { name: "local", configFile: outside };
    const { base, head, resources } = await compareWithBase({ stack, ref: "HEAD", project });
    expect([base.failure, base.hasStack, head.failure, head.problems]).toEqual([null, true, null, []]);
    expect(resources?.map(({ kind, name }) => [kind, name])).toEqual([["update", "gateway-server"]]);
  });

  test("a base without the program that renders it is older than `diff`", async () => {
    git("rm", "--quiet", ENTRY_POINT);
    git("commit", "--quiet", "--message", "older");
    git("checkout", "--quiet", "HEAD~1", "--", ENTRY_POINT);
    try {
      expect((await compare("local")).base.failure).toBe(
        "It has no scripts/diff/render-child.ts: it is older than `diff`.",
      );
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
      // Paths are relative to the tree.
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
    // The stack and its components too.
    expect(unchanged).toBe(10);
  });

  test("an unknown commit leaves no temporary folder behind", async () => {
    const temporary = mkdtempSync(join(folder, "temporary-"));
    vi.stubEnv("TMPDIR", temporary);
    const stack = { name: "local", configFile: join(project, "Pulumi.local.yaml") };
    await expect(compareWithBase({ stack, ref: "no-such-commit", project })).rejects.toThrow("no commit");
    expect(readdirSync(temporary)).toEqual([]);
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
    // As `npm ci` would: a package, a scoped one, and the links of the workspace.
    write("node_modules/plain/text", "plain");
    write("node_modules/@other/scoped/text", "scoped");
    write("node_modules/.cache/text", "cache");
    mkdirSync(join(project, "node_modules/@small"));
    symlinkSync("../../members/inner", join(project, "node_modules/@small/inner"));
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

  test("the base has its own files and packages, and is removed afterwards", async () => {
    write("members/inner/text", "changed");
    write("untracked", "new");
    git("add", "members/inner/text");
    const before = [git("status", "--porcelain"), readFileSync(join(project, ".git/index")).toString("hex")];
    const seen = await withBaseTree(
      project,
      await commitOf(project, "HEAD"),
      async ({ project: base, failure }) => {
        expect(failure).toBeNull();
        const at = (path: string) => readFileSync(join(base, path), "utf8");
        expect(at("node_modules/@small/inner/text")).toBe("base");
        expect(realpathSync(join(base, "node_modules/@small/inner"))).toBe(
          realpathSync(join(base, "members/inner")),
        );
        expect(["plain/text", "@other/scoped/text"].map((path) => at(join("node_modules", path)))).toEqual([
          "plain",
          "scoped",
        ]);
        expect(existsSync(join(base, "untracked"))).toBe(false);
        expect(existsSync(join(base, "node_modules/.cache"))).toBe(false);
        // Clean-up by another process meanwhile.
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

  test("a base is removed after a failure, and without a lock file", async () => {
    await expect(withBaseTree(project, "HEAD", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    git("rm", "--quiet", "--cached", "package-lock.json");
    git("commit", "--quiet", "--message", "no lock");
    expect(await withBaseTree(project, "HEAD", async ({ failure }) => failure)).toBe(
      "`npm ci` of its lock file failed; its output gives the reason.",
    );
    expect(git("worktree", "list").trim().split("\n")).toHaveLength(1);
    expect(readdirSync(join(folder, "cache/worktrees"))).toEqual([]);
  });

  test("an unknown commit is named, with what to do", async () => {
    expect(await commitOf(project, "HEAD")).toBe(git("rev-parse", "HEAD").trim());
    await expect(commitOf(project, "--help")).rejects.toThrow('Git has no commit "--help" here; fetch it');
  });

  test("the base has a stack's file at the same path, or by the stack's name for a file from outside", async () => {
    const fileOf = (configFile: string) => fileInBase({ name: "a", configFile }, project);
    expect(await fileOf(join(project, "stacks/Pulumi.a.yaml"))).toBe("stacks/Pulumi.a.yaml");
    expect(await fileOf(join(folder, "other.yaml"))).toBe("Pulumi.a.yaml");
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
    const seen = await withBaseTree(project, "HEAD~1", async ({ project: base, failure }) => {
      expect(failure).toBeNull();
      return versionIn(base);
    });
    expect([seen, versionIn(project)]).toEqual(["1.0.0", "2.0.0"]);
  });

  const failureOfBase = () => withBaseTree(project, "HEAD", async ({ failure }) => failure);

  test("a lock file that does not match package.json is a failure with the same bytes each time", async () => {
    commitWith({ version: "1.0.0", resolved: packed("1.0.0") }, "2.0.0");
    writeFileSync(join(project, ".npmrc"), "registry=http://127.0.0.1:1/\nfetch-retries=0\n");
    git("add", ".");
    git("commit", "--quiet", "--message", "nowhere");
    expect(await failureOfBase()).toBe("`npm ci` of its lock file failed; its output gives the reason.");
  });

  test("an unreachable registry is a failure, and npm's own output goes to standard error", async () => {
    commitWith({ version: "1.0.0", resolved: "http://127.0.0.1:1/small.tgz" });
    writeFileSync(join(project, ".npmrc"), "fetch-retries=0\n");
    git("add", ".");
    git("commit", "--quiet", "--message", "nowhere");
    expect(await failureOfBase()).toBe("`npm ci` of its lock file failed; its output gives the reason.");
    expect(vi.mocked(process.stderr.write).mock.calls.join("")).toContain("127.0.0.1:1");
  });
});
