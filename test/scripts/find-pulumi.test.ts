import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findPulumi } from "../../scripts/setup/pulumi-cli.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "engine-room-find-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

function place(path: string, mode = 0o755): string {
  const file = join(directory, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, "");
  chmodSync(file, mode);
  return file;
}

const find = (...folders: string[]) =>
  findPulumi({
    PATH: folders.map((folder) => join(directory, folder)).join(":"),
    PULUMI_HOME: join(directory, "home"),
  });

describe("the Pulumi CLI", () => {
  test("is not found where there is none", () => {
    expect(find("bin")).toBeUndefined();
    expect(findPulumi({ PULUMI_HOME: directory })).toBeUndefined();
  });

  test("is taken from PATH first", () => {
    place("home/versions/3.265.0/bin/pulumi");
    const onPath = place("bin/pulumi");
    expect(find("empty", "bin")).toBe(onPath);
  });

  test("is taken from the cache of the npm package, the newest version first", () => {
    place("home/versions/3.9.0/bin/pulumi");
    const newest = place("home/versions/3.265.0/bin/pulumi");
    expect(find("bin")).toBe(newest);
  });

  test("is neither the npm package's downloader nor a file that can't be run", () => {
    place("project/node_modules/.bin/pulumi");
    place("bin/pulumi", 0o644);
    expect(find("project/node_modules/.bin", "bin")).toBeUndefined();
  });
});
