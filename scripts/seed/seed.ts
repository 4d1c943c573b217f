/** Fills a stack with documents of a folder or of the sample collection, a few batches at a time, and shows progress. */
import {
  DocumentsClient,
  type DocumentsClientOptions,
  type Entry,
  EntryError,
  type Failure,
  GatewayRefusal,
  type PreparedDocument,
  prepare,
} from "./documents.ts";
import { readFolder } from "./folder.ts";
import { type SampleMark, sampleEntries } from "./samples.ts";

export interface SeedOptions extends Pick<DocumentsClientOptions, "gateway" | "apiKey"> {
  /** Ends the load; a later load resumes it. */
  readonly signal?: AbortSignal | undefined;
  /** Where progress goes. @default standard error */
  readonly out?: NodeJS.WriteStream;
}

/**
 * Loads the sample collection into a gateway; loaded documents are unchanged.
 *
 * @param mark - Mark of the stack with its own databases; undefined for databases that run elsewhere.
 * @throws UserError when a picture is missing in the download cache and its package is not available.
 */
export async function seedSamples(mark: SampleMark | undefined, options: SeedOptions): Promise<LoadSummary> {
  const { out = process.stderr, signal } = options;
  const report = (line: string) => void out.write(`  ${line}\n`);
  const entries = await sampleEntries({ report, ...(signal === undefined ? {} : { signal }) });
  // Before the first document, after which the stack no longer counts as empty.
  if ((await mark?.read()) === "none") await mark?.write("begun");
  const summary = await seed(entries, [], options);
  if (summary.stopped === undefined && summary.failures.length === 0) await mark?.write("settled");
  return summary;
}

/**
 * Loads the sample collection into a new stack, once and as a whole. A stack with documents gets none of it, and documents that people
 * delete stay deleted; a load that was interrupted, or in which documents failed, continues.
 *
 * @returns undefined if nothing was to be loaded.
 * @throws UserError as seedSamples does; GatewayRefusal when the gateway can't be asked.
 */
export async function seedSamplesOnce(
  mark: SampleMark,
  options: SeedOptions,
): Promise<LoadSummary | undefined> {
  const { out = process.stderr, signal = new AbortController().signal, ...target } = options;
  const state = await mark.read();
  if (state === "settled") return undefined;
  if (state === "begun") {
    out.write("  resuming the load of the sample pictures\n");
    return seedSamples(mark, options);
  }
  const onWait = (reason: string, seconds: number) => void out.write(`  ${waitLine(reason, seconds)}\n`);
  if (await new DocumentsClient({ ...target, onWait }).isEmpty(signal)) return seedSamples(mark, options);
  await mark.write("settled");
  return undefined;
}

/**
 * Loads a folder of pictures and captions into a gateway.
 *
 * @param directory - Absolute path.
 * @throws UserError when the folder can't be read or holds nothing to load.
 */
export async function seedFolder(directory: string, options: SeedOptions): Promise<LoadSummary> {
  const { entries, failures } = await readFolder(directory);
  return seed(entries, failures, options);
}

async function seed(
  entries: readonly Entry[],
  failed: readonly Failure[],
  { out = process.stderr, signal, ...target }: SeedOptions,
): Promise<LoadSummary> {
  const progress = new Progress(entries.length, out);
  const onWait = (reason: string, seconds: number) => progress.note(waitLine(reason, seconds));
  try {
    const client = new DocumentsClient({ ...target, onWait });
    const summary = await load(entries, client, signal, (done) => progress.update(done));
    return {
      ...summary,
      total: summary.total + failed.length,
      failures: [...failed, ...summary.failures],
    };
  } finally {
    progress.close();
  }
}

function waitLine(reason: string, seconds: number): string {
  return `${reason}; trying again in ${seconds.toFixed(1)} s`;
}

/** Documents of one request; the gateway takes 256. */
const BATCH_DOCUMENTS = 64;
/** Pictures and texts of one request, before base64. */
const BATCH_BYTES = 2 * 1024 * 1024;
/** Concurrent batches, whose number also limits memory. */
const SENDERS = 4;

export interface LoadSummary {
  readonly total: number;
  readonly created: number;
  readonly updated: number;
  /** Already loaded. */
  readonly unchanged: number;
  readonly failures: readonly Failure[];
  /** Reason why the rest was not tried: Ctrl-C, or an unreachable gateway. */
  readonly stopped?: string;
}

/**
 * Loads entries. Never throws for failures of the gateway or the files, which the summary lists. A later call with the same entries
 * resumes, since the gateway does not change documents that it has.
 *
 * @param signal - Ends the load at once.
 * @param onProgress - Called with the number of loaded and failed documents.
 */
