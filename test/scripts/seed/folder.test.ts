import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readFolder, textOfName } from "../../../scripts/seed/folder.ts";

let parent: string;
let folder: string;

beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), "engine-room-folder-"));
  folder = join(parent, "pictures");
  mkdirSync(folder);
});

afterEach(() => rmSync(parent, { recursive: true, force: true }));

function write(path: string, content = "x"): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
}

test("captions come first, in their order; then the pictures that none of them names", async () => {
  for (const file of ["b.png", "a.JPG", "deep/c.webp", ".hidden.jpg", "notes.txt", "deep/more.jsonl"])
    write(file);
  write("captions.jsonl", '{"file":"b.png","text":"B"}\n{"text":"alone","id":"t"}');
  write("more.ndjson", '{"file":"./deep/c.webp"}');
  const { entries, failures } = await readFolder(folder);
  expect(failures).toEqual([]);
  expect(entries).toEqual([
    { label: "b.png", text: "B", imageFile: join(folder, "b.png"), metadata: { file: "b.png" } },
    { label: "captions.jsonl:2", id: "t", text: "alone", metadata: {} },
    {
      label: "deep/c.webp",
      text: "c",
      imageFile: join(folder, "deep/c.webp"),
      metadata: { file: "deep/c.webp" },
    },
    { label: "a.JPG", text: "a", imageFile: join(folder, "a.JPG"), metadata: { file: "a.JPG" } },
  ]);
});

test("no line reaches outside of the folder", async () => {
  writeFileSync(join(parent, "secret.jpg"), "x");
  symlinkSync(join(parent, "secret.jpg"), join(folder, "link.jpg"));
  symlinkSync(parent, join(folder, "up"));
  const files = ["../secret.jpg", join(parent, "secret.jpg"), "link.jpg", "up/secret.jpg"];
  write("captions.jsonl", files.map((file) => JSON.stringify({ file })).join("\n"));
  const { entries, failures } = await readFolder(folder);
  expect(entries).toEqual([]);
  expect(failures.map(({ reason }) => reason)).toEqual([
    "file: ../secret.jpg is not in the folder",
    `file: ${join(parent, "secret.jpg")} is not in the folder`,
    "file: link.jpg is no regular file of the folder",
    "file: up/secret.jpg is no regular file of the folder",
  ]);
});

test("every wrong line is told with its place", async () => {
  const lines = ['{"text":', "[]", "{}", '{"text":"a","caption":"b"}', '{"text":"a","metadata":3}'];
  write("captions.jsonl", lines.join("\n"));
  const { failures } = await readFolder(folder);
  expect(failures.map(({ label }) => label)).toEqual([1, 2, 3, 4, 5].map((line) => `captions.jsonl:${line}`));
  expect(failures[2]?.reason).toBe("it needs `file`, `text` or both");
  expect(failures[3]?.reason).toBe("there is no key caption; a line has file, text, id and metadata");
  expect(failures[4]?.reason).toMatch(/^metadata: /);
});

test("a folder without anything to load is a mistake, and so is none", async () => {
  await expect(readFolder(folder)).rejects.toThrow(`${folder} holds no picture`);
  await expect(readFolder(join(folder, "none"))).rejects.toThrow("can't be read (ENOENT)");
});

test("a file name becomes a text", () => {
  expect(textOfName("holiday/black-cat_01.final.jpg")).toBe("black cat 01 final");
  expect(textOfName("---.png")).toBe("---");
});
