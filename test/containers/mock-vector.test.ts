import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  createCollection,
  deletePoints,
  filter as filterSchema,
  parse,
  queryRequest,
  scrollPoints,
  upsertPoints,
} from "../../containers/services/mock-vector/src/requests.ts";
import { fuse } from "../../containers/services/mock-vector/src/routes.ts";
import {
  DISTANCES,
  type Distance,
  prepared,
  VectorTable,
} from "../../containers/services/mock-vector/src/vectors.ts";
import { times } from "../harness/thorough.ts";

/** Formulas in double precision. */
const SCORES: Readonly<Record<Distance, (a: readonly number[], b: readonly number[]) => number>> = {
  Cosine(a, b) {
    const lengths = Math.hypot(...a) * Math.hypot(...b);
    return lengths === 0 ? 0 : SCORES.Dot(a, b) / lengths;
  },
  Dot: (a, b) => a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0),
  Euclid: (a, b) => Math.hypot(...a.map((value, index) => value - (b[index] ?? 0))),
  Manhattan: (a, b) => a.reduce((sum, value, index) => sum + Math.abs(value - (b[index] ?? 0)), 0),
};

const bytesOf = (values: readonly number[], distance: Distance) =>
  new Uint8Array(prepared(values, distance).buffer as ArrayBuffer);

const everything = {
  limit: 1000,
  threshold: undefined,
  accepts: () => true,
  compare: (a: number, b: number) => a - b,
};

const number = fc.float({ min: -100, max: 100, noNaN: true });

const size = fc.integer({ min: 1, max: 70 });

describe.each(DISTANCES)("%s", (distance) => {
  test("scores equal the distance's formula for any number of dimensions", () => {
    fc.assert(
      fc.property(
        size.chain((length) =>
          fc.array(fc.array(number, { minLength: length, maxLength: length }), {
            minLength: 2,
            maxLength: 20,
          }),
        ),
        ([query = [], ...rows]) => {
          const table = new VectorTable(query.length, distance);
          for (const [slot, row] of rows.entries()) table.set(slot, bytesOf(row, distance));
          const hits = table.search({ ...everything, query: prepared(query, distance) });
          expect(hits.map(({ slot }) => slot).sort((a, b) => a - b)).toEqual([...rows.keys()]);
          const size = Math.max(1, ...rows.flat().map(Math.abs)) * Math.max(1, ...query.map(Math.abs));
          for (const { slot, score } of hits) {
            const exact = SCORES[distance](query, rows[slot] ?? []);
            expect(Math.abs(score - exact)).toBeLessThan(
              distance === "Cosine" ? 1e-5 : 1e-5 * query.length * size,
            );
          }
        },
      ),
      { numRuns: times(25, 100) },
    );
  });

  test("a search returns the best hits in order for any limit", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 1, maxLength: 200 }),
        fc.integer({ min: 1, max: 30 }),
        (values, limit) => {
          // Few different values, so that many scores are equal.
          const table = new VectorTable(2, distance);
          for (const [slot, value] of values.entries()) table.set(slot, bytesOf([value, 1], distance));
          const query = prepared([1, 0.5], distance);
          const all = table.search({ ...everything, query });
          const expected = all.toSorted((a, b) => {
            const order = distance === "Cosine" || distance === "Dot" ? b.score - a.score : a.score - b.score;
            return order || a.slot - b.slot;
          });
          expect(table.search({ ...everything, query, limit })).toEqual(expected.slice(0, limit));
        },
      ),
      { numRuns: times(25, 100) },
    );
  });
});

test("a vector table that grows beyond a block keeps its vectors", () => {
  const table = new VectorTable(384, "Dot");
  const unit = (slot: number) =>
    Array.from({ length: 384 }, (_, index) => (index === slot % 384 ? slot + 1 : 0));
  for (let slot = 0; slot < 20_000; slot += 7) table.set(slot, bytesOf(unit(slot), "Dot"));
  for (const slot of [0, 7, 9996, 19_999 - (19_999 % 7)])
    expect([...(table.get(slot) ?? [])]).toEqual(unit(slot));
  expect(table.get(1)).toBeUndefined();
  const hits = table.search({ ...everything, query: prepared(unit(700), "Dot"), limit: 3 });
  expect(hits[0]?.slot).toBe(
    Math.max(
      ...Array.from({ length: 20_000 }, (_, n) => n).filter((n) => n % 7 === 0 && n % 384 === 700 % 384),
    ),
  );
});

