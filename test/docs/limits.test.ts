/** docs/limits.md is written from the services' own constants, and their maximum memory fits into their containers. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Limit, type MemoryUse, worstCaseBytes } from "@engine-room/service-process";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { limits as gatewayLimits } from "../../containers/services/gateway/src/config.ts";
import { DEFAULT_IMAGE_LIMITS, IMAGE_LIMITS } from "../../containers/services/gateway/src/images/limits.ts";
import { memoryUses as gatewayMemory } from "../../containers/services/gateway/src/memory.ts";
import {
  MOST_DOCUMENTS,
  MOST_MATCHED_CHARACTERS,
  MOST_MATCHES,
} from "../../containers/services/gateway/src/retrieval/schemas.ts";
import { RECEIVE_SECONDS } from "../../containers/services/gateway/src/server.ts";
import * as mongo from "../../containers/services/mock-mongo/src/limits.ts";
import * as vector from "../../containers/services/mock-vector/src/limits.ts";
import { DATABASE_REQUEST, GATEWAY_REQUEST } from "../../infra/plan/pool-space.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";

const MIB = 2 ** 20;

interface Service {
  readonly name: string;
  readonly limits: Readonly<Record<string, Limit>>;
  readonly memory: readonly MemoryUse[];
  readonly containerMiB: number;
}

/** Keys of the gateway's configuration. */
function configured(): Record<string, Limit> {
  const { properties = {} } = z.toJSONSchema(gatewayLimits, { io: "input" });
  return Object.fromEntries(
    Object.entries(properties).map(([key, schema]) => {
      const { default: value, description: means = "" } = schema as { default: number; description?: string };
      return [`limits.${key}`, { value, means }];
    }),
  );
}

const SERVICES: readonly Service[] = [
  {
    name: "Gateway",
    limits: {
      ...configured(),
      receiveSeconds: { value: RECEIVE_SECONDS, means: "For a client to send its request; then 408." },
      documents: { value: MOST_DOCUMENTS, means: "Documents of one request; beyond it 400." },
      matches: { value: MOST_MATCHES, means: "topK of a match at most; beyond it 400." },
      matchedCharacters: {
        value: MOST_MATCHED_CHARACTERS,
        means: "topK × textCharacters of a match at most; beyond it 400.",
      },
      ...Object.fromEntries(Object.entries(IMAGE_LIMITS).map(([key, limit]) => [`images.${key}`, limit])),
    },
    memory: gatewayMemory(gatewayLimits.parse({}), DEFAULT_IMAGE_LIMITS),
    containerMiB: GATEWAY_REQUEST.memoryMiB,
  },
  {
    name: "mock-mongo",
    limits: mongo.LIMITS,
    memory: mongo.memoryUses(mongo.DEFAULT_LIMITS),
    containerMiB: DATABASE_REQUEST.memoryMiB,
  },
  {
    name: "mock-vector",
    limits: vector.LIMITS,
    memory: vector.memoryUses(vector.DEFAULT_LIMITS, DATABASE_REQUEST.memoryMiB * MIB),
    containerMiB: DATABASE_REQUEST.memoryMiB,
  },
];

const HEAD = `# Limits

The limits of each service for its clients, and its answer beyond them. \`UPDATE_RECORDED=1 npx vitest run test/docs\` writes this file
from the services' constants and the defaults of the gateway's configuration.

The second table of a service adds up its memory with all limits reached at once; a test holds the sum below the memory of its container.
The sum omits the kernel's memory for connections and cached files. A stack file's \`gateway.limits.bodyMiB\` above 16 raises the memory
of requests, which has room for four of the largest.

mock-mongo and mock-vector are for laptops and tests: only the gateway protects them from other clients. Lists of empty objects take more
than the tables say, 16 bytes for each byte in mock-mongo, 40 in mock-vector. mock-mongo does not count messages of up to 64 KiB that wait
for their turn, nor mock-vector the answers in the making.
`;

function documentOf(services: readonly Service[]): string {
  return [HEAD, ...services.map(section)].join("\n");
}

function section({ name, limits, memory, containerMiB }: Service): string {
  const rows = Object.entries(limits).map(
    ([key, { value, means }]) => `| \`${key}\` | ${shown(key, value)} | ${means} |`,
  );
  const uses = memory.map(
    ({ of, count, bytesEach, source }) =>
      `| ${of} | ${grouped(count)} | ${shown("bytes", bytesEach)} | ${mebibytes(count * bytesEach)} | ${source} |`,
  );
  const sum = `| **all of them** | | | **${mebibytes(worstCaseBytes(memory))}** | of the container's ${containerMiB} |`;
  return [
    `## ${name}\n`,
    "| Limit | Default | What it limits, and what happens beyond it |\n|---|---|---|",
    ...rows,
    "\n| Memory of | At most | Bytes each | MiB | Source |\n|---|---|---|---|---|",
    ...uses,
    sum,
    "",
  ].join("\n");
}

function shown(name: string, value: number): string {
  if (/bytes$/i.test(name) && value % MIB === 0) return `${value / MIB} MiB`;
  if (/bytes$/i.test(name) && value % 1024 === 0) return `${value / 1024} KiB`;
  return /seconds$/i.test(name) ? `${value} s` : grouped(value);
}

function grouped(value: number): string {
  return value.toLocaleString("en-US");
}

function mebibytes(bytes: number): string {
  return Math.ceil(bytes / MIB).toString();
}

describe.each(SERVICES.map((service) => [service.name, service] as const))("%s", (_name, service) => {
  test("all limits reached at the same time take less memory than the container has", () => {
    expect(worstCaseBytes(service.memory)).toBeLessThan(service.containerMiB * MIB);
  });

  test("each limit has a value and says what it limits", () => {
    for (const [key, { value, means }] of Object.entries(service.limits)) {
      expect(value, key).toBeGreaterThanOrEqual(0);
      expect(means, key).toMatch(/^\S.*\.$/);
    }
  });
});

test("points may take half of the memory that the vector database has", () => {
  expect(vector.pointBytesOf(1001)).toBe(500);
  expect(vector.pointBytesOf()).toBeGreaterThan(0);
});

test("docs/limits.md has the services' limits", () => {
  const path = join(projectRoot, "docs/limits.md");
  const text = documentOf(SERVICES);
  if (process.env.UPDATE_RECORDED === "1") writeFileSync(path, text);
  expect(readFileSync(path, "utf8")).toBe(text);
});
