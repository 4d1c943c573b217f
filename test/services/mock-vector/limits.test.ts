/** Protection of clients from others that send too many bytes, or too slowly, or don't read their responses. */

import { connect, type Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Database } from "../../../containers/services/mock-vector/src/database.ts";
import { DEFAULT_LIMITS, type ServerLimits } from "../../../containers/services/mock-vector/src/limits.ts";
import { createVectorServer } from "../../../containers/services/mock-vector/src/server.ts";
import { needs } from "../../harness/requirements.ts";
import { times } from "../../harness/thorough.ts";
import { openFilesLimit, residentBytes, temporaryFolder, until } from "../service-process.ts";
import { clientOf, errorOf, HEAVY_SEARCH, heavyCollection, withVector } from "./support.ts";

let folder: ReturnType<typeof temporaryFolder>;
let database: Database;
let app: FastifyInstance;
let url: string;
const sockets: Socket[] = [];

beforeEach(() => {
  folder = temporaryFolder("vector-limits");
  database = new Database(folder.path);
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await app.close();
  await database.close();
  folder.remove();
});

async function start(limits: Partial<ServerLimits>): Promise<void> {
  app = await createVectorServer(database, "silent", { ...DEFAULT_LIMITS, ...limits });
  url = await app.listen({ host: "127.0.0.1", port: 0 });
}

/** Restarts the database with its data on disk. */
async function restart(): Promise<void> {
  await app.close();
  await database.close();
  database = new Database(folder.path);
  await start({});
}

interface Peer {
  readonly socket: Socket;
  readonly isClosed: () => boolean;
  readonly received: () => string;
}

async function peer(to = url): Promise<Peer> {
  const socket = connect(Number(new URL(to).port), "127.0.0.1");
  sockets.push(socket);
  let received = "";
  let closed = false;
  socket
    .on("error", () => undefined)
    .on("close", () => {
      closed = true;
    })
    .on("data", (chunk) => {
      received += chunk;
    });
  await new Promise((resolve) => socket.once("connect", resolve));
  return { socket, isClosed: () => closed, received: () => received };
}

const transit = async () =>
  Number(/^vector_transit_bytes (\d+)$/m.exec(await (await fetch(`${url}/metrics`)).text())?.[1]);
const head = (path: string, ...headers: string[]) =>
  [`POST ${path} HTTP/1.1`, "host: x", "content-type: application/json", ...headers, "", ""].join("\r\n");

/** A collection whose answers are long. */
async function filled(): Promise<void> {
  const client = clientOf(url);
  await client.createCollection("c", { vectors: { size: 1, distance: "Dot" } });
  const text = "x".repeat(100_000);
  await client.upsert("c", {
    points: Array.from({ length: 100 }, (_, id) => ({ id, vector: [id], payload: { text } })),
  });
}

test("a request that is too large is 413, and invalid JSON or another type is 400 or 415", async () => {
  await start({ bodyBytes: 10_000 });
  const post = (body: string, type = "application/json") =>
    fetch(`${url}/collections/c/points/query`, { method: "POST", headers: { "content-type": type }, body });
  for (const [response, status] of [
    [await post(" ".repeat(10_001)), 413],
    [await post("{"), 400],
    [await post('{"__proto__": {}}'), 400],
    [await post("x", "text/csv"), 415],
    [await post("{}"), 404],
  ] as const) {
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ status: { error: expect.any(String) } });
  }
});

test("clients that announce large requests and send little leave room for others", async () => {
  await start({ transitBytes: 100_000 });
  await clientOf(url).createCollection("c", { vectors: { size: 1, distance: "Dot" } });
  const promised = await Promise.all(Array.from({ length: 10 }, () => peer()));
  for (const { socket } of promised) {
    socket.write(`${head("/collections/c/points/query", "content-length: 10000000")}{`);
  }
  await until(async () => (await transit()) === 10);
  expect((await clientOf(url).query("c", { query: [1] })).points).toEqual([]);
  expect(promised.filter(({ isClosed }) => isClosed())).toEqual([]);
});

test("when requests take too much, the request that has been sent for the longest time loses its connection", async () => {
  await start({ transitBytes: 100_000 });
  await clientOf(url).createCollection("c", { vectors: { size: 1, distance: "Dot" } });
  const slow: Peer[] = [];
  for (let n = 1; n <= 3; n++) {
    const one = await peer();
    slow.push(one);
    one.socket.write(`${head("/collections/c/points/query", "content-length: 64000")}${" ".repeat(30_000)}`);
    await until(async () => (await transit()) === n * 30_000);
  }
  const filter = { must: [{ has_id: Array.from({ length: 5000 }, (_, n) => n) }] };
  expect((await clientOf(url).query("c", { query: [1], filter })).points).toEqual([]);
  await until(() => slow[0]?.isClosed() === true);
  expect(slow.map(({ isClosed }) => isClosed())).toEqual([true, false, false]);
});

