/** The vector database with the official clients of npm and PyPI. */
import { QdrantClient } from "@qdrant/js-client-rest";
import { expect, test } from "vitest";
import { times } from "../../harness/thorough.ts";
import { pythonMissing, runPython } from "../databases.ts";
import { errorOf, idsOf, useVector, uuid, withVector } from "./support.ts";

const { client, named, unnamed, vector } = useVector();

test("a collection is created, described, listed and deleted", async () => {
  const name = await named();
  expect((await client().collectionExists(name)).exists).toBe(true);
  expect(await client().getCollection(name)).toMatchObject({
    status: "green",
    points_count: 0,
    config: {
      params: { vectors: { text: { size: 3, distance: "Cosine" }, image: { size: 2, distance: "Dot" } } },
    },
  });
  expect((await client().getCollections()).collections).toContainEqual({ name });
  expect(await client().deleteCollection(name)).toBe(true);
  expect(await client().deleteCollection(name)).toBe(false);
  expect((await client().collectionExists(name)).exists).toBe(false);
  expect(await errorOf(client().getCollection(name))).toEqual({
    status: 404,
    message: `Not found: Collection \`${name}\` doesn't exist!`,
  });
});

test("a collection is created by one of many concurrent requests, and recreated empty", async () => {
  const vectors = { size: 1, distance: "Dot" } as const;
  const outcomes = await Promise.allSettled(
    Array.from({ length: 10 }, () => client().createCollection("once", { vectors })),
  );
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  expect(await errorOf(client().createCollection("once", { vectors }))).toMatchObject({ status: 409 });
  await client().upsert("once", { points: [{ id: 1, vector: [1] }] });
  await client().recreateCollection("once", { vectors: { size: 2, distance: "Dot" } });
  expect((await client().count("once")).count).toBe(0);
  expect(await errorOf(client().upsert("once", { points: [{ id: 1, vector: [1] }] }))).toMatchObject({
    status: 400,
  });
});

test("a collection's name must fit into URLs and keys", async () => {
  const vectors = { size: 1, distance: "Dot" } as const;
  const long = "x".repeat(255);
  await client().createCollection(long, { vectors });
  expect((await client().collectionExists(long)).exists).toBe(true);
  for (const name of ["a b", "a/b", "ä", `${long}x`]) {
    expect((await errorOf(client().createCollection(name, { vectors }))).status).toBe(400);
  }
});

test("points are stored by number and by UUID, with some vectors or all, and come back", async () => {
  const name = await named();
  await client().upsert(name, {
    wait: true,
    points: [
      {
        id: Number.MAX_SAFE_INTEGER,
        vector: { text: [3, 0, 4], image: [3, 4] },
        payload: { a: { b: [1, "ä"] } },
      },
      { id: uuid(1).toUpperCase(), vector: { text: [0, 1, 0] } },
      { id: 0, vector: {}, payload: null },
    ],
  });
  const ids = [uuid(1), Number.MAX_SAFE_INTEGER, 7, 0];
  expect(await client().retrieve(name, { ids, with_vector: true })).toEqual([
    { id: uuid(1), payload: {}, vector: { text: [0, 1, 0] } },
    {
      id: Number.MAX_SAFE_INTEGER,
      payload: { a: { b: [1, "ä"] } },
      vector: { text: [Math.fround(0.6), 0, Math.fround(0.8)], image: [3, 4] },
    },
    { id: 0, payload: {}, vector: {} },
  ]);
  expect(
    await client().retrieve(name, { ids: [0, uuid(1)], with_payload: false, with_vector: ["image"] }),
  ).toEqual([
    { id: 0, vector: {} },
    { id: uuid(1), vector: {} },
  ]);
});

