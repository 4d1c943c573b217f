import { describe, expect, test } from "vitest";
import { readZipEntry } from "../../scripts/zip-entry.ts";
import { makeZip } from "./catalogue/zip-fixture.ts";

describe("readZipEntry", () => {
  const zip = makeZip([
    { name: "m@v1/a.txt", content: "stored", deflated: false },
    { name: "m@v1/b.txt", content: "deflated ".repeat(50), deflated: true },
  ]);

  test("stored and deflated zip entries are read", () => {
    expect(readZipEntry(zip, "m@v1/a.txt").toString()).toBe("stored");
    expect(readZipEntry(zip, "m@v1/b.txt").toString()).toBe("deflated ".repeat(50));
  });

  test("a zip entry that is larger than expected is refused", () => {
    const bomb = makeZip([
      { name: "zeros", content: "\0".repeat(2 ** 20), deflated: true },
      { name: "stored", content: "12345", deflated: false },
    ]);
    expect(bomb.length).toBeLessThan(2 ** 12);
    expect(() => readZipEntry(bomb, "zeros", 2 ** 20 - 1)).toThrow("larger than 1048575 bytes");
    expect(readZipEntry(bomb, "zeros", 2 ** 20).length).toBe(2 ** 20);
    expect(() => readZipEntry(bomb, "stored", 4)).toThrow("larger than 4 bytes");
  });

  test("a damaged zip entry is refused", () => {
    const broken = Buffer.from(zip);
    broken.fill(0xff, zip.indexOf("m@v1/b.txt") + 10, zip.indexOf("m@v1/b.txt") + 20);
    expect(() => readZipEntry(broken, "m@v1/b.txt")).toThrow(/^The archive's m@v1\/b.txt is damaged/);
    const place = zip.lastIndexOf("m@v1/b.txt") - 4;
    const nowhere = Buffer.from(zip);
    nowhere.writeUInt32LE(2 ** 31, place);
    expect(() => readZipEntry(nowhere, "m@v1/b.txt")).toThrow(/place of m@v1\/b.txt is damaged/);
  });

  test("a missing zip entry and a broken archive are reported", () => {
    expect(() => readZipEntry(zip, "m@v1/c.txt")).toThrow("The archive has no m@v1/c.txt.");
    expect(() => readZipEntry(zip.subarray(0, zip.length - 30), "m@v1/a.txt")).toThrow(/no zip file/);
    expect(() => readZipEntry(Buffer.from("404 not found"), "m@v1/a.txt")).toThrow(/no zip file/);
  });
});