test("points beyond the memory limit are refused, while searches and deletions work and make room again", async () => {
  await database.close();
  database = new Database(folder.path, 200_000);
  await start({});
  const client = clientOf(url);
  await client.createCollection("c", { vectors: { size: 100, distance: "Cosine" } });
  const points = (from: number) =>
    Array.from({ length: 50 }, (_, n) => ({ id: from + n, vector: Array<number>(100).fill(1) }));
  await client.upsert("c", { points: points(0) });
  await client.upsert("c", { points: points(0) });
  const taken = database.memoryBytes();
  await client.upsert("c", { points: points(50) });
  const full = await errorOf(client.upsert("c", { points: points(100) }));
  expect(full).toMatchObject({ status: 500, message: expect.stringContaining("200000 are allowed") });
  expect((await client.count("c")).count).toBe(100);
  expect((await client.query("c", { query: Array<number>(100).fill(1), limit: 1 })).points).toHaveLength(1);
  await client.delete("c", { points: points(50).map(({ id }) => id) });
  await client.upsert("c", { points: points(100) });
  expect(database.memoryBytes()).toBe(2 * taken);
  await client.deleteCollection("c");
  expect(database.memoryBytes()).toBe(0);
});

test("a connection beyond the limit replaces the connection that is idle for the longest time", async () => {
  await start({ connections: 3 });
  const first = await peer();
  const second = await peer();
  first.socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  await until(() => first.received().includes("passed"));
  await peer();
  await peer();
  await until(second.isClosed);
  expect(first.isClosed()).toBe(false);
});

test("a client that sends requests in a row and leaves frees all their bytes", async () => {
  await start({});
  await clientOf(url).createCollection("c", { vectors: { size: 1, distance: "Dot" } });
  const body = JSON.stringify({ query: [1], filter: { must: [{ has_id: Array(20_000).fill(1) }] } });
  const request = `${head("/collections/c/points/query", `content-length: ${body.length}`)}${body}`;
  for (let round = 0; round < 20; round++) {
    const { socket } = await peer();
    socket.write(request.repeat(8));
    await new Promise((resolve) => setTimeout(resolve, round));
    socket.resetAndDestroy();
  }
  await until(async () => (await transit()) === 0);
});

test("a request that never completes is cut off, however slowly it arrives", async () => {
  await start({ requestSeconds: 0.4 });
  const withHead = await peer();
  withHead.socket.write(head("/collections/c/points/query", "content-length: 1000"));
  const withoutHead = await peer();
  withoutHead.socket.write("POST /collec");
  const drip = setInterval(() => {
    for (const { socket } of [withHead, withoutHead]) socket.write("x");
  }, 50);
  await until(() => withHead.isClosed() && withoutHead.isClosed());
  clearInterval(drip);
  expect(withHead.received()).toContain("408");
  expect(await transit()).toBe(0);
});

test("an unread answer counts as in transit until it is dropped after its time", async () => {
  await start({ answerSeconds: 0.5 });
  await filled();
  const { socket, isClosed } = await peer();
  socket.pause();
  const body = '{"query":[1],"limit":100,"with_payload":true}';
  socket.write(`${head("/collections/c/points/query", `content-length: ${body.length}`)}${body}`);
  await until(async () => (await transit()) > 5_000_000);
  await until(async () => (await transit()) === 0);
  socket.resume();
  await until(isClosed);
  expect((await clientOf(url).count("c")).count).toBe(100);
});

test("an answer whose client left while it was computed does not stay in transit", async () => {
  await start({});
  const client = clientOf(url);
  await heavyCollection(client);
  const searches = Array.from({ length: 30 }, () => HEAVY_SEARCH);
  const body = JSON.stringify({ searches });
  const { socket } = await peer();
  socket.write(`${head("/collections/c/points/query/batch", `content-length: ${body.length}`)}${body}`);
  await until(async () => (await transit()) > 0);
  socket.destroy();
  // This request starts later and ends later.
  await client.queryBatch("c", { searches });
  await until(async () => (await transit()) === 0);
});

