/** The vector database by itself: a million vectors in memory, and the time of an exact search among them. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jsonSender, median } from "../../scripts/bench/load.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { freePort } from "../harness/ports.ts";
import { tell } from "../harness/progress.ts";
import { type BenchServer, startServer } from "./server-process.ts";

export interface VectorSearchResult {
  readonly vectors: number;
  readonly dimension: number;
  readonly loadSeconds: number;
  readonly searches: number;
  readonly searchP50Milliseconds: number;
  /** Resident memory of the server, after the searches. */
  readonly rssBytes: number;
  /** Size of only the vectors, as 32-bit floats. */
  readonly vectorBytes: number;
}

const DIMENSION = 384;
const VECTORS = 1_000_000;
const BATCH = 2000;
const SENDERS = 2;
const SEARCHES = 20;
/** Time limit of new batches; the vectors that are stored by then are measured. */
const LOAD_LIMIT_SECONDS = 900;
const READY_SECONDS = 30;

/** Starts a vector database on a free port, with its data, a few GB, in a temporary folder. */
export async function measureVectorSearch(vectors: number = VECTORS): Promise<VectorSearchResult> {
  const directory = mkdtempSync(join(tmpdir(), "engine-room-vectors-"));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const main = ["loader/run.mjs", "containers/services/mock-vector/src/main.ts"];
  const options = ["--data", directory, "--port", `${port}`, "--log-level", "error"];
  let server: BenchServer | undefined;
  try {
    server = await startServer({
      name: "The vector database",
      command: [process.execPath, ...main, ...options],
      directory: projectRoot,
      readyUrl: `${url}/readyz`,
      readySeconds: READY_SECONDS,
    });
    await send(url, "PUT", "/collections/bench", { vectors: { size: DIMENSION, distance: "Cosine" } });
    const started = performance.now();
    const loaded = await load(url, vectors, started + LOAD_LIMIT_SECONDS * 1000);
    const loadSeconds = (performance.now() - started) / 1000;
    const search = jsonSender(`${url}/collections/bench/points/query`, (index) => ({
      query: vectorOf(vectors + index),
      limit: 10,
    }));
    const milliseconds: number[] = [];
    for (let index = 0; index <= SEARCHES; index++) {
      const before = performance.now();
      await search(index);
      // The first search runs code that is not compiled yet.
      if (index > 0) milliseconds.push(performance.now() - before);
    }
    return {
      vectors: loaded,
      dimension: DIMENSION,
      loadSeconds,
      searches: SEARCHES,
      searchP50Milliseconds: median(milliseconds),
      rssBytes: residentBytes(server.pid),
      vectorBytes: loaded * DIMENSION * Float32Array.BYTES_PER_ELEMENT,
    };
  } finally {
    await server?.stop();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** One line for people. */
export function vectorSearchText(figures: VectorSearchResult): string {
  const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(2);
  return (
    `${figures.vectors} vectors of ${figures.dimension}: loaded in ${figures.loadSeconds.toFixed(0)} s, exact search p50 ` +
    `${figures.searchP50Milliseconds.toFixed(0)} ms over ${figures.searches}, resident ${gib(figures.rssBytes)} GiB ` +
    `(the vectors alone ${gib(figures.vectorBytes)} GiB)`
  );
}

/** @param end - In `performance.now()`'s time. @returns Number of loaded vectors. */
async function load(url: string, vectors: number, end: number): Promise<number> {
  let next = 0;
  let loaded = 0;
  const sender = async () => {
    while (next < vectors && performance.now() < end) {
      const first = next;
      const count = Math.min(BATCH, vectors - first);
      next += count;
      const points = Array.from({ length: count }, (_, index) => ({
        id: first + index,
        vector: vectorOf(first + index),
      }));
      await send(url, "PUT", "/collections/bench/points?wait=true", { points });
      loaded += count;
      if (loaded % (50 * BATCH) === 0) tell(`${loaded} of ${vectors} vectors loaded`);
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  return loaded;
}

/** Numbers between -1 and 1 that are the same for the same index in every run (mulberry32). */
function vectorOf(index: number): number[] {
  let state = Math.imul(index + 1, 0x9e3779b1);
  return Array.from({ length: DIMENSION }, () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    // Four digits: as JSON a quarter of the bytes, and a search can't tell.
    return Math.round((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 31 - 1) * 1e4) / 1e4;
  });
}

async function send(url: string, method: string, path: string, body: object): Promise<void> {
  const response = await fetch(url + path, {
    method,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: HTTP ${response.status}: ${text.slice(0, 200)}`);
}

/** VmRSS of /proc/PID/status, which is in KiB. */
function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
}
