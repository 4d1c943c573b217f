/** kill -9 at fifty random moments under concurrent writes. */
import type { Collection, Document, MongoClient } from "mongodb";
import { expect, test } from "vitest";
import type { Acknowledged } from "./acknowledged.ts";
import { KEYS_PER_WRITER, KILLS, killAgainAndAgain } from "./kill-rounds.ts";
import type { Random } from "./random.ts";
import { clientOf } from "./support.ts";

const collectionOf = (client: MongoClient) => client.db("crash").collection<Document>("documents");

const content = (key: string, n: number): Document => ({
  _id: key,
  unique: `u-${key}`,
  n,
  text: key.repeat(n % 50),
});

/** Inserts, removes or changes documents, whatever fits what is there. */
async function write(
  collection: Collection<Document>,
  acknowledged: Acknowledged<Document>,
  writer: number,
  random: Random,
): Promise<void> {
  const keys = Array.from(
    { length: 1 + random.below(5) },
    () => `${writer}-${random.below(KEYS_PER_WRITER)}`,
  );
  const [key = ""] = keys;
  const before = acknowledged.get(key);
  const n = random.below(1000);
  const kind = before === undefined ? random.below(2) : random.below(4);
  if (kind === 0) {
    const absent = [...new Set(keys)].filter((one) => acknowledged.get(one) === undefined);
    if (absent.length === 0) return;
    const documents = absent.map((one) => content(one, n));
    const changes = new Map(documents.map((one) => [one._id, one]));
    await acknowledged.during(changes, () => collection.insertMany(documents));
  } else if (kind === 2) {
    await acknowledged.during(new Map([[key, undefined]]), () => collection.deleteOne({ _id: key as never }));
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

/** What is there can't be inserted, by neither index; what is not there can. */
async function insertAll(
  collection: Collection<Document>,
  acknowledged: Acknowledged<Document>,
): Promise<void> {
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

test(
  `nothing that was acknowledged is lost over ${KILLS} kills, and nothing else is broken`,
  {
    timeout: 300_000,
  },
  () =>
    killAgainAndAgain<MongoClient, Document>({
      service: "mock-mongo",
      args: ["--port", "0", "--metrics-port", "0"],
      connect: ({ port }) => clientOf(port as number, { directConnection: true }),
      disconnect: (client) => client.close(),
      prepare: async (client) => {
        await collectionOf(client).createIndex({ unique: 1 }, { unique: true });
      },
      write: (client, ...rest) => write(collectionOf(client), ...rest),
      read: (client, keys) => read(collectionOf(client), keys),
      finish: (client, acknowledged) => insertAll(collectionOf(client), acknowledged),
    }),
);
