/** Limits of the document database, and its maximum memory. */
import { type LimitValues, limitValues, type MemoryUse } from "@engine-room/service-process";

const MIB = 1024 * 1024;

/** A message up to this size does not wait for larger ones. */
export const SMALL_MESSAGE_BYTES = 16 * 1024;

/** Bytes that a connection reads ahead, or writes without waiting; Node reads 64 KiB at a time beyond it. */
export const HIGH_WATER_BYTES = 1024;
const READ_BYTES = 64 * 1024;

export const LIMITS = {
  connections: {
    value: 8192,
    means:
      "Connections at the same time; another connection replaces the connection that has been idle for the longest time.",
  },
  idleSeconds: {
    value: 3600,
    means: "A connection that sends nothing this long is closed; drivers open another.",
  },
  messageSeconds: { value: 30, means: "A message must be complete this long after its first byte." },
  replySeconds: { value: 60, means: "A reply must be read this long after it was sent." },
  openCursors: { value: 10_000, means: "Open cursors; more are refused." },
  cursorIdleSeconds: { value: 600, means: "A cursor that is not read from this long is closed." },
  cursorBytes: {
    value: 40 * MIB,
    means:
      "Memory of all queries together, also between two batches: keys of sorted documents, and results that were computed; a query that needs more is refused.",
  },
  runningReads: { value: 12, means: "Batches being read at the same time; more wait." },
  arrivingBytes: {
    value: 128 * MIB,
    means:
      "Incomplete messages, and messages that wait for room; beyond it the connections are closed whose messages have been incomplete for the longest time.",
  },
  messageBytes: {
    value: 48_000_000,
    means: "Messages over 16 KiB whose commands run at the same time; more wait.",
  },
  smallMessageBytes: {
    value: 8 * MIB,
    means: "Messages of up to 16 KiB whose commands run at the same time; more wait.",
  },
  unsentReplyBytes: {
    value: 96 * MIB,
    means: "Replies that are not read; beyond it the connections of the oldest are closed.",
  },
  stopSeconds: { value: 10, means: "Commands that run get so long to end when the server stops." },
};

export type ServerLimits = LimitValues<typeof LIMITS>;

export const DEFAULT_LIMITS: ServerLimits = limitValues(LIMITS);

/**
 * Maximum memory of the process. Documents are on disk; their pages in memory are the file system's cache, which the
 * system reclaims when it needs the memory.
 */
export function memoryUses(limits: ServerLimits): MemoryUse[] {
  return [
    {
      of: "the process",
      count: 1,
      bytesEach: 192 * MIB,
      source: "measured: 172 MiB after 10,000 documents of 2 KB were written and 300 read",
    },
    {
      of: "connections",
      count: limits.connections,
      bytesEach: READ_BYTES + 2 * HIGH_WATER_BYTES + 8 * 1024,
      source:
        "what is read ahead while a command runs, a reply that is not waited for, and 6 KiB of an idle one (measured with 5,000)",
    },
    {
      of: "incomplete and waiting messages",
      count: 1,
      bytesEach: limits.arrivingBytes,
      source: "arrivingBytes",
    },
    {
      of: "messages whose commands run, their copies and values",
      count: limits.messageBytes + limits.smallMessageBytes,
      bytesEach: 8,
      source:
        "measured: 48 MB of inserts took 4 bytes for each byte, filters with 12 MB of numbers or short texts 6; only a list of empty objects takes 16",
    },
    {
      of: "memory of queries",
      count: limits.cursorBytes,
      bytesEach: 6,
      source: "as the values of messages; 200,000 short rows took 290 bytes each, and count 64 and their own",
    },
    {
      of: "batches being read",
      count: limits.runningReads,
      bytesEach: 16 * MIB,
      source: "a batch has up to 16 MiB",
    },
    {
      of: "copies of the batch that becomes a reply",
      count: 3,
      bytesEach: 16 * MIB,
      source: "its list, its document and its message; one reply is written at a time",
    },
    {
      of: "replies that are not read",
      count: 1,
      bytesEach: limits.unsentReplyBytes,
      source: "unsentReplyBytes",
    },
  ];
}
