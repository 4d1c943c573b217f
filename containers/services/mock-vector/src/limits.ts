/** Limits of the vector database, and its maximum memory. */
import { totalmem } from "node:os";
import { type LimitValues, limitValues, type MemoryUse } from "@engine-room/service-process";

const MIB = 1024 * 1024;

export const LIMITS = {
  connections: {
    value: 8192,
    means:
      "Connections at the same time; another connection replaces the connection that has been idle for the longest time.",
  },
  bodyBytes: { value: 64 * MIB, means: "Largest request; larger requests are answered with 413." },
  transitBytes: {
    value: 80 * MIB,
    means:
      "Requests, as far as they have arrived, and answers at the same time; beyond it those connections are closed whose clients have been sending or reading for the longest time.",
  },
  requestSeconds: { value: 60, means: "A client that sends its request more slowly than this is cut off." },
  answerSeconds: { value: 60, means: "An answer must be read this long after it was sent." },
  idleSeconds: { value: 3600, means: "A connection on which nothing moves this long is closed." },
};

export type ServerLimits = LimitValues<typeof LIMITS>;

export const DEFAULT_LIMITS: ServerLimits = limitValues(LIMITS);

/** Maximum bytes of points: half of the process's memory. */
export function pointBytesOf(memoryBytes = processMemoryBytes()): number {
  return Math.floor(memoryBytes / 2);
}

/** The container's memory limit, or the machine's memory. Without limit Node reports 0, undefined or a larger number. */
function processMemoryBytes(): number {
  const constrained = process.constrainedMemory() ?? 0;
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}

/** Maximum memory of a process that has `memoryBytes`. The file's pages are the system's cache. */
export function memoryUses(limits: ServerLimits, memoryBytes: number): MemoryUse[] {
  return [
    {
      of: "the process",
      count: 1,
      bytesEach: 208 * MIB,
      source:
        "measured: 227 MiB after 10,000 points of 384 numbers were written and 300 searches, of which their points are 40 MiB",
    },
    {
      of: "points",
      count: 1,
      bytesEach: pointBytesOf(memoryBytes),
      source: "half of the memory: more points are refused",
    },
    {
      of: "connections",
      count: limits.connections,
      bytesEach: 24 * 1024,
      source: "a head of a request has up to 16 KiB, and an idle connection 4 KiB (measured with 5,000)",
    },
    {
      of: "requests and answers, their text and values",
      count: limits.transitBytes,
      bytesEach: 6,
      source:
        "measured: an upsert of 41 MB with numbers of two digits took 250 MiB beside its points, the most of those that hold vectors; 62 MB with all digits 260 MiB, 64 MB of text 310 MiB",
    },
  ];
}
