/**
 * Messages of MongoDB's wire protocol: OP_MSG, and OP_QUERY as far as drivers use it for their first `hello`.
 * https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/
 */
import { type Document, deserialize } from "bson";
import { crc32c } from "./crc32c.ts";
import { BSON_ARRAY, BSON_DOCUMENT, elementsOf, joinElements } from "./documents.ts";

export const HEADER_BYTES = 16;
export const OP_REPLY = 1;
const OP_QUERY = 2004;
export const OP_MSG = 2013;
const CHECKSUM_PRESENT = 1 << 0;
const MORE_TO_COME = 1 << 1;
/** Bits of the flags that a server must understand or refuse. */
const REQUIRED_BITS = 0xffff;

/** As a server announces it in `hello`: larger messages are refused, and the connection is closed. */
export const MAX_MESSAGE_BYTES = 48_000_000;

/** What a client sent can't be read: the connection can't go on, since nobody knows where the next message begins. */
export class WireError extends Error {
  override readonly name = "WireError";
}

export interface Request {
  readonly requestId: number;
  /** The command as plain values, its name being the first key; without `lists`. */
  readonly body: Document;
  /** The documents of `documents`, `updates` and `deletes` as the client wrote them, so that types stay what they were. */
  readonly lists: ReadonlyMap<string, readonly Uint8Array[]>;
  /** Unacknowledged: no reply is sent. */
  readonly isSilent: boolean;
  /** Whether the reply must be an OP_REPLY. */
  readonly isLegacy: boolean;
}

/** Lists of a command's body that are kept as bytes; a driver may send the same ones as sequences. */
const RAW_LISTS = new Set(["documents", "updates", "deletes"]);

/** Length of the message that begins with these bytes, of which there are at least 4. @throws WireError */
export function messageLength(bytes: Buffer): number {
  const length = bytes.readInt32LE(0);
  if (length < HEADER_BYTES || length > MAX_MESSAGE_BYTES) {
    throw new WireError(`A message of ${length} bytes; they have ${HEADER_BYTES} to ${MAX_MESSAGE_BYTES}`);
  }
  return length;
}

/** @throws WireError when it is no message that this server reads. */
export function parseMessage(message: Buffer): Request {
  try {
    const requestId = message.readInt32LE(4);
    const opCode = message.readInt32LE(12);
    if (opCode === OP_MSG) return parseMsg(message, requestId);
    if (opCode === OP_QUERY) return parseQuery(message, requestId);
    throw new WireError(
      `Operation ${opCode} is not supported; use a driver that speaks OP_MSG (MongoDB 3.6)`,
    );
  } catch (error) {
    if (error instanceof WireError) throw error;
    throw new WireError(`An unreadable message: ${(error as Error).message}`);
  }
}

function parseMsg(message: Buffer, requestId: number): Request {
  const flags = message.readUInt32LE(HEADER_BYTES);
  if ((flags & REQUIRED_BITS & ~(CHECKSUM_PRESENT | MORE_TO_COME)) !== 0) {
    throw new WireError(`Unknown flag bits ${flags.toString(16)}`);
  }
  const end = (flags & CHECKSUM_PRESENT) === 0 ? message.length : checkedEnd(message);
  let offset = HEADER_BYTES + 4;
  let body: Document | undefined;
  const lists = new Map<string, readonly Uint8Array[]>();
  while (offset < end) {
    const kind = message[offset];
    const size = message.readInt32LE(offset + 1);
    const sectionEnd = offset + 1 + size;
    if (size < 5 || sectionEnd > end) throw new WireError("A section is longer than its message");
    if (kind === 0 && body === undefined) body = readBody(message.subarray(offset + 1, sectionEnd), lists);
    else if (kind === 1) readSequence(message.subarray(offset + 5, sectionEnd), lists);
    else throw new WireError(`A section of kind ${kind} where it can't be`);
    offset = sectionEnd;
  }
  if (body === undefined) throw new WireError("A message without a command");
  for (const name of lists.keys())
    if (Object.hasOwn(body, name)) throw new WireError(`${name} is given twice`);
  return { requestId, body, lists, isSilent: (flags & MORE_TO_COME) !== 0, isLegacy: false };
}

/** Where the sections end. @throws WireError when the checksum is wrong. */
function checkedEnd(message: Buffer): number {
  const end = message.length - 4;
  if (end <= HEADER_BYTES + 4 || message.readUInt32LE(end) !== crc32c(message.subarray(0, end))) {
    throw new WireError("The checksum of a message is wrong");
  }
  return end;
}

function readBody(section: Buffer, lists: Map<string, readonly Uint8Array[]>): Document {
  const rest: Buffer[] = [];
  for (const { name, type, start, valueStart, end } of elementsOf(section)) {
    const documents =
      type === BSON_ARRAY && RAW_LISTS.has(name) ? documentsOf(section.subarray(valueStart, end)) : undefined;
    if (documents === undefined) rest.push(section.subarray(start, end));
    else addList(lists, name, documents);
  }
  return deserialize(joinElements(rest));
}

/** The documents of a list; undefined where it holds something else as well. */
function documentsOf(list: Buffer): Uint8Array[] | undefined {
  const elements = elementsOf(list);
  if (elements.some(({ type }) => type !== BSON_DOCUMENT)) return undefined;
  return elements.map(({ valueStart, end }) => list.subarray(valueStart, end));
}

function readSequence(section: Buffer, lists: Map<string, readonly Uint8Array[]>): void {
  const terminator = section.indexOf(0);
  if (terminator < 1) throw new WireError("A sequence without a name");
  const documents: Uint8Array[] = [];
  let offset = terminator + 1;
  while (offset < section.length) {
    const size = section.readInt32LE(offset);
    if (size < 5 || offset + size > section.length)
      throw new WireError("A document is longer than its sequence");
    documents.push(section.subarray(offset, offset + size));
    offset += size;
  }
  addList(lists, section.toString("utf8", 0, terminator), documents);
}

function addList(
  lists: Map<string, readonly Uint8Array[]>,
  name: string,
  documents: readonly Uint8Array[],
): void {
  if (lists.has(name)) throw new WireError(`${name} is given twice`);
  lists.set(name, documents);
}

/** Only what a driver's first `hello` needs: one command on `$cmd`. */
function parseQuery(message: Buffer, requestId: number): Request {
  const nameEnd = message.indexOf(0, HEADER_BYTES + 4);
  const name = message.toString("utf8", HEADER_BYTES + 4, nameEnd);
  if (nameEnd < 0 || !name.endsWith(".$cmd")) throw new WireError("OP_QUERY is read for commands only");
  const start = nameEnd + 1 + 8;
  const size = message.readInt32LE(start);
  const query = deserialize(message.subarray(start, start + size));
  const body = { ...(query.$query ?? query), $db: name.slice(0, -".$cmd".length) };
  return { requestId, body, lists: new Map(), isSilent: false, isLegacy: true };
}
