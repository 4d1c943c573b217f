/**
 * Messages of MongoDB's wire protocol: OP_MSG, and OP_QUERY as far as drivers use it for their first `hello`.
 * https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/
 */

import { type Document, Double, deserialize, Long } from "bson";
import { BSON_ARRAY, BSON_DOCUMENT, elementsIn, joinElements, write } from "./documents.ts";

const HEADER_BYTES = 16;
const OP_REPLY = 1;
const OP_QUERY = 2004;
const OP_MSG = 2013;
const MORE_TO_COME = 1 << 1;
/** Bits of the flags that a server must understand or refuse. */
const REQUIRED_BITS = 0xffff;

/** As a server announces it in `hello`: larger messages are refused, and the connection is closed. */
export const MAX_MESSAGE_BYTES = 48_000_000;

/** MongoDB's BSONObjMaxInternalSize, for commands that are not in `LISTS`: their values take many times the memory. */
const MAX_COMMAND_BYTES = 16 * 1024 * 1024 + 16 * 1024;

/** A message can't be read. Its connection must be closed: the start of the next message is unknown. */
export class WireError extends Error {
  override readonly name = "WireError";
}

export interface Request {
  readonly requestId: number;
  /** The command, its name being the first key, as plain values; see `LISTS`. */
  readonly body: Document;
  /** Unacknowledged: no reply is sent. */
  readonly isSilent: boolean;
  /** Whether the reply must be an OP_REPLY. */
  readonly isLegacy: boolean;
}

/** By command: the list whose documents stay the bytes that the client wrote, so that their types stay what they were. */
const LISTS: Readonly<Record<string, string>> = {
  insert: "documents",
  update: "updates",
  delete: "deletes",
};

/** @throws WireError for a message that this server can't read. */
export function parseMessage(message: Buffer): Request {
  try {
    const requestId = message.readInt32LE(4);
    const opCode = message.readInt32LE(12);
    if (opCode === OP_MSG) return parseMsg(message, requestId);
    if (opCode === OP_QUERY) return parseQuery(message, requestId);
    throw new WireError(`Operation ${opCode} is not supported: this server speaks OP_MSG (MongoDB 3.6)`);
  } catch (error) {
    if (error instanceof WireError) throw error;
    throw new WireError(`An unreadable message: ${(error as Error).message}`);
  }
}

function parseMsg(message: Buffer, requestId: number): Request {
  const flags = message.readUInt32LE(HEADER_BYTES);
  if ((flags & REQUIRED_BITS & ~MORE_TO_COME) !== 0) {
    throw new WireError(`Flag bits ${flags.toString(16)}: this server does not support checksums or exhaust`);
  }
  let body: Document | undefined;
  const sequences: [name: string, documents: Uint8Array[]][] = [];
  for (let offset = HEADER_BYTES + 4; offset < message.length; ) {
    const kind = message[offset];
    const end = offset + 1 + message.readInt32LE(offset + 1);
    if (end < offset + 6 || end > message.length) throw new WireError("A section is longer than its message");
    const section = message.subarray(offset + 1, end);
    if (kind === 0 && body === undefined) body = readBody(section);
    else if (kind === 1) sequences.push(readSequence(section.subarray(4)));
    else throw new WireError(`A section of kind ${kind} where it can't be`);
    offset = end;
  }
  if (body === undefined) throw new WireError("A message without a command");
  for (const [name, documents] of sequences) {
    if (Object.hasOwn(body, name)) throw new WireError(`${name} is given twice`);
    body = { ...body, [name]: documents };
  }
  return { requestId, body, isSilent: (flags & MORE_TO_COME) !== 0, isLegacy: false };
}

function readBody(section: Buffer): Document {
  // Behind its length and the type of its first element.
  const command = section.toString("utf8", 5, section.indexOf(0, 5));
  const list = Object.hasOwn(LISTS, command) ? LISTS[command] : undefined;
  if (list === undefined && section.length > MAX_COMMAND_BYTES) {
    throw new WireError(`A command of ${section.length} bytes; it may have ${MAX_COMMAND_BYTES}`);
  }
  return deserialize(section, list === undefined ? {} : { fieldsAsRaw: { [list]: true } });
}

