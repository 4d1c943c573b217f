/** The table of stand-ins in docs/proof.md has every one that the tests have. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

/** A stand-in is called so, is a program, writes one, calls something of its own so, or is a server over HTTP. */
const IS_CALLED_SO = /fake|stand[-_]in|nvidia-image|cpu_backends/;
const IS_PROGRAM = /^#!/;
const WRITES_A_PROGRAM = /#!\/.*(?:chmod|mode: 0o7)|#!\$\{.*mode: 0o7/s;
const CALLS_ITS_OWN_SO = /\bclass Fake\w|\bfunction fake[A-Z]|\bconst (?:FAKE_|fake[A-Z])/;
const IS_A_SERVER = /"node:http".*(?:createServer|createHttpServer)|BaseHTTPRequestHandler\)/s;

const proof = readFileSync(join(projectRoot, "docs/proof.md"), "utf8");
const section = proof.split(/^## Stand-ins$/m)[1] ?? "";
const rows = section.split("\n").filter((line) => line.startsWith("| `"));
/** Files, and folders with a slash at their end. */
const named = rows.flatMap((row) => {
  const [, first = ""] = row.split(" | ", 1)[0]?.split("| ") ?? [];
  return [...first.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path);
});

test("every row has a stand-in, what it believes, the real program, and what is done", () => {
  expect(rows.length).toBeGreaterThan(20);
  for (const row of rows) expect(row.split(" | ")).toHaveLength(4);
});

test("every file and folder that the table of stand-ins names is there", () => {
  const missing = named.filter((path) => {
    const file = join(projectRoot, path);
    return !existsSync(file) || statSync(file).isDirectory() !== path.endsWith("/");
  });
  expect(missing).toEqual([]);
});

test("every stand-in of the tests is in the table", () => {
  const { stdout } = spawnSync("git", ["ls-files", "--", "test", "containers/*/tests/**"], {
    cwd: projectRoot,
    encoding: "utf8",
  });
  const files = stdout.split("\n").filter((path) => existsSync(join(projectRoot, path)) && isStandIn(path));
  expect(files.length).toBeGreaterThan(40);
  expect(files.filter((path) => !isNamed(path))).toEqual([]);
});

function isStandIn(path: string): boolean {
  if (path === "" || path === "test/docs/stand-ins.test.ts") return false;
  if (IS_CALLED_SO.test(path)) return true;
  const text = readFileSync(join(projectRoot, path), "utf8");
  return [IS_PROGRAM, WRITES_A_PROGRAM, CALLS_ITS_OWN_SO, IS_A_SERVER].some((rule) => rule.test(text));
}

function isNamed(path: string): boolean {
  return named.some((one) => one === path || (one.endsWith("/") && path.startsWith(one)));
}
