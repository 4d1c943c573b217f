/** Reads one file of a zip archive: enough for what module proxies and GitHub's artifacts make. */
import { inflateRawSync } from "node:zlib";
import { UserError } from "./errors.ts";

const END_SIGNATURE = 0x06054b50;
const END_BYTES = 22;
const CENTRAL_SIGNATURE = 0x02014b50;
const CENTRAL_BYTES = 46;
const LOCAL_BYTES = 30;
const STORED = 0;
const DEFLATED = 8;
const MAX_ENTRY_BYTES = 256 * 2 ** 20;

/**
 * One file of a zip archive. Sizes and places are those of the central directory; archives over 4 GiB are not read.
 *
 * @param maxBytes - Unpacked; an archive of a few KB can hold gigabytes of zeros.
 * @throws UserError where the archive is damaged or has no such file, or where the file is larger.
 */
export function readZipEntry(zip: Buffer, name: string, maxBytes: number = MAX_ENTRY_BYTES): Buffer {
  const end = zip.lastIndexOf(Buffer.from([0x50, 0x4b, 0x05, 0x06]));
  if (end < 0 || end + END_BYTES > zip.length || zip.readUInt32LE(end) !== END_SIGNATURE)
    throw new UserError("The archive is no zip file, or its end is missing.");
  const entries = zip.readUInt16LE(end + 10);
  let offset = zip.readUInt32LE(end + 16);
  for (let index = 0; index < entries; index += 1) {
    if (offset + CENTRAL_BYTES > zip.length || zip.readUInt32LE(offset) !== CENTRAL_SIGNATURE)
      throw new UserError("The archive's directory is damaged.");
    const nameBytes = zip.readUInt16LE(offset + 28);
    const nameStart = offset + CENTRAL_BYTES;
    if (zip.toString("utf8", nameStart, nameStart + nameBytes) === name)
      return contentOf(zip, offset, { name, maxBytes });
    offset = nameStart + nameBytes + zip.readUInt16LE(offset + 30) + zip.readUInt16LE(offset + 32);
  }
  throw new UserError(`The archive has no ${name}.`);
}

function contentOf(
  zip: Buffer,
  central: number,
  { name, maxBytes }: { readonly name: string; readonly maxBytes: number },
): Buffer {
  const method = zip.readUInt16LE(central + 10);
  const local = zip.readUInt32LE(central + 42);
  if (local + LOCAL_BYTES > zip.length) throw new UserError(`The archive's place of ${name} is damaged.`);
  const start = local + LOCAL_BYTES + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
  const data = zip.subarray(start, start + zip.readUInt32LE(central + 20));
  if (method === STORED && data.length <= maxBytes) return data;
  if (method === DEFLATED) return inflated(data, name, maxBytes);
  if (method === STORED) throw tooLarge(name, maxBytes);
  throw new UserError(
    `The archive packs ${name} with method ${method}, which is neither stored nor deflated.`,
  );
}

function inflated(data: Buffer, name: string, maxBytes: number): Buffer {
  try {
    return inflateRawSync(data, { maxOutputLength: maxBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(name, maxBytes);
    throw new UserError(`The archive's ${name} is damaged (${(error as Error).message}).`);
  }
}

function tooLarge(name: string, maxBytes: number): UserError {
  return new UserError(`${name} of the archive is larger than ${maxBytes} bytes, the most that is read.`);
}
