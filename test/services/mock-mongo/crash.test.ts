/** kill -9 at fifty random moments under concurrent writes. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Collection, Document } from "mongodb";
import { expect, test } from "vitest";
import { Acknowledged } from "./acknowledged.ts";
import { compileService } from "./compiled.ts";
import { printedSeed, type Random, randomOf } from "./random.ts";
import { prepareService, type ServiceProcess, temporaryFolder, until } from "./service-process.ts";
import { clientOf } from "./support.ts";

const KILLS = 50;
const WRITERS = 6;
const KEYS_PER_WRITER = 40;
/** A round goes on for less than so many acknowledged writes, and then for less than so many milliseconds. */
const ROUND_WRITES = 30;
const ROUND_MILLISECONDS = 10;

const content = (key: string, n: number): Document => ({
  _id: key,
  unique: `u-${key}`,
  n,
  text: key.repeat(n % 50),
});

/** Writes until the database is gone. */
async function write(
  collection: Collection<Document>,
  acknowledged: Acknowledged<Document>,
  writer: number,
  random: Random,
): Promise<void> {
  for (;;) {
    const keys = Array.from(
      { length: 1 + random.below(5) },
      () => `${writer}-${random.below(KEYS_PER_WRITER)}`,
    );
    const [key = ""] = keys;
    const before = acknowledged.get(key);
    const n = random.below(1000);
    const kind = before === undefined ? random.below(2) : random.below(4);
    try {
      if (kind === 0) {
        const absent = [...new Set(keys)].filter((one) => acknowledged.get(one) === undefined);
        if (absent.length === 0) continue;
        const documents = absent.map((one) => content(one, n));
        const changes = new Map(documents.map((one) => [one._id, one]));
        await acknowledged.during(changes, () => collection.insertMany(documents));
      } else if (kind === 2) {
        await acknowledged.during(new Map([[key, undefined]]), () =>
          collection.deleteOne({ _id: key as never }),
        );
      } else if (before !== undefined && kind === 3) {
        const after = { ...before, n: before.n + 1 };
        await acknowledged.during(new Map([[key, after]]), () =>
          collection.updateOne({ _id: key as never }, { $inc: { n: 1 } }),
        );
      } else {
        const after = content(key, n);
        await acknowledged.during(new Map([[key, after]]), () =>
          collection.replaceOne({ _id: key as never }, after, { upsert: true }),
        );
      }
    } catch {
      return;
    }
  }
}

/** Everything that is there, and whether counters and indexes agree with it. */
async function read(
  collection: Collection<Document>,
  keys: readonly string[],
): Promise<Map<string, Document>> {
  const found = await collection.find().toArray();
  expect(await collection.estimatedDocumentCount()).toBe(found.length);
  const byKey = new Map(found.map((document) => [String(document._id), document]));
  const ids = [...new Set([...keys, ...byKey.keys()])];
  const byId = await collection.find({ _id: { $in: ids as never[] } }).toArray();
  expect(byId.map(({ _id }) => String(_id)).sort()).toEqual([...byKey.keys()].sort());
  expect((await collection.indexes()).map(({ name }) => name)).toEqual(["_id_", "unique_1"]);
  return byKey;
}

test(`nothing that was acknowledged is lost over ${KILLS} kills, and nothing else is broken`, {
  timeout: 300_000,
}, async () => {
  const random = randomOf(printedSeed());
  const folder = temporaryFolder("mongo-crash");
  const compiled = compileService("mock-mongo");
  const acknowledged = new Acknowledged<Document>();
  const args = ["--data", folder.path, "--port", "0", "--metrics-port", "0"];
  const prepare = () => prepareService(compiled.main, args, [compiled.server]);
  const prepared = [prepare(), prepare()];
  let service: ServiceProcess | undefined;
  try {
    for (let round = 0; round <= KILLS; round++) {
      service = (prepared.shift() ?? prepare()).start();
      if (round < KILLS - 1) prepared.push(prepare());
      const { port } = (await service.listening()) as { port: number };
      const client = clientOf(port, { directConnection: true });
      const collection = client.db("crash").collection<Document>("documents");
      if (round === 0) await collection.createIndex({ unique: 1 }, { unique: true });
      expect(acknowledged.problems(await read(collection, acknowledged.keys()))).toEqual([]);
      if (round < KILLS) {
        const writers = Array.from({ length: WRITERS }, (_, writer) =>
          write(collection, acknowledged, writer, randomOf(random.below(2 ** 32))),
        );
        const enough = acknowledged.writes + random.below(ROUND_WRITES);
        await until(() => acknowledged.writes >= enough);
        await sleep(random.below(ROUND_MILLISECONDS));
        await service.kill("SIGKILL");
        await Promise.all(writers);
      } else {
        // What is there can't be inserted, by neither index; what is not there can.
        const everything = acknowledged.keys().map((key) => content(key, 1));
        const there = everything.filter(({ _id }) => acknowledged.get(_id) !== undefined).length;
        const byUnique = everything.map(({ unique }) => ({ unique }));
        for (const [documents, refused] of [
          [everything, there],
          [byUnique, everything.length],
        ] as const) {
          const error = await collection.insertMany(documents, { ordered: false }).catch((caught) => caught);
          expect(error.writeErrors).toHaveLength(refused);
        }
      }
      await client.close();
    }
    expect(acknowledged.writes).toBeGreaterThan((KILLS * ROUND_WRITES) / 4);
  } finally {
    await service?.kill("SIGKILL");
    for (const one of prepared) one.discard();
    folder.remove();
    compiled.remove();
  }
});