test("the last of several points with one id is kept, in one request as well", async () => {
  const name = await unnamed();
  await client().upsert(name, { points: [1, 2, 3].map((n) => ({ id: 5, vector: [n], payload: { n } })) });
  expect(await client().retrieve(name, { ids: [5], with_vector: true })).toEqual([
    { id: 5, payload: { n: 3 }, vector: [3] },
  ]);
  await client().upsert(name, { points: [{ id: 5, vector: [9] }] });
  expect(await client().retrieve(name, { ids: [5], with_vector: true })).toEqual([
    { id: 5, payload: {}, vector: [9] },
  ]);
  expect((await client().count(name)).count).toBe(1);
});

test("points are readable at once with wait false", async () => {
  const name = await unnamed();
  await client().upsert(name, { wait: false, points: [{ id: 1, vector: [1] }] });
  expect(idsOf((await client().scroll(name)).points)).toEqual([1]);
});

test("points are deleted by ids and by filter", async () => {
  const name = await unnamed();
  await client().upsert(name, {
    points: Array.from({ length: 10 }, (_, id) => ({ id, vector: [id], payload: { odd: id % 2 === 1 } })),
  });
  await client().delete(name, { points: [0, 77] });
  await client().delete(name, { filter: { must: [{ key: "odd", match: { value: true } }] } });
  expect(idsOf((await client().scroll(name)).points)).toEqual([2, 4, 6, 8]);
  await client().delete(name, { filter: {} });
  expect((await client().count(name)).count).toBe(0);
});

test("a wrong point refuses its whole request, with a sentence", async () => {
  const name = await named();
  const good = { id: 1, vector: { text: [1, 2, 3] } };
  const refused = async (point: object) =>
    errorOf(client().upsert(name, { points: [good, { id: 2, ...point } as never] }));
  expect(await refused({ vector: { text: [1, 2] } })).toEqual({
    status: 400,
    message: "Wrong input: Vector dimension error: expected dim: 3, got 2",
  });
  expect(await refused({ vector: { sound: [1] } })).toEqual({
    status: 400,
    message: "Wrong input: Not existing vector name error: sound; there are text, image",
  });
  expect((await refused({ vector: [1, 2, 3] })).message).toContain("(without a name)");
  expect(await refused({ vector: { text: [1, 2, 1e300] } })).toMatchObject({ status: 400 });
  expect(await refused({ id: -5, vector: {} })).toMatchObject({ status: 400 });
  expect((await client().count(name)).count).toBe(0);
});

test("points are scrolled page by page, numbers first, with a filter too", async () => {
  const name = await unnamed();
  const ids = [
    ...Array.from({ length: 1500 }, (_, n) => 3 * n),
    ...Array.from({ length: 20 }, (_, n) => uuid(n)),
  ];
  for (const some of [ids.slice(1000), ids.slice(0, 1000)]) {
    await client().upsert(name, {
      points: some.toReversed().map((id, n) => ({ id, vector: [n], payload: { even: n % 2 === 0 } })),
    });
  }
  const scrolled = async (filter: object | undefined, limit: number) => {
    const found: unknown[] = [];
    let offset: string | number | null | undefined;
    do {
      const page = await client().scroll(name, {
        limit,
        ...(filter && { filter }),
        ...(offset != null && { offset }),
      });
      expect(page.points.length).toBeLessThanOrEqual(limit);
      found.push(...idsOf(page.points));
      offset = page.next_page_offset as typeof offset;
    } while (offset != null);
    return found;
  };
  expect(await scrolled(undefined, 99)).toEqual(ids);
  const even = await scrolled({ must: [{ key: "even", match: { value: true } }] }, 77);
  expect(even).toHaveLength(760);
  expect(even).toEqual(ids.filter((id) => even.includes(id)));
  expect(
    (await client().count(name, { filter: { must: [{ key: "even", match: { value: true } }] } })).count,
  ).toBe(760);
});

