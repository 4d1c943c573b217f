/** kill -9 at fifty random moments under concurrent writes. */
import type { QdrantClient } from "@qdrant/js-client-rest";
import { expect, test } from "vitest";
import type { Acknowledged } from "../mock-mongo/acknowledged.ts";
import { KEYS_PER_WRITER, KILLS, killAgainAndAgain } from "../mock-mongo/kill-rounds.ts";
import type { Random } from "../mock-mongo/random.ts";
import { clientOf, urlIn } from "./support.ts";

const DIMENSIONS = 8;

/** A point that says in its payload which vectors belong to it. */
interface Point {
  readonly id: number;
  readonly vector: { readonly a: readonly number[]; readonly b?: readonly number[] };
  readonly payload: { readonly n: number; readonly text: string };
}

function pointOf(id: number, n: number): Point {
  const a = Array.from({ length: DIMENSIONS }, (_, index) => n + index);
  return {
    id,
    vector: { a, ...(n % 2 === 0 && { b: [n] }) },
    payload: { n, text: String(id).repeat(n % 50) },
  };
}

/** Puts or removes some points. */
async function write(
  client: QdrantClient,
  acknowledged: Acknowledged<Point>,
  writer: number,
  random: Random,
): Promise<void> {
  const ids = [
    ...new Set(
      Array.from({ length: 1 + random.below(5) }, () => writer * 1000 + random.below(KEYS_PER_WRITER)),
    ),
  ];
  if (random.below(4) === 0) {
    const changes = new Map(ids.map((id) => [String(id), undefined]));
    await acknowledged.during(changes, () => client.delete("crash", { points: ids }));
  } else {
    const points = ids.map((id) => pointOf(id, random.below(1000)));
    const changes = new Map(points.map((point) => [String(point.id), point]));
    await acknowledged.during(changes, () => client.upsert("crash", { points: points as never, wait: true }));
  }
}

/** Everything that is there, and whether the other ways to ask agree with it. */
async function read(client: QdrantClient): Promise<Map<string, Point>> {
  const { points } = await client.scroll("crash", { limit: 10_000, with_vector: true });
  expect((await client.count("crash")).count).toBe(points.length);
  const nearest = await client.query("crash", {
    query: new Array(DIMENSIONS).fill(1),
    using: "a",
    limit: 10_000,
  });
  expect(nearest.points.map(({ id }) => Number(id)).sort((a, b) => a - b)).toEqual(
    points.map(({ id }) => id),
  );
  return new Map(points.map((point) => [String(point.id), point as unknown as Point]));
}

test(
  `nothing that was acknowledged is lost over ${KILLS} kills, and nothing else is broken`,
  {
    timeout: 300_000,
  },
  () =>
    killAgainAndAgain<QdrantClient, Point>({
      service: "mock-vector",
      args: ["--port", "0", "--log-level", "info"],
      connect: (line) => clientOf(urlIn(line)),
      disconnect: async () => undefined,
      prepare: async (client) => {
        const vectors = {
          a: { size: DIMENSIONS, distance: "Dot" },
          b: { size: 1, distance: "Dot" },
        } as const;
        await client.createCollection("crash", { vectors });
      },
      write,
      read,
    }),
);
