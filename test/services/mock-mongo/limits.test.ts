/** Protection of clients from others that send too many bytes, too slowly or wrongly, or don't read their responses. */

import { connect, type Socket } from "node:net";
import { serialize } from "bson";
import fc from "fast-check";
import type { MongoClient } from "mongodb";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DEFAULT_LIMITS, type ServerLimits } from "../../../containers/services/mock-mongo/src/limits.ts";
import { matches } from "../../../containers/services/mock-mongo/src/query.ts";
import { MongoServer } from "../../../containers/services/mock-mongo/src/server.ts";
import { Store } from "../../../containers/services/mock-mongo/src/store.ts";
import { needs } from "../../harness/requirements.ts";
import { times } from "../../harness/thorough.ts";
import { openFilesLimit, residentBytes, temporaryFolder, until } from "../service-process.ts";
import { clientOf, errorOf, message, withMongo } from "./support.ts";

describe("limits", () => {
  let folder: ReturnType<typeof temporaryFolder>;

  let store: Store;

  let mongo: MongoServer;

  let port: number;

  let client: MongoClient;

  const sockets: Socket[] = [];

  let log: string[];

  beforeEach(() => {
    folder = temporaryFolder("mongo-limits");
    store = new Store(folder.path);
    log = [];
  });

  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await client.close();
    await mongo.stop();
    await store.close();
    folder.remove();
  });

  async function start(limits: Partial<ServerLimits>): Promise<void> {
    const logger = pino({}, { write: (line: string) => void log.push(line) });
    mongo = new MongoServer(store, { ...DEFAULT_LIMITS, ...limits }, logger);
    await new Promise<void>((resolve) => mongo.server.listen(0, "127.0.0.1", resolve));
    ({ port } = mongo.server.address() as { port: number });
    client = clientOf(port);
  }

  interface Peer {
    readonly socket: Socket;
    readonly isClosed: () => boolean;
    readonly received: Buffer[];
  }

  async function peer(): Promise<Peer> {
    const socket = connect(port, "127.0.0.1");
    sockets.push(socket);
    const received: Buffer[] = [];
    let closed = false;
    socket
      .on("error", () => undefined)
      .on("close", () => {
        closed = true;
      })
      .on("data", (chunk) => received.push(chunk));
    await new Promise((resolve) => socket.once("connect", resolve));
    return { socket, isClosed: () => closed, received };
  }

  const ping = message({ ping: 1, $db: "admin" });

  const stillWorks = async () => expect(await client.db("admin").command({ ping: 1 })).toEqual({ ok: 1 });

  const gauge = async (name: string) =>
    Number((await mongo.registry.getSingleMetric(name)?.get())?.values[0]?.value);

  test("messages that arrive in many pieces, or many at once, are answered in order", async () => {
    await start({});
    const { socket, received } = await peer();
    const asked = Array.from({ length: 200 }, (_, n) => {
      const bytes = message({ ping: 1, $db: "admin" });
      bytes.writeInt32LE(n, 4);
      return bytes;
    });
    const all = Buffer.concat(asked);
    socket.write(all.subarray(0, 4001));
    await until(() => received.length > 0);
    socket.write(all.subarray(4001));
    const replyBytes = 21 + serialize({ ok: 1.5 }).length;
    await until(() => Buffer.concat(received).length === 200 * replyBytes);
    const answered = Array.from({ length: 200 }, (_, n) =>
      Buffer.concat(received).readInt32LE(n * replyBytes + 8),
    );
    expect(answered).toEqual(Array.from({ length: 200 }, (_, n) => n));
  });

  test.each([
    ["an HTTP request", Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n")],
    ["a length of 2 GiB", Buffer.from([255, 255, 255, 127, 1, 0, 0, 0])],
    ["a negative length", Buffer.from([0, 0, 0, 128])],
    ["a body that is no BSON", Buffer.concat([message({}).subarray(0, 21), Buffer.from([5, 0, 0, 0, 7])])],
  ])("%s ends its own connection only", async (_what, bytes) => {
    await start({});
    const { socket, isClosed } = await peer();
    socket.write(bytes);
    await until(isClosed);
    await stillWorks();
    expect(log.map((line) => JSON.parse(line)).filter(({ level }) => level === 40)).toMatchObject([
      { reason: expect.any(String) },
    ]);
  });

  test("random bytes never end the process", async () => {
    await start({ messageSeconds: 0.2 });
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 20, maxLength: 300 }), async (bytes) => {
        const { socket, isClosed, received } = await peer();
        // The length is right, so that the content is parsed.
        const framed = Buffer.from(bytes);
        framed.writeInt32LE(framed.length, 0);
        framed.writeInt32LE(2013, 12);
        framed.writeUInt32LE(0, 16);
        socket.write(framed);
        await until(() => isClosed() || received.length > 0);
        socket.destroy();
      }),
      { numRuns: times(50, 1000) },
    );
    await stillWorks();
  });

  test("a message that never completes is cut off, however slowly it arrives", async () => {
    await start({ messageSeconds: 0.3 });
    const { socket, isClosed } = await peer();
    let sent = 0;
    const drip = setInterval(() => {
      // Its last byte is never sent.
      if (sent < ping.length - 1) socket.write(ping.subarray(sent, sent + 1));
      sent += 1;
    }, 50);
    await until(isClosed);
    clearInterval(drip);
    const { socket: quiet, isClosed: isQuietClosed } = await peer();
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(isQuietClosed()).toBe(false);
    quiet.write(ping);
    await stillWorks();
  });

  test("large messages wait for room, so that hundreds of them stay within it", async () => {
    await start({ messageBytes: 48_000_000 });
    const collection = client.db("d").collection("large");
    await collection.insertOne({});
    global.gc?.();
    const before = residentBytes(process.pid);
    // 300 connections that each announce 40 MB and send 1 MB of it: 12 GB, if the server reserved them.
    const head = Buffer.alloc(1024 * 1024);
    head.writeInt32LE(40_000_000, 0);
    head.writeInt32LE(2013, 12);
    const peers = await Promise.all(Array.from({ length: 300 }, peer));
    for (const { socket } of peers) socket.write(head);
    await stillWorks();
    await collection.insertOne({ small: true });
    // The test's end of the connections has 300 MB itself, until the kernel takes them.
    expect(residentBytes(process.pid) - before).toBeLessThan(600 * 1024 * 1024);
    for (const { socket } of peers) socket.destroy();
    await collection.insertOne({ text: "x".repeat(10_000_000) });
    expect(await collection.countDocuments()).toBe(3);
  });

  /** The beginning of a message of 40 MB. */
  const begun = (bytes: number) => {
    const head = Buffer.alloc(bytes);
    head.writeInt32LE(40_000_000, 0);
    head.writeInt32LE(2013, 12);
    return head;
  };

  test("clients that announce large messages and send little leave room for others", async () => {
    await start({ messageBytes: 48_000_000 });
    const slow = await Promise.all(Array.from({ length: 10 }, peer));
    for (const { socket } of slow) socket.write(begun(20));
    await until(() => mongo.arriving.taken === 200);
    await client
      .db("d")
      .collection("large")
      .insertOne({ text: "x".repeat(10_000_000) });
    expect(slow.filter(({ isClosed }) => isClosed())).toEqual([]);
  });

  test("when messages take too much, the message that has been sent for the longest time loses its connection", async () => {
    await start({ arrivingBytes: 1_000_000 });
    const slow: Peer[] = [];
    for (let n = 1; n <= 3; n++) {
      const one = await peer();
      slow.push(one);
      one.socket.write(begun(300_000));
      await until(() => mongo.arriving.taken === n * 300_000);
    }
    await client
      .db("d")
      .collection("c")
      .insertOne({ text: "x".repeat(200_000) });
    expect(slow.map(({ isClosed }) => isClosed())).toEqual([true, false, false]);
  });

  test("a connection beyond the limit replaces the connection that is idle for the longest time", async () => {
    await start({ connections: 3 });
    const first = await peer();
    const second = await peer();
    first.socket.write(ping);
    await until(() => first.received.length > 0);
    await peer();
    await peer();
    await until(second.isClosed);
    expect(first.isClosed()).toBe(false);
  });

  describe("unread replies", () => {
    const fill = async () => {
      const collection = client.db("d").collection("texts");
      await collection.insertMany(Array.from({ length: 15 }, () => ({ text: "x".repeat(1_000_000) })));
    };
    const findAll = message({ find: "texts", $db: "d" });

    test("too many unread replies are dropped, the oldest first", async () => {
      await start({ unsentReplyBytes: 40_000_000 });
      await fill();
      const greedy = await Promise.all(Array.from({ length: 8 }, peer));
      for (const { socket } of greedy) {
        socket.pause();
        socket.write(Buffer.concat([findAll, findAll, findAll]));
      }
      // There is room for two of eight replies of 15 MB.
      const dropped = () => log.filter((line) => line.includes("a reply is not read")).length;
      await until(() => dropped() === 6);
      expect(await gauge("mongo_unsent_reply_bytes")).toBeLessThanOrEqual(40_000_000);
      await stillWorks();
      expect(await client.db("d").collection("texts").find().toArray()).toHaveLength(15);
      expect(dropped()).toBe(7);
    });

    test("an unread reply is dropped after its time", async () => {
      await start({ replySeconds: 0.3 });
      await fill();
      const { socket } = await peer();
      socket.pause();
      socket.write(findAll);
      await until(() => log.some((line) => line.includes("a reply is not read")));
      await until(async () => (await gauge("mongo_unsent_reply_bytes")) === 0);
    });
  });

  test("a cursor is refused when too many are open, or when it holds too much, and others continue", async () => {
    await start({ openCursors: 3, cursorBytes: 50_000 });
    const collection = client.db("d").collection("c");
    await collection.insertMany(Array.from({ length: 300 }, (_, n) => ({ n, text: "x".repeat(300) })));
    const open = async () => {
      const cursor = collection.find({}, { batchSize: 5 });
      await cursor.next();
      return cursor;
    };
    const cursors = [await open(), await open(), await open()];
    expect(await errorOf(open())).toMatchObject({ code: 292 });
    await cursors[0]?.close();
    const held = [{ $project: { n: 1, text: 1 } }, { $sort: { n: 1 } }];
    expect(await errorOf(collection.aggregate(held, { batchSize: 5 }).toArray())).toMatchObject({
      code: 292,
    });
    expect(await cursors[1]?.toArray()).toHaveLength(299);
    await cursors[2]?.close();
    expect(await gauge("mongo_open_cursors")).toBe(0);
  });

  test("a cursor holds the document that it has read ahead", async () => {
    await start({ cursorBytes: 50_000 });
    const database = client.db("d");
    await database.collection("c").insertOne({ text: "x".repeat(60_000) });
    expect(await errorOf(database.command({ find: "c", batchSize: 0 }))).toMatchObject({ code: 292 });
  });

  test("a single batch leaves no cursor", async () => {
    await start({});
    const database = client.db("d");
    await database.collection("c").insertMany(Array.from({ length: 20 }, (_, n) => ({ n })));
    const { cursor } = await database.command({ find: "c", batchSize: 5, singleBatch: true });
    expect(cursor).toMatchObject({ id: 0 });
    expect(cursor.firstBatch).toHaveLength(5);
    expect(await gauge("mongo_open_cursors")).toBe(0);
  });

  test("an idle cursor is closed after its time", async () => {
    await start({ cursorIdleSeconds: 0.2 });
    const collection = client.db("d").collection("c");
    await collection.insertMany(Array.from({ length: 300 }, (_, n) => ({ n })));
    const cursor = collection.find({}, { batchSize: 5 });
    await cursor.next();
    await until(async () => (await gauge("mongo_open_cursors")) === 0);
    expect(await errorOf(cursor.toArray())).toMatchObject({ code: 43 });
  });

  test("a long scan lets other commands run meanwhile, whether it reads or writes", async () => {
    await start({});
    const collection = client.db("d").collection("many");
    await collection.insertMany(Array.from({ length: times(15_000, 30_000) }, (_, n) => ({ n })));
    const scans = [
      () => collection.countDocuments({ n: -1 }),
      () => collection.updateMany({ n: -1 }, { $set: { a: 1 } }),
      () => collection.updateMany({}, { $set: { a: 1 } }),
      () => collection.find().sort({ n: -1 }).limit(1).toArray(),
      () => collection.deleteMany({}),
    ];
    for (const scan of scans) {
      const { socket, received } = await peer();
      const order: string[] = [];
      const running = scan().then(() => order.push("scan"));
      socket.once("data", () => order.push("ping"));
      socket.write(ping);
      await until(() => received.length > 0);
      await running;
      expect(order).toEqual(["ping", "scan"]);
    }
  });

  test("a scan of large documents may pause after each of them", async () => {
    await start({});
    const documents = Array.from({ length: 10 }, () => ({ text: "x".repeat(1_100_000) }));
    await client.db("d").collection("large").insertMany(documents);
    const rows = matches(store, store.find({ database: "d", name: "large" }), { n: 1 });
    expect([...rows]).toEqual(new Array(10).fill(undefined));
  });

  test("stopping finishes running commands, and does not wait for a client that does not read", async () => {
    await start({ stopSeconds: 0.5 });
    await client
      .db("d")
      .collection("texts")
      .insertMany(Array.from({ length: 15 }, () => ({ text: "x".repeat(1_000_000) })));
    const { socket, isClosed } = await peer();
    socket.pause();
    socket.write(message({ find: "texts", $db: "d" }));
    await until(async () => (await gauge("mongo_unsent_reply_bytes")) > 0);
    await mongo.stop();
    socket.resume();
    await until(isClosed);
  });

  test("a store whose documents are inserted and deleted again stays as large as its content", async () => {
    await start({});
    const collection = client.db("d").collection("c");
    const sizes: number[] = [];
    for (let round = 0; round < 12; round++) {
      await collection.insertMany(Array.from({ length: 500 }, (_, n) => ({ n, text: "x".repeat(2000) })));
      if (round % 2 === 0) await collection.deleteMany({});
      else await collection.drop();
      sizes.push(store.totals().bytes);
    }
    expect(sizes.at(-1)).toBeLessThanOrEqual(2 * (sizes[1] ?? 0));
    expect(store.totals().documents).toBe(0);
  });
});