test("a query finds the nearest points, at equal distance by the lesser id, with any order of writes", async () => {
  const name = await unnamed("Euclid");
  for (const id of [uuid(2), 9, uuid(1), 4, 7])
    await client().upsert(name, { points: [{ id, vector: [1] }] });
  await client().delete(name, { points: [9] });
  await client().upsert(name, {
    points: [
      { id: 8, vector: [1] },
      { id: 1, vector: [5] },
    ],
  });
  const query = async (limit: number, offset = 0) =>
    idsOf((await client().query(name, { query: [1], limit, offset })).points);
  expect(await query(10)).toEqual([4, 7, 8, uuid(1), uuid(2), 1]);
  expect(await query(2)).toEqual([4, 7]);
  expect(await query(2, 3)).toEqual([uuid(1), uuid(2)]);
});

test("a query takes a vector or a point, with filter, threshold, payload and vectors", async () => {
  const name = await named();
  await client().upsert(name, {
    points: [
      { id: 1, vector: { text: [1, 0, 0], image: [5, 0] }, payload: { kind: "a", more: { x: 1, y: 2 } } },
      { id: 2, vector: { text: [1, 1, 0], image: [1, 0] }, payload: { kind: "b" } },
      { id: 3, vector: { text: [-1, 0, 0] }, payload: { kind: "b" } },
    ],
  });
  const all = await client().query(name, { query: [2, 0, 0], using: "text" });
  expect(idsOf(all.points)).toEqual([1, 2, 3]);
  expect(all.points.map(({ score }) => score)).toEqual([1, expect.closeTo(Math.SQRT1_2, 6), -1]);
  expect(all.points[0]).toEqual({ id: 1, version: 0, score: 1 });
  const [first] = (
    await client().query(name, {
      query: { nearest: [1, 0, 0] },
      using: "text",
      filter: { must: [{ key: "kind", match: { value: "a" } }] },
      with_payload: ["more", "nothing"],
      with_vector: ["image"],
    })
  ).points;
  expect(first).toMatchObject({ id: 1, payload: { more: { x: 1, y: 2 } }, vector: { image: [5, 0] } });
  const near = { using: "text", score_threshold: 0.5 };
  expect(idsOf((await client().query(name, { query: [1, 0, 0], ...near })).points)).toEqual([1, 2]);
  expect(idsOf((await client().query(name, { query: 1, ...near })).points)).toEqual([2]);
  expect(idsOf((await client().query(name, { query: [1, 0], using: "image" })).points)).toEqual([1, 2]);
});

test("a query fuses the ranks of prefetches, in a batch too", async () => {
  const name = await named();
  await client().upsert(name, {
    points: [
      { id: 1, vector: { text: [1, 0, 0], image: [1, 0] } },
      { id: 2, vector: { text: [1, 0.1, 0], image: [9, 0] } },
      { id: 3, vector: { text: [0, 1, 0] }, payload: { kind: "x" } },
    ],
  });
  const prefetch = [
    { query: [1, 0, 0], using: "text", limit: 10 },
    { query: [1, 0], using: "image", limit: 1 },
  ];
  const fused = await client().query(name, { prefetch, query: { fusion: "rrf" }, with_payload: true });
  expect(fused.points).toMatchObject([
    { id: 2, score: expect.closeTo(1 / 3 + 1 / 2, 6) },
    { id: 1, score: 1 / 2 },
    { id: 3, score: 1 / 4, payload: { kind: "x" } },
  ]);
  const searches = [
    { prefetch, query: { fusion: "rrf" as const }, limit: 1 },
    { query: [0, 1, 0], using: "text", limit: 1 },
  ];
  expect((await client().queryBatch(name, { searches })).map(({ points }) => idsOf(points))).toEqual([
    [2],
    [3],
  ]);
  const filter = { must: [{ key: "kind", match: { value: "x" } }] };
  expect(idsOf((await client().query(name, { prefetch, query: { fusion: "rrf" }, filter })).points)).toEqual([
    3,
  ]);
});

