/** Loads entries: read, put into batches, sent by a few senders at a time. */
import { type DocumentsClient, GatewayRefusal } from "./documents-client.ts";
import { type Entry, EntryError, type PreparedDocument, prepare } from "./entry.ts";

/** Documents of one request; the gateway takes 256. */
const BATCH_DOCUMENTS = 64;
/** Pictures and texts of one request, before base64. */
const BATCH_BYTES = 2 * 1024 * 1024;
/** Batches under way. They bound the memory, too. */
const SENDERS = 4;

export interface Failure {
  /** File, or line of a file. */
  readonly label: string;
  readonly reason: string;
}

export interface LoadSummary {
  readonly total: number;
  readonly created: number;
  readonly updated: number;
  /** Were there already, the same. */
  readonly unchanged: number;
  readonly failures: readonly Failure[];
  /** Why the rest was not tried: Ctrl-C, or a gateway that is gone. */
  readonly stopped?: string;
}

export interface LoadOptions {
  /** Ends the load; what was begun is given up. */
  readonly signal?: AbortSignal;
  /** Documents that are loaded or have failed, of all. */
  readonly onProgress?: (done: number) => void;
}

/**
 * Loads entries. Never throws for what the gateway or the files do: the summary tells. A later call with the same
 * entries goes on where this one ended, since the gateway leaves alone what it has.
 */
export async function load(
  entries: readonly Entry[],
  client: DocumentsClient,
  { signal, onProgress }: LoadOptions = {},
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
      for await (const batch of { [Symbol.asyncIterator]: () => ({ next: () => waiting.next() }) }) {
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

/** Entries that can't be read, or repeat an id of this load, go to `fail`. */
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
