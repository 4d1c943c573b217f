import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { cacheDirectory, fileSha256 } from "../../../components/local/provider/files.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { DocumentsClient, derivedId, type Entry } from "../../../scripts/seed/documents.ts";
import { readFolder, textOfName } from "../../../scripts/seed/folder.ts";
import { isAnswered, SampleMark, sampleEntries, sampleManifest } from "../../../scripts/seed/samples.ts";
import { load, Progress, seedSamples, seedSamplesOnce } from "../../../scripts/seed/seed.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { saveState } from "../../../scripts/tryout/state.ts";
import { type CommandRun, runCommand } from "../plan/run-plan.ts";
import { FakeGateway, fakeOutput } from "./fake-gateway.ts";

describe("npx engine-room seed", () => {
  const stack = `test-seed-${process.pid}`;

  let gateway: FakeGateway;

  let folder: string;

  beforeEach(async () => {
    gateway = new FakeGateway();
    await gateway.start();
    folder = mkdtempSync(join(tmpdir(), "engine-room-seed-"));
    const outputs = { endpoints: { gateway: gateway.url } };
    const urn = `urn:pulumi:${stack}::engine-room::pulumi:pulumi:Stack::engine-room-${stack}`;
    const resources = [{ urn, custom: false, type: "pulumi:pulumi:Stack", outputs }];
    saveState(stackPaths(stack).tryoutState, { resources, pending: [] });
  });

  afterEach(async () => {
    vi.unstubAllEnvs();
    await gateway.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    rmSync(stackPaths(stack).directory, { recursive: true, force: true, maxRetries: 5 });
  });

  /** Runs the command in this process. */
  function seed(): Promise<CommandRun> {
    vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
    return runCommand("seed", "--stack", stack, "--from", folder);
  }

  /** Runs the command as a process, and sends it a signal while the gateway holds a request. */
  async function seedUntil(signal: NodeJS.Signals) {
    gateway.answered = 3;
    const held = gateway.held();
    const child = spawn(process.execPath, ["scripts/cli.mjs", "seed", "--stack", stack, "--from", folder], {
      cwd: projectRoot,
      stdio: ["ignore", "pipe", "ignore"],
      env: { ...process.env, ENGINE_ROOM_RUNNER: "tryout" },
    });
    const [stdout, closed] = [text(child.stdout), once(child, "close")];
    await held;
    child.kill(signal);
    const [exitCode, endedBy] = (await closed) as [number | null, string | null];
    gateway.answered = Number.POSITIVE_INFINITY;
    return { exitCode, endedBy, stdout: await stdout };
  }

  function captions(count: number): void {
    const lines = Array.from({ length: count }, (_, index) => JSON.stringify({ text: `Document ${index}.` }));
    writeFileSync(join(folder, "captions.jsonl"), lines.join("\n"));
  }

  test("`seed` loads captions and pictures, and prints lines without control characters if there is no terminal", async () => {
    mkdirSync(join(folder, "pets"));
    writeFileSync(join(folder, "pets", "black-cat_01.jpg"), "cat");
    writeFileSync(join(folder, "x.png"), "dog");
    const line = { file: "x.png", text: "A dog.", id: "dog-1", metadata: { year: 2024 } };
    writeFileSync(join(folder, "captions.jsonl"), `${JSON.stringify(line)}\n\n{"text":"A text alone."}\n`);
    vi.stubEnv("ENGINE_ROOM_API_KEY", "secret");
    const { exitCode, stdout, stderr } = await seed();
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "  3 of 3 documents (100 %)\n" });
    expect(stdout).toMatch(/^3 documents in [\d.]+ s: 3 created, 0 updated, 0 unchanged, 0 failed\n$/);
    const loaded = [...gateway.documents.values()].map(({ id, text, image, metadata }) => ({
      id: id.replace(/[0-9a-f]{32}$/, "…"),
      text,
      image: image?.toString(),
      metadata,
    }));
    expect(loaded).toEqual([
      { id: "dog-1", text: "A dog.", image: "dog", metadata: { file: "x.png", year: 2024 } },
      { id: "text-…", text: "A text alone.", image: undefined, metadata: {} },
      {
        id: "black-cat-01-…",
        text: "black cat 01",
        image: "cat",
        metadata: { file: "pets/black-cat_01.jpg" },
      },
    ]);
    expect(gateway.keys).toEqual(["Bearer secret"]);
  });

  test("`seed` resumes after a kill, and does not load stored documents again", async () => {
    captions(640);
    expect(await seedUntil("SIGKILL")).toMatchObject({ endedBy: "SIGKILL" });
    expect(gateway.documents.size).toBe(192);
    const { exitCode, stdout } = await seed();
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/: 448 created, 0 updated, 192 unchanged, 0 failed\n$/);
  });

  test("Ctrl-C ends `seed` at once, which prints the number of remaining documents", async () => {
    captions(640);
    const { exitCode, stdout } = await seedUntil("SIGINT");
    expect(exitCode).toBe(130);
    expect(stdout).toMatch(/Stopped: interrupted\. 448 are left; run the same command to resume\.\n$/);
  });

  test("`seed` waits as long as a busy gateway asks for", async () => {
    captions(2);
    gateway.busy = 1;
    const { exitCode, stdout, stderr } = await seed();
    expect({ exitCode, requests: gateway.requests }).toEqual({ exitCode: 0, requests: [2, 2] });
    const wait = "  HTTP 503: models are loading; trying again in 1.0 s\n";
    expect(stderr).toBe(`${wait}  2 of 2 documents (100 %)\n`);
    expect(stdout).toContain("2 created");
  });

  test("`seed` lists every bad picture and line with its reason, loads the others, and exits with 1", async () => {
    writeFileSync(join(folder, "bad.jpg"), "BAD picture");
    writeFileSync(join(folder, "empty.jpg"), "");
    writeFileSync(join(folder, "good.jpg"), "good picture");
    writeFileSync(join(folder, "captions.jsonl"), 'nonsense\n{"file":"missing.jpg"}\n');
    const { exitCode, stdout } = await seed();
    expect(exitCode).toBe(1);
    expect(
      stdout
        .split("\n")
        .slice(0, -2)
        .map((line) => line.replace(/not JSON: .*/, "not JSON")),
    ).toEqual([
      "FAILED captions.jsonl:1: it is not JSON",
      "FAILED captions.jsonl:2: file: missing.jpg is not a regular file of the folder",
      "FAILED empty.jpg: the file is empty",
      "FAILED bad.jpg: HTTP 400: the image can't be decoded",
    ]);
    expect(stdout).toMatch(/\n5 documents in [\d.]+ s: 1 created, 0 updated, 0 unchanged, 4 failed\n$/);
    expect([...gateway.documents.values()].map((document) => document.text)).toEqual(["good"]);
  });

  test("`seed` stops with a reason if the gateway refuses its key", async () => {
    captions(640);
    gateway.status = 401;
    const { exitCode, stdout } = await seed();
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/Stopped: the gateway refuses the request; put its key into ENGINE_ROOM_API_KEY/);
    expect(stdout).toContain("640 are left");
  });
});

