import { execFileSync, spawnSync } from "node:child_process";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { compareWithBase } from "../../../scripts/diff/compare-trees.ts";
import { linkNodePackages } from "../../../scripts/diff/node-packages.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { runCommand } from "../plan/run-plan.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "engine-room-compare-")));
const project = join(folder, "project");
beforeAll(async () => {
  vi.stubEnv("ENGINE_ROOM_CACHE_DIR", join(folder, "cache"));
  execFileSync("git", ["clone", "--quiet", "--shared", projectRoot, project]);
  await linkNodePackages(project, projectRoot);
}, 60_000);
afterEach(() => {
  git("checkout", "--quiet", ".");
});
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

function git(...argv: readonly string[]): void {
  execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.org", ...argv], { cwd: project });
}

function compare(stack: string) {
  const configFile = join(project, `Pulumi.${stack}.yaml`);
  return compareWithBase({ stack: { name: stack, configFile }, ref: "HEAD", project });
}

const COMMANDS_ALONE = "scripts/diff/render-child.ts";

test("the working tree counts as it lies, against the commit's own files", async () => {
  appendFileSync(join(project, "Pulumi.local.yaml"), "  engine-room:vector: { vectorSize: 1 }\n");
  const { head, resources } = await compare("local");
  expect(resources).toBeNull();
  expect(head).toMatchObject({ ref: null, commit: null, failure: null, problems: [{ path: "vector" }] });
});

test("a stack whose file the base has not is new", async () => {
  copyFileSync(join(project, "Pulumi.local.yaml"), join(project, "Pulumi.fresh.yaml"));
  const { base, resources, secrets } = await compare("fresh");
  expect(base).toMatchObject({ ref: "HEAD", failure: "It has no Pulumi.fresh.yaml: the stack is new." });
  expect(resources?.map(({ kind }) => kind)).toEqual(Array(8).fill("create"));
  expect(secrets).toEqual([]);
});

test("a base without the one entry point answers by its commands", async () => {
  git("rm", "--quiet", COMMANDS_ALONE);
  git("commit", "--quiet", "--message", "older");
  try {
    const { base, resources, unchanged } = await compare("local");
    expect([base.failure, resources, unchanged]).toEqual([null, [], 8]);
  } finally {
    git("reset", "--quiet", "--hard", "HEAD~1");
  }
});

test("a base whose program fails has its reason, and the head stands alone", async () => {
  writeFileSync(join(project, "infra/index.ts"), 'throw new Error("It is broken.");\n');
  git("commit", "--quiet", "--all", "--message", "broken");
  git("checkout", "--quiet", "HEAD~1", "--", "infra/index.ts");
  try {
    const { base, head, resources } = await compare("local");
    expect([base.failure, head.failure, resources]).toEqual(["It is broken.", null, null]);
  } finally {
    git("reset", "--quiet", "--hard", "HEAD~1");
  }
});

describe("the program's own gateway, of another component type and with another name of its child", () => {
  const file = "components/services/local-gateway.ts";
  function refactor(...edits: readonly (readonly [found: string, now: string])[]): void {
    const path = join(project, file);
    const text = edits.reduce(
      (edited, [found, now]) => {
        expect(edited).toContain(found);
        return edited.replace(found, now);
      },
      readFileSync(path, "utf8"),
    );
    writeFileSync(path, text);
  }
  const TYPE = '"engine-room:services:LocalGateway", name, {}, opts';
  const OPTIONS = "{ parent: this },";

  test("is the same with aliases", async () => {
    refactor(
      [
        TYPE,
        '"engine-room:services:Gateway", name, {}, { ...opts, aliases: [{ type: "engine-room:services:LocalGateway" }] }',
      ],
      ["}-server`", "}-process`"],
      [OPTIONS, '{ parent: this, aliases: [{ name: "gateway-server" }] },'],
    );
    const { resources, unchanged } = await compare("local");
    expect([resources, unchanged]).toEqual([[], 8]);
  });

  test("is another one without", async () => {
    refactor([TYPE, '"engine-room:services:Gateway", name, {}, opts']);
    const { resources } = await compare("local");
    expect(resources?.map(({ kind, name }) => [kind, name])).toEqual([
      ["delete", "gateway-server"],
      ["create", "gateway-server"],
    ]);
  });
});

test("a commit that Git does not have leaves nothing behind", async () => {
  const temporary = mkdtempSync(join(folder, "temporary-"));
  vi.stubEnv("TMPDIR", temporary);
  try {
    const configFile = join(project, "Pulumi.local.yaml");
    const stack = { name: "local", configFile };
    await expect(compareWithBase({ stack, ref: "no-such-commit", project })).rejects.toThrow("no commit");
    expect(readdirSync(temporary)).toEqual([]);
  } finally {
    vi.stubEnv("TMPDIR", undefined);
  }
});

test("a folder goes also where the process is told to end", () => {
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

test("a failure names files as they are in the tree, not where the tree lies", async () => {
  writeFileSync(join(project, "infra/index.ts"), "throw new Error(import.meta.url);\n");
  git("commit", "--quiet", "--all", "--message", "broken");
  try {
    const { base, head } = await compare("local");
    expect([base.failure, head.failure]).toEqual(Array(2).fill("infra/index.ts"));
  } finally {
    git("reset", "--quiet", "--hard", "HEAD~1");
  }
});

test("the command says what is missing on its line", async () => {
  expect(await runCommand("diff")).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("--base") });
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

test("a stack without a file in the working tree is a mistake, named as in any other checkout", async () => {
  const { exitCode, stdout, stderr } = await runCommand("diff", "--base", "HEAD", "--stack", "typo");
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toContain("The stack typo has no file Pulumi.typo.yaml.");
  expect(stderr).not.toContain(projectRoot);
});
