/** The end of a log file, without reading the rest. */
import { open, stat } from "node:fs/promises";
import { orWhenMissing } from "./files.ts";

const READ_BYTES = 16_384;

/** Size in bytes; 0 where there is none. */
export async function fileBytes(path: string): Promise<number> {
  return (await stat(path).catch(orWhenMissing(undefined)))?.size ?? 0;
}

/** Up to `count` last lines of what stands behind `fromByte`; of the whole file where it was rotated since. */
export async function tailLines(path: string, count: number, fromByte: number): Promise<string[]> {
  const size = await fileBytes(path);
  const start = Math.max(size < fromByte ? 0 : fromByte, size - READ_BYTES);
  if (size <= start) return [];
  const file = await open(path);
  try {
    const buffer = Buffer.alloc(size - start);
    const { bytesRead } = await file.read(buffer, 0, buffer.length, start);
    const lines = buffer.toString("utf8", 0, bytesRead).split("\n");
    return lines.filter((line) => line.trim() !== "").slice(-count);
  } finally {
    await file.close();
  }
}
