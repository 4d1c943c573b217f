/** Finishes what was interrupted, and finds what the databases do not agree about. */
import { randomUUID } from "node:crypto";
import type { FastifyBaseLogger } from "fastify";
import type { CallContext } from "../call-context.ts";
import type { ApiError } from "../errors.ts";
import { batchesOf } from "../triton/encoder-requests.ts";
import type { KeyedLocks } from "./locks.ts";
import type { Settlement, Stores } from "./settlement.ts";

const SWEEP_SECONDS = 60;
/** After a sweep that failed, or a write that was left unfinished. */
const SOON_SECONDS = 5;
/** How often all documents are compared, beside unfinished ones; it reads the ids of all documents and points. */
const COMPARE_SECONDS = 600;
const PAGE_DOCUMENTS = 500;
/** Documents that are settled at once: as many as a request may write, with their images in memory. */
const BATCH_DOCUMENTS = 256;

/** What a sweep did, in documents and images. */
export interface SweepResult {
  /** Unfinished writes and deletions that were brought to their end. */
  readonly finished: number;
  /** Documents whose vectors were missing or of another content, and vectors without a document. */
  readonly compared: number;
  /** Images that no document showed. */
  readonly images: number;
  /** Documents that the encoder refuses. */
  readonly refused: number;
}

interface RepairSettings {
  readonly stores: Stores;
  readonly settlement: Settlement;
  readonly locks: KeyedLocks;
  /** How long an image that no document shows is kept: longer than any request takes from its image to its document. */
  readonly imageGraceSeconds: number;
  readonly log: FastifyBaseLogger;
  readonly onResult: (result: SweepResult) => void;
}

export class Repair {
  readonly #settings: RepairSettings;
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #dueAt = Number.POSITIVE_INFINITY;
  #running: Promise<void> | undefined;
  #comparedAt = Number.NEGATIVE_INFINITY;
  #hasFailed = false;

  constructor(settings: RepairSettings) {
    this.#settings = settings;
  }

  /** Sweeps now and from then on. */
  start(): void {
    this.#schedule(0);
  }

  /** Sweeps soon: something was left unfinished. */
  nudge(): void {
    if (performance.now() + SOON_SECONDS * 1000 < this.#dueAt) this.#schedule(SOON_SECONDS);
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#stopping.abort(new Error("the gateway is being stopped"));
    await this.#running;
  }

  /**
   * One sweep.
   * @param isComplete - Whether all documents are compared as well.
   * @throws ApiError when a database or the encoder is away; what was done until then stays.
   */
  async sweep(isComplete: boolean): Promise<SweepResult> {
    const { documents, images } = this.#settings.stores;
    const call = { requestId: `repair-${randomUUID()}`, signal: this.#stopping.signal };
    const refused = new Set<string>();
    if (isComplete) await documents.prepare(call);
    const finished = await this.#finishAll(refused, call);
    if (!isComplete) return { finished, compared: 0, images: 0, refused: refused.size };
    const compared =
      (await this.#compareDocuments(refused, call)) + (await this.#comparePoints(refused, call));
    const before = new Date(Date.now() - this.#settings.imageGraceSeconds * 1000);
    const removed = await images.removeUnused(before, call);
    return { finished, compared, images: removed, refused: refused.size };
  }

  #schedule(seconds: number): void {
    if (this.#stopping.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#dueAt = performance.now() + seconds * 1000;
    this.#timer = setTimeout(() => {
      this.#dueAt = Number.POSITIVE_INFINITY;
      this.#running = (this.#running ?? Promise.resolve()).then(() => this.#turn());
    }, seconds * 1000).unref();
  }

  async #turn(): Promise<void> {
    const { log, onResult } = this.#settings;
    if (this.#stopping.signal.aborted) return;
    const started = performance.now();
    const isComplete = this.#hasFailed || started - this.#comparedAt >= COMPARE_SECONDS * 1000;
    try {
      const result = await this.sweep(isComplete);
      if (isComplete) this.#comparedAt = started;
      if (this.#hasFailed || Object.values(result).some((count) => count > 0)) log.info(result, "repair");
      this.#hasFailed = false;
      onResult(result);
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      // Once for each outage.
      if (!this.#hasFailed)
        log.warn({ err: error }, "repair is interrupted, and tries again until it can go on");
      this.#hasFailed = true;
    }
    if (performance.now() + SWEEP_SECONDS * 1000 < this.#dueAt) {
      this.#schedule(this.#hasFailed ? SOON_SECONDS : SWEEP_SECONDS);
    }
  }

  async #finishAll(refused: Set<string>, call: CallContext): Promise<number> {
    let finished = 0;
    for (let after = ""; ; ) {
      const page = await this.#settings.stores.documents.unfinished(after, PAGE_DOCUMENTS, call);
      const last = page.at(-1);
      if (last === undefined) return finished;
      after = last;
      // What has its lock taken is being written by this process.
      finished += await this.#settle(
        page.filter((id) => !this.#settings.locks.isTaken(id)),
        refused,
        call,
      );
    }
  }

  /** Ready documents whose vectors are missing or of another content. */
  async #compareDocuments(refused: Set<string>, call: CallContext): Promise<number> {
    const { documents, vectors } = this.#settings.stores;
    let settled = 0;
    for await (const page of documents.readyVersions(PAGE_DOCUMENTS, call)) {
      const hashes = await vectors.contentHashes(
        page.map(({ id }) => id),
        call,
      );
      const wrong = page.filter(({ id, contentHash }) => hashes.get(id) !== contentHash);
      settled += await this.#settle(
        wrong.map(({ id }) => id),
        refused,
        call,
      );
    }
    return settled;
  }

  /** Vectors whose document is not there. */
  async #comparePoints(refused: Set<string>, call: CallContext): Promise<number> {
    const { documents, vectors } = this.#settings.stores;
    let settled = 0;
    for await (const page of vectors.pages(PAGE_DOCUMENTS, call)) {
      const ids = page.map(({ documentId }) => documentId);
      const versions = await documents.versions(ids, call);
      settled += await this.#settle(
        ids.filter((id) => !versions.has(id)),
        refused,
        call,
      );
    }
    return settled;
  }

  /** @returns How many were settled. */
  async #settle(ids: readonly string[], refused: Set<string>, call: CallContext): Promise<number> {
    const { settlement, locks, log } = this.#settings;
    let settled = 0;
    for (const batch of batchesOf(ids, BATCH_DOCUMENTS)) {
      const unlock = await locks.lock(batch, call.signal);
      try {
        const errors = await settlement.settle(batch, call);
        for (const [documentId, error] of errors) {
          refused.add(documentId);
          log.warn({ documentId, err: rootOf(error) }, "a document can't be embedded and stays unfinished");
        }
        settled += batch.length - errors.size;
      } finally {
        unlock();
      }
    }
    return settled;
  }
}

function rootOf(error: ApiError): unknown {
  return error.cause instanceof Error ? error.cause : error;
}
