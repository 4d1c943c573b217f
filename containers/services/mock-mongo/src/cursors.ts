/** Results that are fetched in batches. A cursor holds what it needs to read documents again, not the documents. */
import type { Patience } from "@engine-room/service-process";
import { Long } from "bson";
import { CommandError } from "./errors.ts";
import type { Source } from "./sources.ts";

/** A batch ends before the reply grows over what a driver accepts. */
const MAX_BATCH_BYTES = 16 * 1024 * 1024;
/** MongoDB's default of the first batch. */
export const FIRST_BATCH_DOCUMENTS = 101;

interface Cursor {
  readonly source: Source;
  readonly namespace: string;
  /** Read but not sent, since it did not fit. */
  held: Uint8Array | undefined;
  isInUse: boolean;
  timer: NodeJS.Timeout | undefined;
}

export interface Batch {
  readonly id: Long;
  readonly namespace: string;
  readonly documents: readonly Uint8Array[];
}

interface CursorLimits {
  /** More are refused. */
  readonly openCursors: number;
  /** What all of them may hold together: places of sorted documents, and results that were computed. */
  readonly heldBytes: number;
  /** A cursor that nobody asks for this long is closed. */
  readonly idleSeconds: number;
}

export class Cursors {
  readonly #limits: CursorLimits;
  readonly #open = new Map<string, Cursor>();
  #heldBytes = 0;
  #last = 0;

  constructor(limits: CursorLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#open.size;
  }

  /** The first batch; its id is 0 when it is the last as well. @throws CommandError 292 when cursors hold too much. */
  async open(
    source: Source,
    namespace: string,
    batchSize: number,
    isSingle: boolean,
    patience: Patience,
  ): Promise<Batch> {
    const cursor: Cursor = { source, namespace, held: undefined, isInUse: false, timer: undefined };
    const documents = await take(cursor, batchSize, patience);
    if (isSingle || (await isAtEnd(cursor, patience))) return { id: Long.ZERO, namespace, documents };
    this.#refuseMore(source.heldBytes);
    this.#last += 1;
    const id = Long.fromNumber(this.#last);
    this.#open.set(id.toString(), cursor);
    this.#heldBytes += source.heldBytes;
    this.#keep(id, cursor);
    return { id, namespace, documents };
  }

  /** The next batch. @throws CommandError 43 when there is no such cursor, 12051 when another request reads from it. */
  async next(id: Long, namespace: string, batchSize: number, patience: Patience): Promise<Batch> {
    const cursor = this.#open.get(id.toString());
    if (cursor === undefined || cursor.namespace !== namespace) {
      throw new CommandError(43, `cursor id ${id.toString()} not found`);
    }
    if (cursor.isInUse) throw new CommandError(12051, `cursor id ${id.toString()} is already in use`);
    clearTimeout(cursor.timer);
    cursor.isInUse = true;
    try {
      const documents = await take(cursor, batchSize, patience);
      if (!(await isAtEnd(cursor, patience))) return { id, namespace, documents };
      this.kill(id);
      return { id: Long.ZERO, namespace, documents };
    } finally {
      cursor.isInUse = false;
      if (this.#open.get(id.toString()) === cursor) this.#keep(id, cursor);
    }
  }

  /** @returns Whether there was such a cursor. */
  kill(id: Long): boolean {
    const cursor = this.#open.get(id.toString());
    if (cursor === undefined) return false;
    clearTimeout(cursor.timer);
    this.#heldBytes -= cursor.source.heldBytes;
    return this.#open.delete(id.toString());
  }

  close(): void {
    for (const { timer } of this.#open.values()) clearTimeout(timer);
    this.#open.clear();
  }

  #refuseMore(bytes: number): void {
    const { openCursors, heldBytes } = this.#limits;
    if (this.#open.size >= openCursors) {
      throw new CommandError(292, `${openCursors} cursors are open, the most that are allowed; close some`);
    }
    if (this.#heldBytes + bytes > heldBytes) {
      throw new CommandError(
        292,
        `The open cursors would hold ${this.#heldBytes + bytes} bytes of at most ${heldBytes}; close some, or ask for less`,
      );
    }
  }

  #keep(id: Long, cursor: Cursor): void {
    cursor.timer = setTimeout(() => this.kill(id), this.#limits.idleSeconds * 1000).unref();
  }
}

async function take(cursor: Cursor, batchSize: number, patience: Patience): Promise<Uint8Array[]> {
  const documents: Uint8Array[] = [];
  let bytes = 0;
  while (documents.length < batchSize) {
    const document = cursor.held ?? (await cursor.source.next(patience));
    cursor.held = undefined;
    if (document === undefined) break;
    bytes += document.length;
    // A single document always fits: none is larger than 16 MiB.
    if (documents.length > 0 && bytes > MAX_BATCH_BYTES) {
      cursor.held = document;
      break;
    }
    documents.push(document);
  }
  return documents;
}

async function isAtEnd(cursor: Cursor, patience: Patience): Promise<boolean> {
  cursor.held ??= await cursor.source.next(patience);
  return cursor.held === undefined;
}