test("a search leaves out removed vectors, vectors beyond the threshold, and filtered vectors", () => {
  const table = new VectorTable(1, "Euclid");
  for (let slot = 0; slot < 10; slot++) table.set(slot, bytesOf([slot], "Euclid"));
  table.set(0, undefined);
  expect(table.get(0)).toBeUndefined();
  const query = Float32Array.of(0);
  const slots = (more: object) => table.search({ ...everything, query, ...more }).map(({ slot }) => slot);
  expect(slots({})).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(slots({ threshold: 3 })).toEqual([1, 2, 3]);
  expect(slots({ accepts: (slot: number) => slot % 4 === 0 })).toEqual([4, 8]);
  expect(slots({ limit: 2 })).toEqual([1, 2]);
});

test("a search by cosine finds the best of vectors that hardly differ, that are opposite, and that were changed", () => {
  const coordinate = fc.integer({ min: -100, max: 100 });
  const noise = fc.integer({ min: -5, max: 5 });
  const lists = fc.constantFrom(2, 15, 16, 17, 100).chain((length) =>
    fc.tuple(
      fc.array(coordinate, { minLength: length, maxLength: length }),
      fc.array(fc.array(noise, { minLength: length, maxLength: length }), {
        minLength: 30,
        maxLength: 60,
      }),
    ),
  );
  fc.assert(
    fc.property(lists, fc.integer({ min: 1, max: 3 }), ([query, rows], limit) => {
      const table = new VectorTable(query.length, "Cosine");
      const rowOf = (index: number, sign: number) =>
        bytesOf(
          query.map((value, at) => sign * value + (rows[index]?.[at] ?? 0)),
          "Cosine",
        );
      // Each slot has another vector first, of which nothing must be left.
      for (const index of rows.keys())
        table.set(index, rowOf(rows.length - 1 - index, index % 3 === 0 ? -1 : 1));
      for (const index of rows.keys()) table.set(index, rowOf(index, index % 5 === 0 ? -1 : 1));
      const search = { ...everything, query: prepared(query, "Cosine") };
      expect(table.search({ ...search, limit })).toEqual(table.search(search).slice(0, limit));
    }),
    { numRuns: times(50, 1000) },
  );
});

test("vectors are normalised only for cosine, and a vector of zeros stays unchanged", () => {
  expect([...prepared([3, 4], "Cosine")]).toEqual([Math.fround(0.6), Math.fround(0.8)]);
  expect([...prepared([3, 4], "Dot")]).toEqual([3, 4]);
  expect([...prepared([0, 0], "Cosine")]).toEqual([0, 0]);
  expect([...prepared([1e-30, 0], "Cosine")]).toEqual([1, 0]);
});

