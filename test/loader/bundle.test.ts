import { execFile } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

const ENTRY = "infra/index.ts";

let root: string;
let cache: string;

/** A project of a few lines: the loader is a copy, packages are links. */
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "engine-room-loader-")));
  cache = join(root, "node_modules/.cache/engine-room");
  cpSync(join(projectRoot, "loader"), join(root, "loader"), { recursive: true });
  mkdirSync(join(root, "node_modules"));
  for (const name of ["esbuild", "tsx", "zod"])
    symlinkSync(join(projectRoot, "node_modules", name), join(root, "node_modules", name));
  for (const name of ["typescript", "@npmcli/arborist"])
    write(`node_modules/${name}/index.js`, `console.log("${name} is loaded"); exports.version = "1.0";\n`);
  write("package.json", JSON.stringify({ type: "module" }));
  for (const [source] of readFileSync(join(root, "loader/import-source.mjs"), "utf8").matchAll(
    /(?<=^ {2}")[a-z/-]+\.ts(?=",$)/gm,
  ))
    write(source, "export {};\n");
});
afterEach(() => rmSync(root, { recursive: true }));

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

/** Starts the program as its users do. */
function run(...args: readonly string[]): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  return start({}, "loader/run.mjs", ENTRY, ...args);
}

function start(environment: NodeJS.ProcessEnv, ...argv: readonly string[]): ReturnType<typeof run> {
  const { DEBUG: _, ...env } = { ...process.env };
  return new Promise((done) => {
    const options = { cwd: root, env: { ...env, ...environment }, timeout: 60_000 };
    execFile(process.execPath, argv, options, (error, stdout, stderr) =>
      done({ exitCode: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

const bundles = () => readdirSync(cache).toSorted();

test("a bundle is used again while its sources are unchanged, also after a change is reverted", async () => {
  write("infra/word.ts", 'export const word: string = "one";\n');
  write(ENTRY, 'import { word } from "./word.ts";\nconsole.log(word);\n');
  expect((await run()).stdout).toBe("one\n");
  const [first = ""] = bundles();
  const file = join(cache, first, "infra/index.mjs");
  const { ino, mtimeMs } = statSync(file);

  expect((await run()).stdout).toBe("one\n");
  expect(bundles()).toEqual([first]);
  expect(statSync(file)).toMatchObject({ ino, mtimeMs });

  write("infra/word.ts", 'export const word: string = "two";\n');
  expect((await run()).stdout).toBe("two\n");
  expect(bundles()).toHaveLength(2);

  write("infra/word.ts", 'export const word: string = "one";\n');
  expect((await run()).stdout).toBe("one\n");
  expect(bundles()).toHaveLength(2);
  expect(statSync(file)).toMatchObject({ ino, mtimeMs });
});

test("a deleted source is reported, though its bundle exists", async () => {
  write("infra/word.ts", 'export const word = "one";\n');
  write(ENTRY, 'import { word } from "./word.ts";\nconsole.log(word);\n');
  await run();
  rmSync(join(root, "infra/word.ts"));
  expect(await run()).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('infra/index.ts:1:22: Could not resolve "./word.ts".'),
  });
});

test("processes that start at the same time each load a complete bundle", async () => {
  write(ENTRY, 'import { z } from "zod";\nconsole.log(z.string().parse("whole"));\n');
  const runs = await Promise.all(Array.from({ length: 4 }, () => run()));
  expect(runs.map(({ stdout, stderr }) => stdout + stderr)).toEqual(Array(4).fill("whole\n"));
  expect(bundles()).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/)]);
});

test("a new bundle removes old bundles, except the newest three and those used within the hour", async () => {
  const others = () => bundles().filter((name) => !/^[0-9a-f]{32}$/.test(name));
  const hoursAgo = (name: string, hours: number) => {
    mkdirSync(join(cache, name), { recursive: true });
    const then = Date.now() / 1000 - hours * 3600;
    utimesSync(join(cache, name), then, then);
  };
  for (const [index, hours] of [2, 3, 4, 5].entries()) hoursAgo(`0${index}`, hours);
  hoursAgo(".new-killed", 2);
  hoursAgo(".new-at-work", 0.1);
  await run();
  expect(others()).toEqual([".new-at-work", "00", "01", "02"]);
  for (const name of ["03", "04", "05"]) hoursAgo(name, 0.5);
  write(ENTRY, "export const another = 1;\n");
  await run();
  expect(others()).toEqual([".new-at-work", "03", "04", "05"]);
});

test("a bundled source has its own import.meta and arguments", async () => {
  write("infra/deep/place.ts", "export const { dirname, filename, url } = import.meta;\n");
  write(
    ENTRY,
    'import * as place from "./deep/place.ts";\nconsole.log(JSON.stringify([import.meta.dirname, place, process.argv.slice(1)]));\n',
  );
  const { stdout } = await run("a", "--b");
  const folder = join(root, "infra/deep");
  const filename = join(folder, "place.ts");
  expect(JSON.parse(stdout)).toEqual([
    join(root, "infra"),
    { dirname: folder, filename, url: `file://${filename}` },
    [ENTRY, "a", "--b"],
  ]);
});

test("packages that the SDK needs only for functions are loaded when something of them is read", async () => {
  write(
    "node_modules/sdk/index.js",
    'const ts = require("typescript"); require("@npmcli/arborist"); exports.version = () => ts.version;\n',
  );
  write(
    ENTRY,
    'import sdk from "sdk";\nconsole.log("the program runs");\nconsole.log(sdk.version(), sdk.version());\n',
  );
  expect((await run()).stdout).toBe("the program runs\ntypescript is loaded\n1.0 1.0\n");
});

test("a syntax error in a source is reported with its place", async () => {
  write("infra/broken.ts", "export const a = 1;\nexport const b = = 2;\n");
  write(ENTRY, 'import "./broken.ts";\n');
  const place = 'infra/broken.ts:2:18: Unexpected "=". Correct it; `npx tsc --noEmit` shows all.';
  expect(await run()).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(place) });
  expect(bundles()).toEqual([]);
});

