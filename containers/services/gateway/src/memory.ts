/** Maximum memory of a gateway, with all limits reached at the same time. */
import type { MemoryUse } from "@engine-room/service-process";
import type { GatewayConfig } from "./config.ts";
import type { ImageLimits } from "./images/limits.ts";
import { ANSWERING_SHARE } from "./limits.ts";
import { MOST_CONNECTIONS } from "./retrieval/document-store.ts";
import { LARGEST_MATCH_BYTES } from "./retrieval/match.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** Memory that grows with limits, a row for each use; measured with Node 20.20 on x86_64. */
export function memoryUses(
  { connections, memoryBytes }: Pick<GatewayConfig["limits"], "connections" | "memoryBytes">,
  { concurrentDecodes, concurrentFetches, bytes }: ImageLimits,
): readonly MemoryUse[] {
  const answeringBytes = ANSWERING_SHARE * memoryBytes;
  return [
    { of: "process", count: 1, bytesEach: 200 * MIB, source: "measured under load of four clients: 198 MiB" },
    {
      of: "connections",
      count: connections,
      bytesEach: 30 * KIB,
      source: "measured with 5,000 idle connections: 14 KiB each; and 16 KiB of an incomplete head",
    },
    {
      of: "bytes of requests being answered",
      count: answeringBytes,
      bytesEach: 6,
      source: "measured with chats of 4,096 messages, the costliest form of JSON: 5.8; with texts 2.2 to 4.2",
    },
    {
      of: "bytes that are being sent or read",
      count: memoryBytes - answeringBytes,
      bytesEach: 2,
      source: "measured with uploads that stop in the middle: 1.2",
    },
    {
      of: "images being decoded",
      count: concurrentDecodes,
      bytesEach: 88 * MIB,
      source:
        "measured with PNG of 16 bits, 40 million pixels line by line: 87 MiB; interlaced within wholeBytes: 79 MiB",
    },
    { of: "images being fetched", count: concurrentFetches, bytesEach: bytes, source: "images.bytes" },
    {
      of: "replies of MongoDB",
      count: MOST_CONNECTIONS,
      bytesEach: 2 * LARGEST_MATCH_BYTES,
      source: "the most documents of a match, with the longest texts and metadata, as BSON and as objects",
    },
  ];
}