describe("filters", () => {
  const payload = {
    kind: "cat",
    age: 3,
    tags: ["a", "b"],
    deep: { n: 5, list: [{ x: 1 }, { x: 2 }] },
    yes: true,
  };
  const id = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26";
  test.each<[object, boolean]>([
    [{}, true],
    [{ must: { key: "kind", match: { value: "cat" } } }, true],
    [{ must: [{ key: "kind", match: { value: "dog" } }] }, false],
    [{ must: [{ key: "tags", match: { value: "b" } }] }, true],
    [{ must: [{ key: "tags[]", match: { any: ["z", "a"] } }] }, true],
    [{ must: [{ key: "yes", match: { value: true } }] }, true],
    [{ must: [{ key: "age", match: { value: "3" } }] }, false],
    [{ must: [{ key: "age", range: { gte: 3, lt: 4 } }] }, true],
    [{ must: [{ key: "age", range: { gt: 3 } }] }, false],
    [{ must: [{ key: "kind", range: { gt: 0 } }] }, false],
    [{ must: [{ key: "deep.n", range: { lte: 5 } }] }, true],
    [{ must: [{ key: "deep.list[].x", match: { value: 2 } }] }, true],
    [{ must: [{ key: "deep.list.x", match: { value: 2 } }] }, false],
    [{ must: [{ key: "constructor.name", match: { value: "Object" } }] }, false],
    [{ must: [{ has_id: [1, id.toUpperCase()] }] }, true],
    [{ must_not: [{ has_id: [1] }] }, true],
    [
      {
        should: [
          { key: "kind", match: { value: "dog" } },
          { key: "age", match: { value: 3 } },
        ],
      },
      true,
    ],
    [{ should: [{ key: "kind", match: { value: "dog" } }] }, false],
    [{ should: [] }, true],
    [{ must: [{ should: [{ key: "age", match: { value: 3 } }], must_not: { has_id: [1] } }] }, true],
  ])("the filter %j on the payload gives %s", (filter, expected) => {
    expect(parse(filterSchema, filter)(id, payload)).toBe(expected);
  });

  test.each<[unknown, string]>([
    [{ musst: [] }, 'Unrecognized key: "musst"'],
    [{ must: [{ key: "a", geo_radius: {} }] }, 'must.0: Unrecognized key: "geo_radius"'],
    [{ must: [{ is_empty: { key: "a" } }] }, 'must.0: Unrecognized key: "is_empty"'],
    [{ must: [{ key: "a", match: { text: "x" } }] }, "must.0.match: must be { value }"],
    [{ must: [{ key: "a", match: { value: 1 }, range: {} }] }, "must.0: must be { key, match }, "],
    [{ must: [{ key: "a" }] }, "must.0: must be { key, match }, "],
    [{ must: [{ match: { value: 1 } }] }, "must.0: must be { key, match }, "],
    [{ must: [{ has_id: [1], should: [{}] }] }, "must.0: must be { key, match }, "],
    [{ must: [{ key: "a", range: { gt: "x" } }] }, "must.0.range.gt: Invalid input: expected number"],
    [
      { must: { should: { must_not: { key: "a", range: { ge: 1 } } } } },
      'must.0.should.0.must_not.0.range: Unrecognized key: "ge"',
    ],
    [{ must: [{ has_id: [1.5] }] }, "must.0.has_id.0: "],
    [{ must: "x" }, "must.0: "],
    [[], "Invalid input"],
  ])("the filter %j is refused with the place of the error", (filter, message) => {
    expect(() => parse(filterSchema, filter)).toThrow(message);
  });

  test("a filter that nests 100000 levels deep is refused", () => {
    let filter: unknown = {};
    for (let level = 0; level < 100_000; level++) filter = { must: [filter] };
    expect(() => parse(filterSchema, filter)).toThrow("nests more than 64 levels deep");
  });

  test("any JSON value is either a usable filter or refused with a RequestError", () => {
    const key = fc.constantFrom(
      "must",
      "should",
      "must_not",
      "key",
      "match",
      "range",
      "value",
      "any",
      "gt",
      "has_id",
    );
    const { any } = fc.letrec((tie) => ({
      any: fc.oneof({ maxDepth: 5 }, fc.jsonValue(), fc.dictionary(key, tie("any")), fc.array(tie("any"))),
    }));
    fc.assert(
      fc.property(any, (value) => {
        try {
          parse(filterSchema, value)(1, { a: 1 });
        } catch (error) {
          expect(error).toMatchObject({ name: "RequestError", statusCode: 400 });
        }
      }),
      { numRuns: times(50, 500) },
    );
  });
});

