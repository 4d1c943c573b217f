/** The samples of a new stack: loaded once, as a whole, whatever interrupts it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { sampleManifest } from "../../../scripts/seed/sample-manifest.ts";
import { SampleMark } from "../../../scripts/seed/sample-mark.ts";
import { seedSamples, seedSamplesOnce } from "../../../scripts/seed/seed.ts";
import { FakeGateway, fakeOutput } from "./fake-gateway.ts";

/** The first test of a machine fetches the pictures from their packages. */
const TIMEOUT_MILLISECONDS = 300_000;
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
  rmSync(data, { recursive: true, force: true });
});

const startAgain = () => seedSamplesOnce(mark, { gateway: gateway.url, out: fakeOutput(false).out });
const ids = () => [...gateway.documents.keys()].sort();

/** Resolves when some of the documents are there and the others are held up. */
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

describe("the first load of the samples", { timeout: TIMEOUT_MILLISECONDS }, () => {
  test("goes on after a kill, until all of them are there, once", async () => {
    const harness = join(import.meta.dirname, "first-load-process.ts");
    const argv = ["--import", "tsx", harness, gateway.url, data];
    const child = await loadHalf(() => spawn(process.execPath, argv, { cwd: projectRoot, stdio: "ignore" }));
    const closed = once(child, "close");
    child.kill("SIGKILL");
    await closed;
    expectPart();
    await expectRest();
  });

  test("goes on after it was given up", async () => {
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

  test("goes on where pictures failed", async () => {
    gateway.bodyLimit = 100_000;
    const first = await startAgain();
    expect(first?.failures.length).toBeGreaterThan(0);
    expectPart();
    gateway.bodyLimit = Number.POSITIVE_INFINITY;
    await expectRest();
  });

  test("does not come again when everything was deleted", async () => {
    await startAgain();
    gateway.documents.clear();
    expect(await startAgain()).toBeUndefined();
    expect(ids()).toEqual([]);
  });

  test("does not come again when an interrupted one was finished by hand, and everything deleted", async () => {
    await mark.write("begun");
    await seedSamples(mark, { gateway: gateway.url, out: fakeOutput(false).out });
    gateway.documents.clear();
    expect(await startAgain()).toBeUndefined();
    expect(ids()).toEqual([]);
  });

  test("is none of a stack that had documents, not even when they are deleted", async () => {
    gateway.documents.set("mine", { id: "mine" });
    expect(await startAgain()).toBeUndefined();
    gateway.documents.clear();
    expect(await startAgain()).toBeUndefined();
  });

  test("comes again with a new data folder", async () => {
    await startAgain();
    gateway.documents.clear();
    rmSync(data, { recursive: true });
    expect(await startAgain()).toMatchObject({ created: SAMPLES.length });
  });

  test("leaves a stack alone whose mark says something else", async () => {
    mkdirSync(data, { recursive: true });
    writeFileSync(join(data, "samples"), "");
    expect(await startAgain()).toBeUndefined();
  });
});
