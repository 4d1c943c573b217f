/** What requests may say, and what filters and fusion make of it. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  compileFilter,
  type Filter,
  filterSchema,
} from "../../../containers/services/mock-vector/src/filter.ts";
import { upsertSchema } from "../../../containers/services/mock-vector/src/points.ts";
import { parse } from "../../../containers/services/mock-vector/src/problems.ts";
import { fuse, queryRequest } from "../../../containers/services/mock-vector/src/query.ts";
import {
  createCollection,
  deletePoints,
  scrollPoints,
} from "../../../containers/services/mock-vector/src/schemas.ts";
import { selectPayload } from "../../../containers/services/mock-vector/src/selectors.ts";

const read = <T>(schema: Parameters<typeof parse<T>>[0], value: unknown) => parse(schema, value);

describe("filters", () => {
  const payload = {
    kind: "cat",
    age: 3,
    tags: ["a", "b"],
    none: null,
    empty: [],
    deep: { n: 5, list: [{ x: 1 }, { x: 2 }] },
    yes: true,
  };
  const id = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26";
  test.each<[Filter, boolean]>([
    [{}, true],
    [{ must: { key: "kind", match: { value: "cat" } } }, true],
    [{ must: [{ key: "kind", match: { value: "dog" } }] }, false],
    [{ must: [{ key: "tags", match: { value: "b" } }] }, true],
    [{ must: [{ key: "tags[]", match: { any: ["z", "a"] } }] }, true],
    [{ must: [{ key: "tags", match: { except: ["a", "b"] } }] }, false],
    [{ must: [{ key: "yes", match: { value: true } }] }, true],
    [{ must: [{ key: "age", match: { value: "3" } }] }, false],
    [{ must: [{ key: "age", range: { gte: 3, lt: 4 } }] }, true],
    [{ must: [{ key: "age", range: { gt: 3 } }] }, false],
    [{ must: [{ key: "kind", range: { gt: 0 } }] }, false],
    [{ must: [{ key: "deep.n", range: { lte: 5 } }] }, true],
    [{ must: [{ key: "deep.list[].x", match: { value: 2 } }] }, true],
    [{ must: [{ key: "deep.list.x", match: { value: 2 } }] }, false],
    [{ must: [{ key: "constructor.name", match: { value: "Object" } }] }, false],
    [
      { must: [{ is_null: { key: "none" } }, { is_empty: { key: "empty" } }, { is_empty: { key: "zz" } }] },
      true,
    ],
    [{ must: [{ is_empty: { key: "kind" } }] }, false],
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
    [
      { must: [{ should: [{ key: "age", match: { value: 3 } }], must_not: { is_empty: { key: "kind" } } }] },
      true,
    ],
  ])("%j of the payload is %s", (filter, expected) => {
    expect(compileFilter(read(filterSchema, filter))?.(id, payload)).toBe(expected);
  });

  test.each<[unknown, string]>([
    [{ musst: [] }, 'Unrecognized key: "musst"'],
    [
      { must: [{ key: "a", geo_radius: {} }] },
      "must.0: unknown condition with key, geo_radius; there are match",
    ],
    [{ must: [{ key: "a", match: { text: "x" } }] }, "must.0.match: must be { value }"],
    [{ must: [{ key: "a", match: { value: 1 }, range: {} }] }, 'must.0: Unrecognized key: "range"'],
    [{ must: [{ key: "a", range: { gt: "x" } }] }, "must.0.range.gt: Invalid input: expected number"],
    [
      { must: { should: { must_not: { key: "a", range: { ge: 1 } } } } },
      'must.should.must_not.range: Unrecognized key: "ge"',
    ],
    [{ must: [{ has_id: [1.5] }] }, "must.0.has_id.0: "],
    [{ must: "x" }, "must: "],
    [[], "Invalid input"],
  ])("%j is refused with its place", (filter, message) => {
    expect(() => read(filterSchema, filter)).toThrow(message);
  });

  test("of any depth are read or refused", () => {
    let filter: unknown = {};
    for (let level = 0; level < 100_000; level++) filter = { must: [filter] };
    expect(() => read(filterSchema, filter)).toThrow("nests more than 64 levels deep");
  });

  test("of any kind are read or refused with a RequestError, and those that are read can be used", () => {
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
          compileFilter(read(filterSchema, value))?.(1, { a: 1 });
        } catch (error) {
          expect(error).toMatchObject({ name: "RequestError", status: 400 });
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("requests", () => {
  const upsert = (body: unknown) => parse(upsertSchema(body), body);
  test("an upsert has points or a batch, and both are the same", () => {
    const points = [
      { id: 1, vector: { t: [1, 2] }, payload: { a: 1 } },
      { id: 2, vector: { t: [3, 4] }, payload: null },
    ];
    const batch = {
      ids: [1, 2],
      vectors: {
        t: [
          [1, 2],
          [3, 4],
        ],
      },
      payloads: [{ a: 1 }, null],
    };
    expect(upsert({ batch })).toEqual(upsert({ points }));
    expect(upsert({ batch: { ids: [7], vectors: [[1]] } })).toEqual([{ id: 7, vector: [1], payload: null }]);
  });

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
    [{ batch: { ids: [1, 2], vectors: [[1]] } }, "batch: has 2 ids and a column of 1"],
    [{}, "points: "],
    [undefined, "Invalid input"],
  ])("an upsert of %j is refused with its place", (body, message) => {
    expect(() => upsert(body)).toThrow(message);
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
    [{ query: [1], group_by: "x" }, 'Unrecognized key: "group_by"'],
    [{ query: [1], with_payload: { includ: [] } }, "with_payload: must be true"],
    [{ query: [1], using: "" }, "using: "],
  ])("a query of %j is refused with its place", (body, message) => {
    expect(() => read(queryRequest, body)).toThrow(message);
  });

  test("settings that change no answer are taken, others refused", () => {
    const vectors = { size: 4, distance: "Cosine", hnsw_config: { m: 16 }, on_disk: true };
    expect(read(createCollection, { vectors, optimizers_config: {}, shard_number: 2 })).toMatchObject({
      vectors,
    });
    expect(() => read(createCollection, { vectors: {} })).toThrow("vectors");
    expect(() => read(createCollection, { vectors: { t: { size: 0, distance: "Cosine" } } })).toThrow(
      "vectors.t.size",
    );
    expect(() => read(createCollection, { vectors: { size: 4, distance: "Chebyshev" } })).toThrow(
      "vectors.distance",
    );
    expect(() => read(createCollection, { vectors, quantization_config: { scalar: {} } })).toThrow(
      "quantization_config",
    );
    expect(() => read(createCollection, { vectors, sparse_vectors: { s: {} } })).toThrow("sparse_vectors");
    expect(() => read(deletePoints, { points: [1], filter: {} })).toThrow();
    expect(() => read(scrollPoints, { order_by: "x" })).toThrow("order_by");
  });
});

describe("reciprocal rank fusion", () => {
  const list = (...ids: number[]) => ids.map((id) => ({ id, payload: {}, score: 0 }));

  // test_rrf_scoring of Qdrant's lib/segment/src/common/reciprocal_rank_fusion.rs.
  test("scores as Qdrant does", () => {
    const fused = fuse([list(2, 1), list(1, 2, 3), list(5, 3, 1)]);
    expect(fused.map(({ id }) => id)).toEqual([1, 2, 3, 5]);
    const expected = [1.0833334, 0.8333334, 0.5833334, 0.5];
    for (const [index, { score }] of fused.entries()) expect(score).toBeCloseTo(expected[index] ?? 0, 6);
    expect(fuse([])).toEqual([]);
    expect(fuse([list(1)], 60)[0]?.score).toBe(1 / 60);
  });

  test("equal scores stay in the order in which they came", () => {
    expect(fuse([list(9, 1), list(4, 2)]).map(({ id }) => id)).toEqual([9, 4, 1, 2]);
  });
});

test.each([
  [true, { a: 1, b: { c: 2, d: [{ e: 3, f: 4 }] } }],
  [false, undefined],
  [undefined, undefined],
  [["a"], { a: 1 }],
  [["b.d.e"], { b: { d: [{ e: 3 }] } }],
  [{ include: ["b.c", "x"] }, { b: { c: 2 } }],
  [{ exclude: ["a", "b.d.f"] }, { b: { c: 2, d: [{ e: 3 }] } }],
])("the payload selector %j leaves %j", (selector, expected) => {
  expect(selectPayload({ a: 1, b: { c: 2, d: [{ e: 3, f: 4 }] } }, selector)).toEqual(expected);
});