describe("requests", () => {
  test.each<[unknown, string]>([
    [{ points: [] }, "points: Too small"],
    [{ points: [{ id: 2 ** 53, vector: [1] }] }, "points.0.id"],
    [{ points: [{ id: -1, vector: [1] }] }, "points.0.id"],
    [{ points: [{ id: "x", vector: [1] }] }, "points.0.id"],
    [{ points: [{ id: 1, vector: [1, Number.POSITIVE_INFINITY] }] }, "points.0.vector: must be a list"],
    [{ points: [{ id: 1, vector: [Number.NaN] }] }, "points.0.vector: must be a list"],
    [{ points: [{ id: 1, vector: [1e17] }] }, "points.0.vector: must be a list"],
    [{ points: [{ id: 1, vector: ["1"] }] }, "points.0.vector: must be a list"],
    [{ points: [{ id: 1, vector: [] }] }, "points.0.vector: must be a list"],
    [{ points: [{ id: 1, vector: [1], paylod: {} }] }, 'points.0: Unrecognized key: "paylod"'],
    [{ points: [{ id: 1, vector: { t: ["1"] } }] }, "points.0.vector.t: must be a list"],
    [{ points: [{ id: 1 }] }, "points.0.vector: "],
    [{ batch: { ids: [1], vectors: [[1]] } }, 'Unrecognized key: "batch"'],
    [undefined, "Invalid input"],
  ])("an upsert of %j is refused with the place of the error", (body, message) => {
    expect(() => parse(upsertPoints, body)).toThrow(message);
  });

  test.each<[object, string]>([
    [{ query: [1], limit: 1e9 }, "limit: Too big"],
    [{ query: [1], limit: 0 }, "limit: Too small"],
    [{ query: [1], limit: 1.5 }, "limit: "],
    [{ query: [1], offset: -1 }, "offset: "],
    [{ query: { recommend: { positive: [1] } } }, "query: must be a vector"],
    [{ query: { fusion: "dbsf" }, prefetch: [] }, "query: must be a vector"],
    [{ query: [1], filter: { mus: [] } }, 'filter: Unrecognized key: "mus"'],
    [
      { prefetch: [{ query: [1], limt: 3 }], query: { fusion: "rrf" } },
      'prefetch.0: Unrecognized key: "limt"',
    ],
    [
      { prefetch: { query: [1], prefetch: { query: [1] } }, query: { fusion: "rrf" } },
      'prefetch.0: Unrecognized key: "prefetch"',
    ],
    [{ query: [1], group_by: "x" }, 'Unrecognized key: "group_by"'],
    [{ query: [1], with_payload: { includ: [] } }, "with_payload: must be true"],
    [{ query: [1], with_payload: ["a.b"] }, "with_payload.0: must be a key, not a path"],
    [{ query: [1], using: 1 }, "using: "],
    [{ limit: 1 }, "query: must be a vector"],
  ])("the query %j is refused with the place of the error", (body, message) => {
    expect(() => parse(queryRequest, body)).toThrow(message);
  });

  test("a collection's settings are accepted if they change no answer, and refused otherwise", () => {
    const vectors = { size: 4, distance: "Cosine", hnsw_config: { m: 16 }, on_disk: true };
    expect(parse(createCollection, { vectors, optimizers_config: {}, shard_number: 2 })).toMatchObject({
      vectors: { "": { size: 4, distance: "Cosine" } },
    });
    expect(() => parse(createCollection, { vectors: {} })).toThrow("vectors");
    expect(() => parse(createCollection, { vectors: { t: { size: 0, distance: "Cosine" } } })).toThrow(
      "vectors.t.size",
    );
    expect(() => parse(createCollection, { vectors: { size: 4, distance: "Chebyshev" } })).toThrow(
      "vectors.distance",
    );
    expect(() => parse(createCollection, { vectors, quantization_config: { scalar: {} } })).toThrow(
      "quantization_config",
    );
    expect(() => parse(createCollection, { vectors, sparse_vectors: { s: {} } })).toThrow("sparse_vectors");
    expect(() => parse(deletePoints, { points: [1], filter: {} })).toThrow();
    expect(() => parse(scrollPoints, { order_by: "x" })).toThrow("order_by");
  });
});

const list = (...ids: number[]) => ids.map((id) => ({ id, payload: {}, score: 0 }));

// test_rrf_scoring of Qdrant's lib/segment/src/common/reciprocal_rank_fusion.rs.
test("reciprocal rank fusion scores as Qdrant does", () => {
  const fused = fuse([list(2, 1), list(1, 2, 3), list(5, 3, 1)]);
  expect(fused.map(({ id }) => id)).toEqual([1, 2, 3, 5]);
  const expected = [1.0833334, 0.8333334, 0.5833334, 0.5];
  for (const [index, { score }] of fused.entries()) expect(score).toBeCloseTo(expected[index] ?? 0, 6);
  expect(fuse([])).toEqual([]);
});

test("reciprocal rank fusion keeps the order of equal scores", () => {
  expect(fuse([list(9, 1), list(4, 2)]).map(({ id }) => id)).toEqual([9, 4, 1, 2]);
});
