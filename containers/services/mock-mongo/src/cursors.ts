/** Results that clients fetch in batches. */

import { ByteBudget } from "@engine-room/service-process";
import { CommandError } from "./documents.ts";
import type { QueryMemory, Result } from "./query.ts";
import { batchReply, type Reply } from "./wire.ts";

/** A batch ends before the reply grows over what a driver accepts. */
const MAX_BATCH_BYTES = 16 * 1024 * 1024;

interface Cursor extends Result {
  readonly namespace: string;
  /** Read but not sent. */
  ahead: Uint8Array | undefined;
  isInUse: boolean;
  timer: NodeJS.Timeout | undefined;
}

/** Limits over all cursors of a server. */
interface CursorLimits {
  readonly openCursors: number;
  readonly runningReads: number;
  readonly cursorBytes: number;
  readonly cursorIdleSeconds: number;
}

/** Lets other commands run when this command's turn is over; undefined when it is not. @throws CommandError 50 */
export type Rest = () => Promise<void> | undefined;

/** Results that are fetched in batches. */
export class Cursors {
  readonly #limits: CursorLimits;
  readonly #open = new Map<number, Cursor>();
  /** A place for each batch that is being read. */
  readonly #places: ByteBudget;
  /** Memory of all queries, also while they run. */
  readonly memory: QueryMemory;
  #last = 0;

  constructor(limits: CursorLimits) {
    this.#limits = limits;
    this.#places = new ByteBudget(limits.runningReads);
    this.memory = { heldBytes: 0, mostBytes: limits.cursorBytes };
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * The first batch; its id is 0 when it is the last as well.
   *
   * @param isOnly - Whether the client asks for no other batch.
   * @throws CommandError 292 when cursors hold too much.
   */
  async open(
    result: Result,
    namespace: string,
    { batchSize, isOnly }: { readonly batchSize: number; readonly isOnly: boolean },
    rest: Rest,
  ): Promise<Reply> {
    const cursor: Cursor = { ...result, namespace, ahead: undefined, isInUse: false, timer: undefined };
    let isKept = false;
    await this.#places.take(1);
    try {
      const documents = await take(cursor, batchSize, rest);
      if (isOnly || (await nextOf(cursor, rest)) === undefined)
        return batchReply("firstBatch", 0, namespace, documents);
      this.#refuseMore(bytesOf(cursor));
      this.#last += 1;
      isKept = true;
      this.#open.set(this.#last, cursor);
      this.#keep(this.#last, cursor);
      return batchReply("firstBatch", this.#last, namespace, documents);
    } finally {
      this.#places.give(1);
      if (!isKept) cursor.release();
    }
  }

  /** The next batch. @throws CommandError 43 when there is no such cursor, 12051 when another request reads from it. */
  async next(id: number, namespace: string, batchSize: number, rest: Rest): Promise<Reply> {
    const cursor = this.#open.get(id);
    if (cursor?.namespace !== namespace) throw new CommandError(43, `cursor id ${id} not found`);
    if (cursor.isInUse) throw new CommandError(12051, `cursor id ${id} is already in use`);
    clearTimeout(cursor.timer);
    cursor.isInUse = true;
    await this.#places.take(1);
    try {
      const documents = await take(cursor, batchSize, rest);
      const isLast = (await nextOf(cursor, rest)) === undefined;
      if (isLast) this.kill(id);
      return batchReply("nextBatch", isLast ? 0 : id, namespace, documents);
    } finally {
      this.#places.give(1);
      cursor.isInUse = false;
      if (this.#open.has(id)) this.#keep(id, cursor);
      else cursor.release();
    }
  }

  /** @returns Whether there was such a cursor. */
  kill(id: number): boolean {
    const cursor = this.#open.get(id);
    clearTimeout(cursor?.timer);
    // A cursor in use is released after its read.
    if (cursor?.isInUse === false) cursor.release();
    return this.#open.delete(id);
  }

  close(): void {
    for (const id of [...this.#open.keys()]) this.kill(id);
  }

  #refuseMore(bytes: number): void {
    const { openCursors, cursorBytes } = this.#limits;
    const held = [...this.#open.values()].reduce((sum, cursor) => sum + bytesOf(cursor), bytes);
    if (this.#open.size < openCursors && held <= cursorBytes) return;
    const found = `${this.#open.size} open cursors, which would hold ${held} bytes with this cursor`;
    const most = `the limits are ${openCursors} cursors and ${cursorBytes} bytes`;
    throw new CommandError(292, `There are ${found}; ${most}; close some, or ask for less`);
  }

  #keep(id: number, cursor: Cursor): void {
    cursor.timer = setTimeout(() => this.kill(id), this.#limits.cursorIdleSeconds * 1000).unref();
  }
}

function bytesOf({ heldBytes, ahead }: Cursor): number {
  return heldBytes() + (ahead?.length ?? 0);
}

async function take(cursor: Cursor, batchSize: number, rest: Rest): Promise<Uint8Array[]> {
  const documents: Uint8Array[] = [];
  let bytes = 0;
  while (documents.length < batchSize) {
    const document = await nextOf(cursor, rest);
    bytes += document?.length ?? 0;
    // A single document always fits: none is larger than 16 MiB.
    if (document === undefined || (documents.length > 0 && bytes > MAX_BATCH_BYTES)) break;
    documents.push(document);
    cursor.ahead = undefined;
  }
  return documents;
}

/** The next document, which stays ahead; undefined at the end. */
async function nextOf(cursor: Cursor, rest: Rest): Promise<Uint8Array | undefined> {
  while (cursor.ahead === undefined) {
    const { value: row, done } = cursor.rows.next();
    if (done === true) return undefined;
    cursor.ahead = row?.bytes;
    const turn = rest();
    if (turn !== undefined) await turn;
  }
  return cursor.ahead;
}