test("a query that can't be answered is 4xx with a sentence", async () => {
  const name = await named();
  const refused = (body: object) => errorOf(client().query(name, body));
  expect(await refused({ query: [1, 2], using: "text" })).toMatchObject({ status: 400 });
  expect(await refused({ query: [1, 2, 3] })).toMatchObject({ status: 400 });
  expect(await refused({ query: 77, using: "text" })).toMatchObject({ status: 404 });
  expect(await refused({ query: [1, 2, 3], using: "text", limit: 1e9 })).toEqual({
    status: 400,
    message: "Format error in JSON body: limit: Too big: expected number to be <=10000",
  });
  expect(await refused({ query: { fusion: "rrf" } })).toMatchObject({ status: 400 });
  expect(await refused({ query: [1, 2, 3], using: "text", prefetch: [{ query: [1, 2, 3] }] })).toMatchObject({
    status: 400,
  });
  expect(await refused({ query: [1, 2, 3], using: "text", filter: { geo: 1 } })).toMatchObject({
    status: 400,
  });
  expect(
    await errorOf(client().createPayloadIndex(name, { field_name: "a", field_schema: "keyword" })),
  ).toEqual({
    status: 404,
    message: `PUT /collections/${name}/index is not supported by this server`,
  });
  expect((await errorOf(client().search(name, { vector: [1, 2, 3] }))).status).toBe(404);
  expect((await errorOf(client().setPayload(name, { payload: {}, points: [1] }))).status).toBe(404);
  const broken = await fetch(`${vector().url}/collections/${name}/points/query`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: '{"query": [NaN]}',
  });
  expect(broken.status).toBe(400);
  expect(await broken.json()).toMatchObject({ status: { error: expect.any(String) } });
});

test("searches during writes have correct results", async () => {
  const rounds = times(15, 60);
  const LEAST_SEARCHES = 4;
  const pointOf = (id: number, score: number) => ({ id, vector: [score], payload: { score } });
  const name = await unnamed();
  await client().upsert(name, { points: Array.from({ length: 50 }, (_, id) => pointOf(id, 1000 + id)) });
  let searches = 0;
  let isWriting = true;
  const writing = (async () => {
    for (let round = 1; round <= rounds || searches < LEAST_SEARCHES; round++) {
      // The nearest points change all the time; some are deleted and replaced by others.
      await client().upsert(name, {
        points: Array.from({ length: 20 }, (_, id) => pointOf(id, (id * round) % 23)),
      });
      await client().delete(name, { points: [round % 20, (round + 7) % 20] });
    }
    isWriting = false;
  })();
  const query = { query: [0], limit: 20, with_payload: true };
  while (isWriting) {
    const found = (await client().query(name, query)).points;
    expect(found).toHaveLength(20);
    for (const { score, payload } of found) expect(score).toBe(payload?.score);
    const scores = found.map(({ score }) => score);
    expect(scores).toEqual(scores.toSorted((a, b) => a - b));
    expect(new Set(idsOf(found)).size).toBe(20);
    searches += 1;
  }
  await writing;
});

test("the client's own check of versions succeeds", async () => {
  const warnings: unknown[] = [];
  const { warn } = console;
  console.warn = (...given) => void warnings.push(given);
  try {
    const checking = new QdrantClient({ url: vector().url });
    await checking.getCollections();
    await new Promise((resolve) => setTimeout(resolve, 300));
  } finally {
    console.warn = warn;
  }
  expect(warnings).toEqual([]);
});

const missing = await pythonMissing();

test("qdrant-client works with the vector database", async ({ skip }) => {
  skip(missing !== undefined, missing);
  await withVector(async (_client, { url }) => {
    const { status, output } = await runPython(import.meta.dirname, "client.py", { URL: url });
    expect(output).toMatch(/^all checks hold$/m);
    expect(status).toBe(0);
  });
});

test("the vector database and Qdrant's own local mode have the same answers", async ({ skip }) => {
  skip(missing !== undefined, missing);
  await withVector(async (_client, { url }) => {
    const { status, output } = await runPython(import.meta.dirname, "local_mode.py", { URL: url });
    expect(output.trim()).toBe("0 differences");
    expect(status).toBe(0);
  });
});