/** The first test of a machine fetches the pictures from their packages. */
const FETCH = { timeout: 300_000 };

describe("the first load of the samples", FETCH, () => {
  const SAMPLES = sampleManifest().pictures.map(({ id }) => id);

  let gateway: FakeGateway;

  let data: string;

  let mark: SampleMark;

  beforeEach(async () => {
    gateway = new FakeGateway();
    await gateway.start();
    data = mkdtempSync(join(tmpdir(), "engine-room-data-"));
    mark = new SampleMark(data);
  });

  afterEach(async () => {
    await gateway.close();
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  });

  const startAgain = () => seedSamplesOnce(mark, { gateway: gateway.url, out: fakeOutput(false).out });

  const ids = () => [...gateway.documents.keys()].sort();

  /** Resolves when some documents are stored and the others are held. */
  async function loadHalf<T>(begin: () => T): Promise<T> {
    gateway.answered = 2;
    const held = gateway.held();
    const load = begin();
    await held;
    gateway.answered = Number.POSITIVE_INFINITY;
    return load;
  }

  function expectPart(): void {
    expect(gateway.documents.size).toBeGreaterThan(0);
    expect(gateway.documents.size).toBeLessThan(SAMPLES.length);
  }

  async function expectRest(): Promise<void> {
    const before = gateway.documents.size;
    expect(await startAgain()).toMatchObject({
      total: SAMPLES.length,
      created: SAMPLES.length - before,
      unchanged: before,
      updated: 0,
      failures: [],
    });
    expect(ids()).toEqual(SAMPLES.toSorted());
    expect(await startAgain()).toBeUndefined();
  }

  test("the first load of the samples resumes after a kill, until all are loaded once", async () => {
    const harness = join(import.meta.dirname, "first-load-process.ts");
    const argv = ["--import", "tsx", harness, gateway.url, data];
    const child = await loadHalf(() => spawn(process.execPath, argv, { cwd: projectRoot, stdio: "ignore" }));
    const closed = once(child, "close");
    child.kill("SIGKILL");
    await closed;
    expectPart();
    await expectRest();
  });

  test("the first load of the samples resumes after an interrupt", async () => {
    const interrupt = new AbortController();
    const { signal } = interrupt;
    const { out } = fakeOutput(false);
    const { load } = await loadHalf(() => ({
      load: seedSamplesOnce(mark, { gateway: gateway.url, signal, out }),
    }));
    interrupt.abort();
    expect(await load).toMatchObject({ stopped: "interrupted" });
    expectPart();
    await expectRest();
  });

  test("the first load of the samples resumes after pictures failed", async () => {
    gateway.bodyLimit = 100_000;
    const first = await startAgain();
    expect(first?.failures.length).toBeGreaterThan(0);
    expectPart();
    gateway.bodyLimit = Number.POSITIVE_INFINITY;
    await expectRest();
  });

  test("samples are not loaded again after everything was deleted", async () => {
    await startAgain();
    gateway.documents.clear();
    expect(await startAgain()).toBeUndefined();
    expect(ids()).toEqual([]);
  });

  test("samples are not loaded again after an interrupted load was finished by hand and everything deleted", async () => {
    await mark.write("begun");
    await seedSamples(mark, { gateway: gateway.url, out: fakeOutput(false).out });
    gateway.documents.clear();
    expect(await startAgain()).toBeUndefined();
    expect(ids()).toEqual([]);
  });

  test("samples are not loaded into a stack that had documents, even after these are deleted", async () => {
    gateway.documents.set("mine", { id: "mine" });
    expect(await startAgain()).toBeUndefined();
    gateway.documents.clear();
    expect(await startAgain()).toBeUndefined();
  });

  test("samples are loaded again into a new data folder", async () => {
    await startAgain();
    gateway.documents.clear();
    rmSync(data, { recursive: true, maxRetries: 5 });
    expect(await startAgain()).toMatchObject({ created: SAMPLES.length });
  });

  test("samples are not loaded into a stack whose mark is unknown", async () => {
    mkdirSync(data, { recursive: true });
    writeFileSync(join(data, "samples"), "");
    expect(await startAgain()).toBeUndefined();
  });
});