function readSequence(section: Buffer): [name: string, documents: Uint8Array[]] {
  const terminator = section.indexOf(0);
  if (terminator < 1) throw new WireError("A sequence without a name");
  const documents: Uint8Array[] = [];
  for (let offset = terminator + 1; offset < section.length; ) {
    const size = section.readInt32LE(offset);
    if (size < 5 || offset + size > section.length)
      throw new WireError("A document is longer than its sequence");
    documents.push(section.subarray(offset, offset + size));
    offset += size;
  }
  return [section.toString("utf8", 0, terminator), documents];
}

/** Only what a driver's first `hello` needs: one command on `$cmd`. */
function parseQuery(message: Buffer, requestId: number): Request {
  const nameEnd = message.indexOf(0, HEADER_BYTES + 4);
  const name = message.toString("utf8", HEADER_BYTES + 4, nameEnd);
  if (nameEnd < 0 || !name.endsWith(".$cmd")) throw new WireError("OP_QUERY is read for commands only");
  const start = nameEnd + 1 + 8;
  const query = deserialize(message.subarray(start, start + message.readInt32LE(start)));
  const body = { ...(query.$query ?? query), $db: name.slice(0, -".$cmd".length) };
  return { requestId, body, isSilent: false, isLegacy: true };
}

/** Assembles messages from a socket's chunks, copying each byte at most once. */
export class MessageReader {
  #chunks: Buffer[] = [];
  #bytes = 0;

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
  }

  /** Bytes that were added and not taken. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Length of the message that has begun; undefined while that is not known. @throws WireError */
  get expectedBytes(): number | undefined {
    if (this.#bytes < 4) return undefined;
    if ((this.#chunks[0]?.length ?? 0) < 4) this.#chunks = [Buffer.concat(this.#chunks)];
    const length = this.#chunks[0]?.readInt32LE(0) ?? 0;
    if (length >= HEADER_BYTES && length <= MAX_MESSAGE_BYTES) return length;
    throw new WireError(`A message of ${length} bytes; they have ${HEADER_BYTES} to ${MAX_MESSAGE_BYTES}`);
  }

  /** The next whole message. @throws WireError */
  take(): Buffer | undefined {
    const expected = this.expectedBytes;
    if (expected === undefined || this.#bytes < expected) return undefined;
    const [first = Buffer.alloc(0)] = this.#chunks;
    const all = this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
    this.#chunks = all.length > expected ? [all.subarray(expected)] : [];
    this.#bytes -= expected;
    return all.subarray(0, expected);
  }
}

/** A document, or one that is BSON already. */
export type Reply = Document | Uint8Array;

/** The whole message, header included. @throws CommandError 10334 when it is too large. */
export function encodeReply({ requestId, isLegacy }: Request, reply: Reply): Buffer {
  const body = reply instanceof Uint8Array ? reply : write(reply);
  // OP_MSG: flags, and the kind of its only section. OP_REPLY: flags, cursor, first document, number of documents.
  const prefix = Buffer.alloc(isLegacy ? 20 : 5);
  if (isLegacy) {
    const AWAIT_CAPABLE = 8;
    prefix.writeInt32LE(AWAIT_CAPABLE, 0);
    prefix.writeInt32LE(1, 16);
  }
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeInt32LE(HEADER_BYTES + prefix.length + body.length, 0);
  header.writeInt32LE(requestId, 8);
  header.writeInt32LE(isLegacy ? OP_REPLY : OP_MSG, 12);
  return Buffer.concat([header, prefix, body]);
}

/**
 * The reply to a command that opens or advances a cursor.
 *
 * @param id - The cursor's id; 0 after the last batch.
 * @param documents - Sent as they are.
 */
export function batchReply(
  field: "firstBatch" | "nextBatch",
  id: number,
  namespace: string,
  documents: readonly Uint8Array[],
): Uint8Array {
  const list = joinElements(
    documents.flatMap((bytes, index) => [elementHead(BSON_DOCUMENT, String(index)), bytes]),
  );
  const rest = elementsIn({ id: Long.fromNumber(id), ns: namespace });
  const cursor = joinElements([elementHead(BSON_ARRAY, field), list, rest]);
  return joinElements([elementHead(BSON_DOCUMENT, "cursor"), cursor, elementsIn({ ok: new Double(1) })]);
}

/** Type and name of an element. */
function elementHead(type: number, name: string): Uint8Array {
  return Buffer.from(`${String.fromCharCode(type)}${name}\0`, "utf8");
}
