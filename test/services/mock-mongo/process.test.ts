/** The document database as a process: arguments, exit codes, signals, its lock, its log, its metrics, and kill -9 under concurrent writes. */
import type { Collection, Document, MongoClient } from "mongodb";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Random } from "../../harness/random.ts";
import { testStarts } from "../databases.ts";
import { type Acknowledged, KEYS_PER_WRITER, KILLS, killAgainAndAgain } from "../kill-rounds.ts";
import { logLines, temporaryFolder, until } from "../service-process.ts";
import { clientOf, startMongo } from "./support.ts";

let folder: ReturnType<typeof temporaryFolder>;

beforeEach(() => {
  folder = temporaryFolder("mongo-process");
});

afterEach(() => folder.remove());

const lines = (text: string) => text.trimEnd().split("\n");

testStarts(
  {
    name: "the document database",
    service: "mock-mongo",
    file: "documents.lmdb",
    portOptions: ["--port", "--metrics-port"],
    start: async (data) => {
      const { service, port, metricsPort } = await startMongo(data);
      const msg = `mongo listens on mongodb://127.0.0.1:${port}`;
      return { service, firstLine: { service: "mongo", msg, port, metricsPort } };
    },
  },
  () => folder.path,
);

test("on SIGTERM the document database finishes the running write, and keeps acknowledged writes", async () => {
  const { service, port } = await startMongo(folder.path);
  const client = clientOf(port);
  const collection = client.db("d").collection("c");
  await collection.insertMany(Array.from({ length: 10_000 }, (_, n) => ({ n })));
  const updating = collection.updateMany({}, { $set: { changed: true } });
  // It runs once the first of its transactions is on disk.
  await until(async () => (await collection.countDocuments({ n: 0, changed: true })) === 1);
  const ended = service.kill("SIGTERM");
  expect((await updating).modifiedCount).toBe(10_000);
  expect(await ended).toBe(0);
  await client.close();
  const again = await startMongo(folder.path);
  const reader = clientOf(again.port);
  expect(await reader.db("d").collection("c").countDocuments({ changed: true })).toBe(10_000);
  await reader.close();
  await again.service.kill("SIGTERM");
});

test("the document database logs a line a command with the request's id, and no document", async () => {
  const { service, port } = await startMongo(folder.path);
  const client = clientOf(port);
  const collection = client.db("shop").collection("orders");
  await collection.insertOne({ secret: "the launch code" }, { comment: "req-1" });
  await collection.findOne({ secret: "the launch code" }, { comment: "req-2" });
  await collection.distinct("secret", {}, { comment: "x".repeat(5000) }).catch(() => undefined);
  await client.close();
  const commands = () => logLines(service.output.stdout).filter(({ msg }) => msg === "command");
  // At its end a process may write the last lines in another order.
  await until(() => commands().length === 3);
  await service.kill("SIGTERM");
  expect(commands()).toMatchObject([
    {
      service: "mongo",
      level: 30,
      requestId: "req-1",
      command: "insert",
      database: "shop",
      collection: "orders",
    },
    { requestId: "req-2", command: "find", milliseconds: expect.any(Number) },
    { requestId: "x".repeat(100), command: "distinct", level: 40, code: 59 },
  ]);
  expect(service.output.stdout).not.toContain("launch code");
});

test("the document database serves /metrics and /healthz, with no client's text in a label", async () => {
  const { service, port, metricsPort } = await startMongo(folder.path);
  const client = clientOf(port);
  await client.db("d").collection("c").insertMany([{}, {}]);
  await client
    .db("d")
    .command({ 'evil"} 1': 1 })
    .catch(() => undefined);
  const read = (path: string, method = "GET") => fetch(`http://127.0.0.1:${metricsPort}${path}`, { method });
  expect(await (await read("/healthz")).json()).toEqual({ status: "ok" });
  expect((await read("/other")).status).toBe(404);
  expect((await read("/metrics", "POST")).status).toBe(404);
  const text = await (await read("/metrics")).text();
  for (const line of [
    'mongo_command_duration_seconds_count{command="insert",ok="1"} 1',
    'mongo_command_duration_seconds_count{command="unknown",ok="0"} 1',
    "mongo_documents 2",
    "mongo_open_cursors 0",
    "mongo_unsent_reply_bytes 0",
  ]) {
    expect(lines(text)).toContain(line);
  }
  expect(text).toMatch(/^mongo_store_bytes [1-9]\d+$/m);
  expect(text).toMatch(/^mongo_connections [1-9]$/m);
  expect(text).not.toContain("evil");
  await client.close();
  await service.kill("SIGTERM");
});
const collectionOf = (client: MongoClient) => client.db("crash").collection<Document>("documents");

const content = (key: string, n: number): Document => ({
  _id: key,
  n,
  text: key.repeat(n % 50),
});

/** Inserts, removes or changes documents, as the known content allows. */
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

/** Reads all content, and expects that counters and the index of ids agree with it. */
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
  expect((await collection.indexes()).map(({ name }) => name)).toEqual(["_id_", "n_1"]);
  return byKey;
}

/** Inserts all documents, of which only the absent are accepted. */
async function insertAll(
  collection: Collection<Document>,
  acknowledged: Acknowledged<Document>,
): Promise<void> {
  const everything = acknowledged.keys().map((key) => content(key, 1));
  const there = everything.filter(({ _id }) => acknowledged.get(_id) !== undefined).length;
  for (const refused of [there, everything.length]) {
    const error = await collection.insertMany(everything, { ordered: false }).catch((caught) => caught);
    expect(error.writeErrors).toHaveLength(refused);
  }
}

test(
  `the document database loses nothing that it acknowledged over ${KILLS} kills, and breaks nothing else`,
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
        await collectionOf(client).createIndex({ n: 1 });
      },
      write: (client, ...rest) => write(collectionOf(client), ...rest),
      read: (client, keys) => read(collectionOf(client), keys),
      finish: (client, acknowledged) => insertAll(collectionOf(client), acknowledged),
    }),
);