test("stack traces name the source if DEBUG is set", async () => {
  write(ENTRY, 'const why: string = "It broke.";\n\nthrow new Error(why);\n');
  const { stderr } = await start({ DEBUG: "1" }, "loader/run.mjs", ENTRY);
  expect(stderr).toContain("It broke.");
  expect(stderr).toMatch(/at .*\/infra\/index\.ts:3:7/);
});

test("a file that is not an entry point is refused with a sentence", async () => {
  expect(await start({}, "loader/run.mjs", "infra/other.ts")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("infra/other.ts is not in the bundle; add it to the entry points"),
  });
});

test("tsx loads the sources if no bundle can be written", async () => {
  // Not even root can create a folder there.
  symlinkSync("/sys", join(root, "node_modules/.cache"));
  write(ENTRY, "const { dirname } = import.meta;\nconsole.log(dirname satisfies string, process.argv[2]);\n");
  expect(await run("a")).toEqual({ exitCode: 0, stdout: `${join(root, "infra")} a\n`, stderr: "" });
});

test("a problem that the program finds is reported by the command as a sentence, without a stack trace", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "engine-room-loader-")), "Pulumi.broken.yaml");
  writeFileSync(file, "config:\n  engine-room:platform: local\n  engine-room:modls: []\n");
  const command = [
    join(projectRoot, "scripts/cli.mjs"),
    "render",
    "--stack",
    "broken",
    "--config-file",
    file,
  ];
  const { exitCode, stderr } = await start({ DEBUG: "1" }, ...command);
  rmSync(dirname(file), { recursive: true });
  expect(exitCode).toBe(1);
  expect(stderr).toContain("Unknown key");
  expect(stderr).not.toMatch(/^\s+at /m);
});