export async function load(
  entries: readonly Entry[],
  client: DocumentsClient,
  signal?: AbortSignal,
  onProgress?: (done: number) => void,
): Promise<LoadSummary> {
  const counts = { created: 0, updated: 0, unchanged: 0 };
  const failures: Failure[] = [];
  const end = new AbortController();
  const stop = AbortSignal.any([end.signal, ...(signal === undefined ? [] : [signal])]);
  let stopped: string | undefined;
  const progress = () => onProgress?.(counts.created + counts.updated + counts.unchanged + failures.length);
  const fail = (failure: Failure) => {
    failures.push(failure);
    progress();
  };

  const waiting = batches(entries, fail);
  const sender = async () => {
    try {
      for (;;) {
        const { value: batch, done } = await waiting.next();
        if (done) return;
        stop.throwIfAborted();
        const outcomes = await client.load(batch, stop);
        outcomes.forEach(({ status, reason }, index) => {
          if (status === "failed") failures.push({ label: batch[index]?.label ?? "", reason: reason ?? "" });
          else counts[status] += 1;
        });
        progress();
      }
    } catch (error) {
      if (error instanceof GatewayRefusal) stopped ??= error.message;
      else if (!stop.aborted) throw error;
      end.abort();
    }
  };
  const senders = await Promise.allSettled(Array.from({ length: SENDERS }, sender));
  for (const result of senders) if (result.status === "rejected") throw result.reason;
  if (signal?.aborted) stopped ??= "interrupted";
  return { total: entries.length, ...counts, failures, ...(stopped === undefined ? {} : { stopped }) };
}

/** Entries that can't be read, or repeat an id of this load, are passed to `fail`. */
async function* batches(
  entries: readonly Entry[],
  fail: (failure: Failure) => void,
): AsyncGenerator<PreparedDocument[]> {
  const seen = new Map<string, string>();
  let batch: PreparedDocument[] = [];
  let bytes = 0;
  for (const entry of entries) {
    const document = await prepare(entry).catch((error: unknown) => {
      if (!(error instanceof EntryError)) throw error;
      fail({ label: entry.label, reason: error.message });
    });
    if (document === undefined) continue;
    const first = seen.get(document.id);
    if (first !== undefined) {
      fail({
        label: entry.label,
        reason: `it has the id ${document.id} of ${first}; give one of them another`,
      });
      continue;
    }
    seen.set(document.id, entry.label);
    const size = (document.picture?.bytes.length ?? 0) + Buffer.byteLength(document.text ?? "");
    if (batch.length === BATCH_DOCUMENTS || (batch.length > 0 && bytes + size > BATCH_BYTES)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(document);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}

const BAR_CELLS = 30;
const REDRAW_MILLISECONDS = 100;

export class Progress {
  readonly #out: NodeJS.WriteStream;
  readonly #total: number;
  readonly #started = performance.now();
  #drawn = -Infinity;
  #done = 0;

  /** @param total - Documents. */
  constructor(total: number, out: NodeJS.WriteStream) {
    this.#total = total;
    this.#out = out;
  }

  /** @param done - Documents so far. */
  update(done: number): void {
    const tenths = (documents: number) => Math.floor((10 * documents) / this.#total);
    const isNextTenth = tenths(done) > tenths(this.#done);
    this.#done = done;
    if (!this.#out.isTTY) {
      if (isNextTenth) this.#out.write(`  ${this.#counts()}\n`);
      return;
    }
    const now = performance.now();
    if (done < this.#total && now - this.#drawn < REDRAW_MILLISECONDS) return;
    this.#drawn = now;
    this.#draw();
  }

  /** Prints a permanent line. */
  note(line: string): void {
    this.#out.write(`${this.#out.isTTY ? "\r\x1b[K" : ""}  ${line}\n`);
    if (this.#out.isTTY) this.#draw();
  }

  /** Removes the bar. */
  close(): void {
    if (this.#out.isTTY) this.#out.write("\r\x1b[K");
  }

  #draw(): void {
    const cells = Math.round((BAR_CELLS * this.#done) / this.#total);
    const bar = "█".repeat(cells) + "░".repeat(BAR_CELLS - cells);
    this.#out.write(`\r\x1b[K  ${bar} ${this.#counts()}${this.#rest()}`);
  }

  #counts(): string {
    const percent = Math.floor((100 * this.#done) / this.#total);
    return `${this.#done} of ${this.#total} documents (${percent} %)`;
  }

  #rest(): string {
    const perSecond = this.#done / ((performance.now() - this.#started) / 1000);
    if (this.#done === 0 || this.#done === this.#total) return "";
    return `, ${Math.ceil((this.#total - this.#done) / perSecond)} s left`;
  }
}
