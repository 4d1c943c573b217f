/** The official client of npm: collections and points. */
import { describe, expect, test } from "vitest";
import { errorOf, idsOf, useVector, uuid } from "./support.ts";

const { client, named, unnamed, vector } = useVector();

describe("collections", () => {
  test("are made, described, listed and deleted", async () => {
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

  test("are made once, of many requests at the same time, and anew with nothing in them", async () => {
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

  test("have names that fit into URLs and keys", async () => {
    const vectors = { size: 1, distance: "Dot" } as const;
    const long = "x".repeat(255);
    await client().createCollection(long, { vectors });
    expect((await client().collectionExists(long)).exists).toBe(true);
    for (const name of ["a b", "a/b", "ä", `${long}x`]) {
      expect((await errorOf(client().createCollection(name, { vectors }))).status).toBe(400);
    }
  });
});

describe("points", () => {
  test("are stored by number and by UUID, with some vectors or all, and come back", async () => {
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
    const one = await fetch(`${vector().url}/collections/${name}/points/${uuid(1)}`);
    expect(await one.json()).toMatchObject({ result: { id: uuid(1) }, status: "ok" });
    expect((await fetch(`${vector().url}/collections/${name}/points/5`)).status).toBe(404);
    expect((await fetch(`${vector().url}/collections/${name}/points/9007199254740993`)).status).toBe(400);
  });

  test("of one id are one point, of which the last is kept, in one request as well", async () => {
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

  test("come in a batch of columns too, and with wait false are there at once", async () => {
    const name = await named();
    await client().upsert(name, {
      wait: false,
      batch: {
        ids: [1, 2],
        vectors: {
          text: [
            [1, 0, 0],
            [0, 1, 0],
          ],
          image: [
            [1, 2],
            [3, 4],
          ],
        },
        payloads: [{ n: 1 }, null],
      } as never,
    });
    expect(await client().retrieve(name, { ids: [2, 1], with_vector: ["image"] })).toEqual([
      { id: 2, payload: {}, vector: { image: [3, 4] } },
      { id: 1, payload: { n: 1 }, vector: { image: [1, 2] } },
    ]);
  });

  test("are deleted by ids and by filter", async () => {
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

  test("that don't fit are refused as a whole, with a sentence", async () => {
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

  test("are scrolled page by page, numbers first, with a filter too", async () => {
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
});