const CONNECTIONS = times(500, 10_000);

const tooFewFiles =
  openFilesLimit() < CONNECTIONS + 500
    ? "fewer open files allowed than the test needs: `ulimit -n 11000`"
    : undefined;

test(`the document database works with ${CONNECTIONS} idle connections`, needs(tooFewFiles), async () => {
  await withMongo(async (other, running) => {
    const { port: realPort } = running;
    const pid = running.service.child.pid ?? 0;
    const before = residentBytes(pid);
    const idle: Socket[] = [];
    try {
      while (idle.length < CONNECTIONS) {
        const some = Array.from({ length: 250 }, () => connect(realPort, "127.0.0.1"));
        idle.push(...some);
        await Promise.all(
          some.map(
            (socket) =>
              new Promise((resolve, reject) => {
                socket.once("error", reject);
                // A driver's handshake, so that each connection has been served once.
                socket.once("data", resolve);
                socket.write(message({ hello: 1, $db: "admin" }));
              }),
          ),
        );
      }
      const collection = other.db("d").collection("c");
      for (let n = 0; n < 100; n++) await collection.insertOne({ n });
      expect(await collection.countDocuments()).toBe(100);
      const text = await (await fetch(`http://127.0.0.1:${running.metricsPort}/metrics`)).text();
      expect(Number(/^mongo_connections (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(CONNECTIONS);
      expect(residentBytes(pid) - before).toBeLessThan(CONNECTIONS * 40 * 1024);
    } finally {
      for (const socket of idle) socket.destroy();
    }
  });
});
