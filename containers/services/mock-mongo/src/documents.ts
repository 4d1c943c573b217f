/**
 * BSON documents in three forms: the bytes as a client sent them, which is what is stored and what goes out; plain values
 * to match and compute with; and typed values, which are written back with the very types that they were read with.
 */
import { calculateObjectSize, type Document, deserialize, Long, onDemand, serialize } from "bson";
import { CommandError } from "./errors.ts";

/** MongoDB's limit of one document, as `hello` announces it. */
export const MAX_DOCUMENT_BYTES = 16 * 1024 * 1024;
/** Replies hold a document and what is around it. */
const MAX_REPLY_DOCUMENT_BYTES = MAX_DOCUMENT_BYTES + 16 * 1024;

/**
 * Numbers as JavaScript's own, except 64-bit integers beyond ±(2^53 - 1), which stay `Long`; decimals, binary data and ids
 * as BSON's classes.
 *
 * @throws CommandError 22 when it is no BSON.
 */
export function readPlain(bytes: Uint8Array): Document {
  return read(bytes, {});
}

/** Every value with its BSON type: `Int32`, `Double` and `Long` instead of numbers. @throws CommandError 22 */
export function readTyped(bytes: Uint8Array): Document {
  return read(bytes, { promoteValues: false, promoteLongs: false, bsonRegExp: true });
}

function read(bytes: Uint8Array, options: Parameters<typeof deserialize>[1]): Document {
  try {
    return deserialize(bytes, options);
  } catch (error) {
    throw new CommandError(22, `A document can't be read as BSON: ${(error as Error).message}`);
  }
}

/** @throws CommandError 10334 for more than 16 MiB. */
export function write(document: Document): Uint8Array {
  // The serializer cuts off silently where its buffer of 17 MiB ends.
  const size = calculateObjectSize(document, { ignoreUndefined: true });
  if (size > MAX_REPLY_DOCUMENT_BYTES) {
    throw new CommandError(
      10334,
      `BSONObj size: ${size} is invalid. Size must be between 0 and ${MAX_DOCUMENT_BYTES}`,
    );
  }
  return serialize(document, { ignoreUndefined: true });
}

/**
 * What was computed from plain values: whole numbers become 32-bit integers, or 64-bit ones where they need to be; all
 * others are doubles.
 */
export function writeComputed(document: Document): Uint8Array {
  return write(withLongs(document) as Document);
}

function withLongs(value: unknown): unknown {
  if (typeof value === "number") {
    return Number.isSafeInteger(value) && Math.abs(value) >= 2 ** 31 ? Long.fromNumber(value) : value;
  }
  if (Array.isArray(value)) return value.map(withLongs);
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withLongs(inner)]));
}

/** A document in the sense of BSON, and none of BSON's own classes. */
export function isPlainObject(value: unknown): value is Document {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

interface Element {
  readonly name: string;
  /** As https://bsonspec.org numbers it. */
  readonly type: number;
  /** With type and name. */
  readonly start: number;
  readonly valueStart: number;
  readonly end: number;
}

export const BSON_DOCUMENT = 3;
export const BSON_ARRAY = 4;

/** The elements of a document's first level, unread. @throws Error when it is no BSON. */
export function elementsOf(bytes: Buffer): Element[] {
  return [...onDemand.parseToElements(bytes)].map(([type, nameOffset, nameLength, offset, length]) => ({
    name: bytes.toString("utf8", nameOffset, nameOffset + nameLength),
    type,
    start: nameOffset - 1,
    valueStart: offset,
    end: offset + length,
  }));
}

/** A document of elements that are BSON already. */
export function joinElements(parts: readonly Uint8Array[]): Buffer {
  const size = 5 + parts.reduce((sum, part) => sum + part.length, 0);
  const length = Buffer.allocUnsafe(4);
  length.writeInt32LE(size);
  return Buffer.concat([length, ...parts, Buffer.alloc(1)], size);
}

/** Type and name of an element. */
export function elementHead(type: number, name: string): Uint8Array {
  return Buffer.from(`${String.fromCharCode(type)}${name}\0`, "utf8");
}

/** The elements of a small document, to be put beside others. */
export function elementsIn(document: Document): Uint8Array {
  return serialize(document).subarray(4, -1);
}
