/** The end of a log file, without reading the rest. */
import { open, stat } from "node:fs/promises";
import { orWhenMissing } from "./files.ts";

const READ_BYTES = 65_536;

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

const TELLING = /\b(error|exception|traceback|failed|fatal)\b/i;
const LONGEST_LINE = 300;

/**
 * The lines to show a person: the last ones that speak of a failure, else the last ones. A server that gives up often
 * prints a screen of tables after the reason.
 */
export function tellingLines(lines: readonly string[], count: number): string[] {
  const telling = lines.filter((line) => TELLING.test(line));
  const shown = telling.length > 0 ? telling : lines;
  return shown
    .slice(-count)
    .map((line) => (line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line));
}