describe("a load", () => {
  let gateway: FakeGateway;

  let folder: string;

  beforeEach(async () => {
    gateway = new FakeGateway();
    await gateway.start();
    folder = mkdtempSync(join(tmpdir(), "engine-room-seed-"));
  });

  afterEach(async () => {
    await gateway.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  const textEntry = (index: number): Entry => ({
    label: `line ${index}`,
    text: `Document ${index}.`,
    metadata: {},
  });

  function pictureEntry(name: string, bytes: Buffer): Entry {
    const imageFile = join(folder, name);
    writeFileSync(imageFile, bytes);
    return { label: name, text: name, imageFile, metadata: {} };
  }

  test("a load sends batches of 64 documents or 2 MiB, and counts every document", async () => {
    const pictures = [0, 1, 2].map((index) => pictureEntry(`${index}.jpg`, Buffer.alloc(900_000, index + 1)));
    const entries = [...Array.from({ length: 65 }, (_, index) => textEntry(index)), ...pictures];
    let done = 0;
    const summary = await load(entries, new DocumentsClient({ gateway: gateway.url }), undefined, (count) => {
      done = count;
    });
    expect(summary).toEqual({ total: 68, created: 68, updated: 0, unchanged: 0, failures: [] });
    expect(gateway.requests.toSorted((a, b) => b - a)).toEqual([64, 3, 1]);
    expect(done).toBe(68);
    expect([...gateway.documents.values()].filter(({ image }) => image?.length === 900_000)).toHaveLength(3);
  });

  test("a load halves a refused batch until it has only the document that is too large", async () => {
    gateway.bodyLimit = 30_000;
    const entries = [1, 2, 3, 4].map((index) =>
      pictureEntry(`${index}.jpg`, Buffer.alloc(index === 3 ? 40_000 : 9000, index)),
    );
    const summary = await load(entries, new DocumentsClient({ gateway: gateway.url }));
    expect(summary).toMatchObject({
      created: 3,
      failures: [{ label: "3.jpg", reason: "HTTP 413: the body is too large" }],
    });
  });

  test("a load refuses a second entry with the same id, by name", async () => {
    const entries = [textEntry(1), { ...textEntry(1), label: "line 9" }];
    const summary = await load(entries, new DocumentsClient({ gateway: gateway.url }));
    expect(summary.created).toBe(1);
    expect(summary.failures).toEqual([
      { label: "line 9", reason: expect.stringMatching(/^it has the id text-\w+ of line 1; give one/) },
    ]);
  });

  test("a load fails when the gateway stays unreachable for its time limit", async () => {
    await gateway.close();
    const waits: number[] = [];
    const client = new DocumentsClient({
      gateway: gateway.url,
      retrySeconds: 0.6,
      onWait: (_, seconds) => waits.push(seconds),
    });
    const summary = await load([textEntry(1)], client);
    expect(waits).toEqual([0.5]);
    expect(summary).toMatchObject({ created: 0, failures: [] });
    expect(summary.stopped).toMatch(/^the gateway http:\S+ took nothing for \d s \(.*ECONNREFUSED/);
  });

  test("a client knows whether a gateway has any document", async () => {
    const client = new DocumentsClient({ gateway: gateway.url });
    const { signal } = new AbortController();
    expect(await client.isEmpty(signal)).toBe(true);
    await load([textEntry(1)], client);
    expect(await client.isEmpty(signal)).toBe(false);
  });

  const picture = { name: "Größe & Schwärze (1).JPG", contentType: "image/jpeg", bytes: Buffer.from("x") };

  test("ids come from the content, a picture's with its name, and do not change with the caption", () => {
    expect(derivedId("a", picture)).toMatch(/^gro-e-schwarze-1-[0-9a-f]{32}$/);
    expect(derivedId("a", picture)).toBe(derivedId("b", picture));
    expect(derivedId("a", { ...picture, bytes: Buffer.from("y") })).not.toBe(derivedId("a", picture));
    expect(derivedId("a", undefined)).toMatch(/^text-[0-9a-f]{32}$/);
    expect(derivedId("a", undefined)).not.toBe(derivedId("b", undefined));
  });

  test("the gateway accepts the ids of all file names", () => {
    for (const name of ["猫.png", "...jpg", `${"long".repeat(99)}.jpg`, "-_-.png"])
      expect(derivedId(undefined, { ...picture, name })).toMatch(/^[A-Za-z0-9][A-Za-z0-9-]{0,127}$/);
  });

  test("progress on a terminal redraws one line, and removes it at the end", () => {
    const { out, text } = fakeOutput(true);
    const progress = new Progress(4, out);
    progress.update(1);
    progress.note("waiting");
    progress.update(4);
    progress.close();
    const lines = text().split("\r\x1b[K");
    expect(lines[1]).toMatch(/^ {2}█{8}░{22} 1 of 4 documents \(25 %\), \d+ s left$/);
    expect(lines[2]).toBe("  waiting\n");
    expect(lines.at(-2)).toBe(`  ${"█".repeat(30)} 4 of 4 documents (100 %)`);
    expect(lines.at(-1)).toBe("");
  });

  test("progress without a terminal prints a line every tenth", () => {
    const { out, text } = fakeOutput(false);
    const progress = new Progress(1000, out);
    for (let done = 1; done <= 1000; done++) progress.update(done);
    progress.close();
    const lines = text().split("\n");
    expect(lines).toHaveLength(11);
    expect(lines[0]).toBe("  100 of 1000 documents (10 %)");
    expect(lines[9]).toBe("  1000 of 1000 documents (100 %)");
  });
});

describe("a folder of pictures", () => {
  let parent: string;

  let folder: string;

  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), "engine-room-folder-"));
    folder = join(parent, "pictures");
    mkdirSync(folder);
  });

  afterEach(() => rmSync(parent, { recursive: true, force: true, maxRetries: 5 }));

  function write(path: string, content = "x"): void {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }

  test("captions of a folder come first, in order, and then the pictures without a caption", async () => {
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

  test("a caption can't name a file outside the folder", async () => {
    writeFileSync(join(parent, "secret.jpg"), "x");
    symlinkSync(join(parent, "secret.jpg"), join(folder, "link.jpg"));
    symlinkSync(parent, join(folder, "up"));
    const files = ["../secret.jpg", join(parent, "secret.jpg"), "link.jpg", "up/secret.jpg"];
    write("captions.jsonl", files.map((file) => JSON.stringify({ file })).join("\n"));
    const { entries, failures } = await readFolder(folder);
    expect(entries).toEqual([]);
    expect(failures.map(({ reason }) => reason)).toEqual(
      files.map((file) => `file: ${file} is not a regular file of the folder`),
    );
  });

  test("every wrong caption is reported with its file and line", async () => {
    const lines = ['{"text":', "[]", "{}", '{"text":"a","caption":"b"}', '{"text":"a","metadata":3}'];
    write("captions.jsonl", lines.join("\n"));
    const { failures } = await readFolder(folder);
    expect(failures.map(({ label }) => label)).toEqual(
      [1, 2, 3, 4, 5].map((line) => `captions.jsonl:${line}`),
    );
    expect(failures[2]?.reason).toBe("it needs `file`, `text` or both");
    expect(failures[3]?.reason).toBe("there is no key caption; a line has file, text, id and metadata");
    expect(failures[4]?.reason).toMatch(/^metadata: /);
  });

  test("a missing folder, and a folder without anything to load, is reported", async () => {
    await expect(readFolder(folder)).rejects.toThrow(`${folder} holds no picture`);
    await expect(readFolder(join(folder, "none"))).rejects.toThrow("can't be read (ENOENT)");
  });

  test("a picture's file name becomes its text", () => {
    expect(textOfName("holiday/black-cat_01.final.jpg")).toBe("black cat 01 final");
    expect(textOfName("---.png")).toBe("---");
  });
});

