/** The official client of npm: queries, alone and while others write. */
import { QdrantClient } from "@qdrant/js-client-rest";
import { describe, expect, test } from "vitest";
import { errorOf, idsOf, useVector, uuid } from "./support.ts";

const { client, named, unnamed, vector } = useVector();

describe("queries", () => {
  test("find the nearest, of equal ones the one with the lesser id, whatever the order of writes", async () => {
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

  test("by vector, by point, with filter, threshold, payload and vectors", async () => {
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
        with_payload: { exclude: ["more.x"] },
        with_vector: ["image"],
      })
    ).points;
    expect(first).toMatchObject({ id: 1, payload: { kind: "a", more: { y: 2 } }, vector: { image: [5, 0] } });
    const near = { using: "text", score_threshold: 0.5 };
    expect(idsOf((await client().query(name, { query: [1, 0, 0], ...near })).points)).toEqual([1, 2]);
    expect(idsOf((await client().query(name, { query: 1, ...near })).points)).toEqual([2]);
    expect(idsOf((await client().query(name, { query: [1, 0], using: "image" })).points)).toEqual([1, 2]);
    expect(idsOf((await client().query(name, { limit: 2 })).points)).toEqual([1, 2]);
  });

  test("fuse the ranks of prefetches, in a batch too", async () => {
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
    expect(
      idsOf((await client().query(name, { prefetch, query: { fusion: "rrf" }, filter })).points),
    ).toEqual([3]);
  });

  test("that can't be answered are 4xx with a sentence", async () => {
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
    expect(
      await refused({ query: [1, 2, 3], using: "text", prefetch: [{ query: [1, 2, 3] }] }),
    ).toMatchObject({
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
});

test("searches while others write, and what they find is true", async () => {
  // So many that a search takes several turns of the event loop, and in the order in which they are found last.
  const points = 20_000;
  const dimensions = 256;
  const pointOf = (id: number, score: number) => ({
    id,
    vector: Array.from({ length: dimensions }, (_, index) => (index === 0 ? score : 0)),
    payload: { score },
  });
  await client().createCollection("busy", { vectors: { size: dimensions, distance: "Manhattan" } });
  for (let start = 0; start < points; start += 2000) {
    await client().upsert("busy", {
      points: Array.from({ length: 2000 }, (_, n) => pointOf(start + n, 1000 + start + n)),
    });
  }
  let isWriting = true;
  const writing = (async () => {
    for (let round = 1; round <= 60; round++) {
      // The nearest ones, at the begin of the table, change all the time; some go and leave their places to others.
      await client().upsert("busy", {
        points: Array.from({ length: 20 }, (_, id) => pointOf(id, (id * round) % 23)),
      });
      await client().delete("busy", { points: [round % 20, (round + 7) % 20] });
    }
    isWriting = false;
  })();
  const query = { query: new Array<number>(dimensions).fill(0), limit: 20, with_payload: true };
  let searches = 0;
  while (isWriting) {
    const found = (await client().query("busy", query)).points;
    expect(found).toHaveLength(20);
    for (const { score, payload } of found) expect(score).toBe(payload?.score);
    const scores = found.map(({ score }) => score);
    expect(scores).toEqual(scores.toSorted((a, b) => a - b));
    expect(new Set(idsOf(found)).size).toBe(20);
    searches += 1;
  }
  await writing;
  expect(searches).toBeGreaterThan(3);
});

test("the client's own check of versions holds", async () => {
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
