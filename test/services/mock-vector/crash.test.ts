/** kill -9 at fifty random moments under concurrent writes. */
import { setTimeout as sleep } from "node:timers/promises";
import type { QdrantClient } from "@qdrant/js-client-rest";
import { expect, test } from "vitest";
import { Acknowledged } from "../mock-mongo/acknowledged.ts";
import { compileService } from "../mock-mongo/compiled.ts";
import { printedSeed, type Random, randomOf } from "../mock-mongo/random.ts";
import {
  prepareService,
  type ServiceProcess,
  temporaryFolder,
  until,
} from "../mock-mongo/service-process.ts";
import { clientOf, urlIn } from "./support.ts";

const KILLS = 50;
const WRITERS = 6;
const KEYS_PER_WRITER = 40;
/** A round goes on for less than so many acknowledged writes, and then for less than so many milliseconds. */
const ROUND_WRITES = 30;
const ROUND_MILLISECONDS = 10;
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

/** Writes until the database is gone. */
async function write(
  client: QdrantClient,
  acknowledged: Acknowledged<Point>,
  writer: number,
  random: Random,
): Promise<void> {
  for (;;) {
    const ids = [
      ...new Set(
        Array.from({ length: 1 + random.below(5) }, () => writer * 1000 + random.below(KEYS_PER_WRITER)),
      ),
    ];
    try {
      if (random.below(4) === 0) {
        const changes = new Map(ids.map((id) => [String(id), undefined]));
        await acknowledged.during(changes, () => client.delete("crash", { points: ids }));
      } else {
        const points = ids.map((id) => pointOf(id, random.below(1000)));
        const changes = new Map(points.map((point) => [String(point.id), point]));
        await acknowledged.during(changes, () =>
          client.upsert("crash", { points: points as never, wait: true }),
        );
      }
    } catch {
      return;
    }
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

test(`nothing that was acknowledged is lost over ${KILLS} kills, and nothing else is broken`, {
  timeout: 300_000,
}, async () => {
  const random = randomOf(printedSeed());
  const folder = temporaryFolder("vector-crash");
  const compiled = compileService("mock-vector");
  const acknowledged = new Acknowledged<Point>();
  const args = ["--data", folder.path, "--port", "0", "--log-level", "info"];
  const prepare = () => prepareService(compiled.main, args, [compiled.server]);
  const prepared = [prepare(), prepare()];
  let service: ServiceProcess | undefined;
  try {
    for (let round = 0; round <= KILLS; round++) {
      service = (prepared.shift() ?? prepare()).start();
      if (round < KILLS - 1) prepared.push(prepare());
      const client = clientOf(urlIn(await service.listening()));
      if (round === 0) {
        const vectors = {
          a: { size: DIMENSIONS, distance: "Dot" },
          b: { size: 1, distance: "Dot" },
        } as const;
        await client.createCollection("crash", { vectors });
      }
      expect(acknowledged.problems(await read(client))).toEqual([]);
      if (round === KILLS) break;
      const writers = Array.from({ length: WRITERS }, (_, writer) =>
        write(client, acknowledged, writer, randomOf(random.below(2 ** 32))),
      );
      const enough = acknowledged.writes + random.below(ROUND_WRITES);
      await until(() => acknowledged.writes >= enough);
      await sleep(random.below(ROUND_MILLISECONDS));
      await service.kill("SIGKILL");
      await Promise.all(writers);
    }
    expect(acknowledged.writes).toBeGreaterThan((KILLS * ROUND_WRITES) / 4);
  } finally {
    await service?.kill("SIGKILL");
    for (const one of prepared) one.discard();
    folder.remove();
    compiled.remove();
  }
});