const { packages, pictures, question } = sampleManifest();

test("the sample manifest has the cat and other animals, each picture once", () => {
  const ids = pictures.map(({ id }) => id);
  expect(ids).toEqual(expect.arrayContaining(["sample-cat", "sample-monkey", "sample-sheep"]));
  for (const key of ["id", "sha256", "text"] as const)
    expect(new Set(pictures.map((picture) => picture[key])).size).toBe(pictures.length);
  expect(ids).toContain(question.picture);
});

test("the sample manifest lists exactly the packages of its pictures", () => {
  expect(new Set(pictures.map((picture) => picture.package))).toEqual(new Set(Object.keys(packages)));
});

test("the sample manifest has the versions of the lock file", () => {
  const lock = readFileSync(join(projectRoot, "scripts/seed/requirements.lock"), "utf8");
  const locked = [...lock.matchAll(/^([\w-]+)==(\S+) \\$/gm)].map(([, name, version]) => [name, version]);
  const listed = Object.entries(packages).filter(([, { registry }]) => registry === "pypi");
  expect(new Map(locked as [string, string][])).toEqual(
    new Map(listed.map(([name, { version }]) => [name, version])),
  );
});

test("docs/samples.md lists the sample manifest, with every licence", () => {
  const page = readFileSync(join(projectRoot, "docs/samples.md"), "utf8");
  for (const { title, author, license, source, licenseStatedIn } of pictures) {
    // No terms, and no attribution.
    expect(["CC0-1.0", "public-domain"]).toContain(license);
    expect(page).toContain(`| [${title}](${source}) | ${author} | ${license} | ${licenseStatedIn} |`);
  }
});

test("docs/samples.md names the bundled question, and docs/platforms/local.md uses it with its picture", () => {
  expect(readFileSync(join(projectRoot, "docs/samples.md"), "utf8")).toContain(`"${question.text}"`);
  const page = readFileSync(join(projectRoot, "docs/platforms/local.md"), "utf8");
  expect(page).toContain(`/v1/documents/${question.picture}/image`);
  expect(page).toContain(`question=${question.text}`);
});

test("the bundled question is answered by its word, and not by a longer word", () => {
  expect(isAnswered(question, "The picture shows a Cat.")).toBe(true);
  expect(isAnswered(question, "The picture shows a category.")).toBe(false);
  expect(isAnswered(question, "")).toBe(false);
});

test("the packages of the samples hold the manifest's pictures, byte by byte", FETCH, async () => {
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
