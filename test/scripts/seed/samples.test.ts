import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { cacheDirectory, fileSha256 } from "../../../components/local/provider/files.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { sampleEntries } from "../../../scripts/seed/sample-collection.ts";
import { ALLOWED_LICENSES, isAnswered, sampleManifest } from "../../../scripts/seed/sample-manifest.ts";

const { packages, pictures, question } = sampleManifest();

describe("the manifest of the sample collection", () => {
  test("has the cat and other animals, each picture once", () => {
    const ids = pictures.map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(["sample-cat", "sample-monkey", "sample-sheep"]));
    for (const key of ["id", "sha256", "text"] as const)
      expect(new Set(pictures.map((picture) => picture[key])).size).toBe(pictures.length);
  });

  test("names packages that it knows, and none that no picture is of", () => {
    expect(new Set(pictures.map((picture) => picture.package))).toEqual(new Set(Object.keys(packages)));
  });

  test("has the versions of the lock", () => {
    const lock = readFileSync(join(projectRoot, "scripts/seed/requirements.lock"), "utf8");
    const locked = [...lock.matchAll(/^([\w-]+)==(\S+) \\$/gm)].map(([, name, version]) => [name, version]);
    const listed = Object.entries(packages).filter(([, { registry }]) => registry === "pypi");
    expect(new Map(locked as [string, string][])).toEqual(
      new Map(listed.map(([name, { version }]) => [name, version])),
    );
  });

  test("is what docs/samples.md lists, with every licence", () => {
    const page = readFileSync(join(projectRoot, "docs/samples.md"), "utf8");
    for (const { title, author, license, source, licenseStatedIn } of pictures) {
      expect(ALLOWED_LICENSES).toContain(license);
      expect(page).toContain(`| [${title}](${source}) | ${author} | ${license} | ${licenseStatedIn} |`);
    }
  });
});

describe("the bundled question", () => {
  test("is named in docs/samples.md, and is the README's example, with its picture", () => {
    expect(readFileSync(join(projectRoot, "docs/samples.md"), "utf8")).toContain(`"${question.text}"`);
    const readme = readFileSync(join(projectRoot, "README.md"), "utf8");
    expect(readme).toContain(`/v1/documents/${question.picture}/image`);
    expect(readme).toContain(`question=${question.text}`);
  });

  test("is answered by its word, and by no other that holds it", () => {
    expect(isAnswered(question, "The picture shows a Cat.")).toBe(true);
    expect(isAnswered(question, "The picture shows a category.")).toBe(false);
    expect(isAnswered(question, "")).toBe(false);
  });
});

test("the packages hold the pictures of the manifest, byte by byte", { timeout: 300_000 }, async () => {
  const entries = await sampleEntries({ report: () => {} });
  expect(entries.map(({ id }) => id)).toEqual(pictures.map(({ id }) => id));
  expect(
    entries.flatMap(({ id, metadata }) => ("question" in metadata ? [[id, metadata.question]] : [])),
  ).toEqual([[question.picture, question.text]]);
  const hashes = await Promise.all(entries.map(({ imageFile }) => fileSha256(imageFile ?? "")));
  expect(hashes).toEqual(pictures.map(({ sha256 }) => sha256));
  expect(entries.every(({ imageFile }) => imageFile?.startsWith(join(cacheDirectory(), "samples")))).toBe(
    true,
  );
});
