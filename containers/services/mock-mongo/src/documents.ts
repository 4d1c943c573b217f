/**
 * BSON documents in three forms: bytes of the client, which are stored and sent; plain values to match and compute with;
 * and typed values, which are written back with the types that they were read with.
 */
import { calculateObjectSize, type Document, deserialize, Long, onDemand, serialize } from "bson";

/** Errors by MongoDB's numbers: https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml */
const CODE_NAMES = {
  1: "InternalError",
  2: "BadValue",
  9: "FailedToParse",
  14: "TypeMismatch",
  20: "IllegalOperation",
  22: "InvalidBSON",
  26: "NamespaceNotFound",
  27: "IndexNotFound",
  28: "PathNotViable",
  40: "ConflictingUpdateOperators",
  43: "CursorNotFound",
  48: "NamespaceExists",
  50: "MaxTimeMSExpired",
  52: "DollarPrefixedFieldName",
  53: "InvalidIdField",
  59: "CommandNotFound",
  66: "ImmutableField",
  67: "CannotCreateIndex",
  73: "InvalidNamespace",
  86: "IndexKeySpecsConflict",
  238: "NotImplemented",
  292: "QueryExceededMemoryLimitNoDiskUseAllowed",
  10334: "BSONObjectTooLarge",
  11000: "DuplicateKey",
  12051: "CursorInUse",
  40324: "Location40324",
  40415: "Location40415",
} as const;

/** A command that failed; the client sees code, name and message. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly code: keyof typeof CODE_NAMES;
  /** Further fields of the reply, such as keyPattern. */
  readonly details: Document;

  constructor(code: keyof typeof CODE_NAMES, message: string, details: Document = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }

  get codeName(): string {
    return CODE_NAMES[this.code];
  }
}

/** MongoDB's limit of one document, as `hello` announces it. */
export const MAX_DOCUMENT_BYTES = 16 * 1024 * 1024;
/** Replies hold a document and further fields. */
const MAX_REPLY_DOCUMENT_BYTES = MAX_DOCUMENT_BYTES + 16 * 1024;

/**
 * Numbers as JavaScript's own, except 64-bit integers beyond ±(2^53 - 1), which stay `Long`; decimals, binary data and ids
 * as BSON's classes.
 *
 * @throws CommandError 22 for invalid BSON.
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
  // The serializer silently truncates at its buffer of 17 MiB.
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
 * Writes a document of plain values: whole numbers become 32-bit integers, or 64-bit integers when needed; other numbers
 * doubles.
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

/** Whether a value is a document, not one of BSON's classes. */
export function isPlainObject(value: unknown): value is Document {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** A field that must be a document. @throws CommandError 14 */
export function documentField(body: Document, path: string, fallback?: Document): Document {
  const value: unknown = body[path] ?? fallback;
  if (isPlainObject(value)) return value;
  throw new CommandError(14, `BSON field '${path}' is the wrong type, expected type 'object'`);
}

/** A field that must be a list. @throws CommandError 14 */
export function listField(body: Document, path: string): readonly unknown[] {
  const value: unknown = body[path];
  if (Array.isArray(value)) return value;
  throw new CommandError(14, `BSON field '${path}' is the wrong type, expected type 'array'`);
}

/** A field that must be a whole number of 0 or more. @throws CommandError 2 */
export function countField(body: Document, path: string, fallback: number): number {
  const value: unknown = body[path] ?? fallback;
  const number = Number(value);
  if (typeof value !== "boolean" && Number.isInteger(number) && number >= 0) return number;
  throw new CommandError(2, `BSON field '${path}' must be a whole number >= 0, not '${String(value)}'`);
}

/**
 * Whether a field stays; undefined: that depends on the fields within it, or within the documents of a list.
 *
 * @param isContainer - Whether it is a document or a list.
 */
type Choice = (path: string, isContainer: boolean) => boolean | undefined;

/** A copy of a document with the fields that stay. @param parent - Path of the document; "" for a whole one. */
export function pick(document: Uint8Array, stays: Choice, parent = "", isList = false): Buffer {
  const bytes = Buffer.from(document.buffer, document.byteOffset, document.length);
  const parts: Uint8Array[] = [];
  let start = 4;
  let place = 0;
  for (const [type, nameOffset, nameLength, offset, length] of onDemand.parseToElements(bytes)) {
    const name = bytes.toString("utf8", nameOffset, nameOffset + nameLength);
    const path = isList ? parent : parent + (parent && ".") + name;
    const isKept = stays(path, type === BSON_DOCUMENT || type === BSON_ARRAY);
    // Elements of a list are named by their places, which change where others are left out.
    if (isKept === true && !isList) continue;
    const end = offset + length;
    const keptEnd = isKept === false || isList ? nameOffset - 1 : offset;
    if (start < keptEnd) parts.push(bytes.subarray(start, keptEnd));
    start = end;
    if (isKept === false) continue;
    if (isList) parts.push(Buffer.from([type]), Buffer.from(`${place++}\0`));
    const value = bytes.subarray(offset, end);
    parts.push(isKept ? value : pick(value, stays, path, type === BSON_ARRAY));
  }
  return joinElements([...parts, bytes.subarray(start, -1)]);
}

export const BSON_DOCUMENT = 3;
export const BSON_ARRAY = 4;

/** A document of elements that are BSON already. */
export function joinElements(parts: readonly Uint8Array[]): Buffer {
  const size = 5 + parts.reduce((sum, part) => sum + part.length, 0);
  const document = Buffer.allocUnsafe(size);
  let end = document.writeInt32LE(size);
  for (const part of parts) {
    document.set(part, end);
    end += part.length;
  }
  document[end] = 0;
  return document;
}

/** The elements of a small document, to be put beside others. */
export function elementsIn(document: Document): Uint8Array {
  return serialize(document).subarray(4, -1);
}