test("an answer that would be too large is 400, in a batch of queries as well", async () => {
  await start({});
  await filled();
  const query = { query: [1], limit: 100, with_payload: true };
  const client = clientOf(url);
  expect(
    (await client.queryBatch("c", { searches: [query, query] })).map(({ points }) => points.length),
  ).toEqual([100, 100]);
  const { status, message } = await errorOf(client.queryBatch("c", { searches: new Array(10).fill(query) }));
  expect(status).toBe(400);
  expect(message).toContain("more than 67108864 characters");
});

test("a long search lets other requests run meanwhile", async () => {
  await start({});
  const client = clientOf(url);
  await heavyCollection(client);
  const order: string[] = [];
  const searches = Array.from({ length: 100 }, () => HEAVY_SEARCH);
  const searching = client.queryBatch("c", { searches }).then(() => order.push("search"));
  await fetch(`${url}/healthz`);
  order.push("health");
  await searching;
  expect(order).toEqual(["health", "search"]);
});

test("memory equals the disk after hundreds of concurrent writes", async () => {
  await start({});
  const client = clientOf(url);
  await client.createCollection("c", { vectors: { size: 1, distance: "Dot" } });
  await Promise.all(
    Array.from({ length: 400 }, (_, n) => {
      const points = [n % 7, n % 11].map((id) => ({ id, vector: [n], payload: { n } }));
      return n % 5 === 0 ? client.delete("c", { points: [n % 7] }) : client.upsert("c", { points });
    }),
  );
  const live = (await client.scroll("c", { limit: 100, with_vector: true })).points;
  for (const { payload, vector } of live) expect(vector).toEqual([payload?.n]);
  await restart();
  expect((await clientOf(url).scroll("c", { limit: 100, with_vector: true })).points).toEqual(live);
});

test("writes that race with the deletion of their collection leave nothing behind", async () => {
  await start({});
  const client = clientOf(url);
  for (let round = 0; round < 20; round++) {
    await client.createCollection("c", { vectors: { size: 1, distance: "Dot" } });
    const writes = Array.from({ length: 10 }, (_, id) =>
      client.upsert("c", { points: [{ id, vector: [id] }] }),
    );
    const outcomes = await Promise.allSettled([...writes, client.deleteCollection("c"), ...writes]);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ status: 404 });
    }
  }
  await client.createCollection("c", { vectors: { size: 1, distance: "Dot" } });
  expect((await client.count("c")).count).toBe(0);
  await restart();
  expect((await clientOf(url).count("c")).count).toBe(0);
});

test("a store whose points are inserted and deleted again stays as large as its content", async () => {
  await start({});
  const client = clientOf(url);
  const sizes: number[] = [];
  for (let round = 0; round < 12; round++) {
    await client.recreateCollection("c", { vectors: { size: 64, distance: "Dot" } });
    const vector = new Array(64).fill(round);
    await client.upsert("c", { points: Array.from({ length: 2000 }, (_, id) => ({ id, vector })) });
    if (round % 2 === 0) await client.delete("c", { filter: {} });
    sizes.push(database.bytes());
  }
  expect(sizes.at(-1)).toBeLessThanOrEqual(2 * (sizes[1] ?? 0));
});

const CONNECTIONS = times(500, 10_000);
const tooFewFiles =
  openFilesLimit() < CONNECTIONS + 500
    ? "fewer open files allowed than the test needs: `ulimit -n 11000`"
    : undefined;

test(`the vector database works with ${CONNECTIONS} idle connections`, needs(tooFewFiles), async () => {
  await start({});
  await withVector(async (client, { service, url: realUrl }) => {
    const pid = service.child.pid ?? 0;
    const before = residentBytes(pid);
    const idle: Peer[] = [];
    while (idle.length < CONNECTIONS) {
      const some = await Promise.all(Array.from({ length: 250 }, () => peer(realUrl)));
      idle.push(...some);
      for (const { socket } of some) socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
      await Promise.all(some.map(({ received }) => until(() => received().includes("passed"))));
    }
    await client.createCollection("c", { vectors: { size: 1, distance: "Dot" } });
    for (let id = 0; id < 100; id++) await client.upsert("c", { points: [{ id, vector: [id] }] });
    expect((await client.query("c", { query: [1], limit: 1 })).points).toMatchObject([{ id: 99 }]);
    expect(idle.filter(({ isClosed }) => isClosed())).toEqual([]);
    expect(residentBytes(pid) - before).toBeLessThan(CONNECTIONS * 60 * 1024);
  });
});
