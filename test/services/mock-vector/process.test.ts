/** The vector database as a process: arguments, exit codes, signals, its lock, its log, its metrics, and kill -9 under concurrent writes. */
import type { QdrantClient } from "@qdrant/js-client-rest";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Random } from "../../harness/random.ts";
import { testStarts } from "../databases.ts";
import { type Acknowledged, KEYS_PER_WRITER, KILLS, killAgainAndAgain } from "../kill-rounds.ts";
import { logLines, temporaryFolder, until, urlIn } from "../service-process.ts";
import { clientOf, HEAVY_SEARCH, heavyCollection, startVector } from "./support.ts";

let folder: ReturnType<typeof temporaryFolder>;

beforeEach(() => {
  folder = temporaryFolder("vector-process");
});

afterEach(() => folder.remove());

const lines = (text: string) => text.trimEnd().split("\n");

testStarts(
  {
    name: "the vector database",
    service: "mock-vector",
    file: "vectors.lmdb",
    portOptions: ["--port"],
    start: async (data) => {
      const { service, url } = await startVector(data);
      return { service, firstLine: { service: "vector", msg: `vector listens on ${url}` } };
    },
  },
  () => folder.path,
);

test("on SIGTERM the vector database answers running requests", async () => {
  const { service, url } = await startVector(folder.path);
  const client = clientOf(url);
  await heavyCollection(client);
  const running = fetch(`${url}/collections/c/points/query/batch`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-request-id": "last" },
    body: JSON.stringify({ searches: new Array(15).fill(HEAVY_SEARCH) }),
  });
  await until(async () => /^vector_transit_bytes [1-9]/m.test(await (await fetch(`${url}/metrics`)).text()));
  const ended = service.kill("SIGTERM");
  const response = await running;
  expect(response.headers.get("connection")).toBe("close");
  expect(((await response.json()) as { result: unknown[] }).result).toHaveLength(15);
  expect(await ended).toBe(0);
});

test("the vector database logs a line a request with its id, and neither payloads nor vectors", async () => {
  const { service, url } = await startVector(folder.path);
  const call = (path: string, id: string, body: object, method = "POST") =>
    fetch(`${url}${path}`, {
      method,
      headers: { "content-type": "application/json", "x-request-id": id },
      body: JSON.stringify(body),
    });
  await call("/collections/c", "req-1", { vectors: { size: 1, distance: "Dot" } }, "PUT");
  const points = [{ id: 1, vector: [1.2345], payload: { secret: "the launch code" } }];
  await call("/collections/c/points", "req-2", { points }, "PUT");
  await call("/collections/none/points/query", 'evil"} {', { query: [1] });
  await service.kill("SIGTERM");
  const requests = logLines(service.output.stdout).filter(({ msg }) => msg === "request");
  expect(requests).toMatchObject([
    {
      service: "vector",
      level: 30,
      requestId: "req-1",
      method: "PUT",
      route: "/collections/:name",
      collection: "c",
      status: 200,
    },
    { requestId: "req-2", route: "/collections/:name/points", milliseconds: expect.any(Number) },
    { requestId: expect.stringMatching(/^[\da-f-]{36}$/), collection: "none", status: 404 },
  ]);
  expect(service.output.stdout).not.toMatch(/launch code|1\.2345|evil/);
});

test("the vector database serves /metrics, /healthz, /livez and /readyz, with no client's text in a label", async () => {
  const { service, url } = await startVector(folder.path);
  const client = clientOf(url);
  await client.createCollection("c", { vectors: { size: 1, distance: "Dot" } });
  await client.upsert("c", {
    points: [
      { id: 1, vector: [1] },
      { id: 2, vector: [1] },
    ],
  });
  await fetch(`${url}/evil%22%7D`);
  for (const path of ["/healthz", "/livez", "/readyz"]) expect((await fetch(url + path)).status).toBe(200);
  const text = await (await fetch(`${url}/metrics`)).text();
  for (const line of [
    'vector_http_request_duration_seconds_count{method="PUT",route="/collections/:name/points",status="200"} 1',
    'vector_http_request_duration_seconds_count{method="GET",route="unknown",status="404"} 1',
    "vector_points 2",
    "vector_transit_bytes 0",
  ]) {
    expect(lines(text)).toContain(line);
  }
  expect(text).toMatch(/^vector_store_bytes [1-9]\d+$/m);
  expect(text).not.toContain("evil");
  await service.kill("SIGTERM");
});
const DIMENSIONS = 8;

/** A point whose payload determines its vectors. */
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

/** Reads all points, and expects the same from the other kinds of query. */
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
  `the vector database loses nothing that it acknowledged over ${KILLS} kills, and breaks nothing else`,
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
