import { Patience } from "@engine-room/service-process";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  DISTANCES,
  type Distance,
  prepared,
  VectorTable,
} from "../../../containers/services/mock-vector/src/vectors.ts";

/** Written down plainly, in double precision. */
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
  count: 1000,
  accepts: undefined,
  threshold: undefined,
  tieBreak: (a: number, b: number) => a - b,
  patience: new Patience(),
};

const number = fc.float({ min: -100, max: 100, noNaN: true });
const size = fc.integer({ min: 1, max: 70 });

describe.each(DISTANCES)("%s", (distance) => {
  test("scores are those of the formula, for any number of dimensions", async () => {
    await fc.assert(
      fc.asyncProperty(
        size.chain((length) =>
          fc.array(fc.array(number, { minLength: length, maxLength: length }), {
            minLength: 2,
            maxLength: 20,
          }),
        ),
        async ([query = [], ...rows]) => {
          const table = new VectorTable(query.length, distance);
          for (const [slot, row] of rows.entries()) table.set(slot, bytesOf(row, distance));
          const hits = await table.search({ ...everything, query: prepared(query, distance) });
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
      { numRuns: 100 },
    );
  });

  test("the first hits are the best ones, in order, whatever the limit", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 1, maxLength: 200 }),
        fc.integer({ min: 1, max: 30 }),
        async (values, count) => {
          // Few different values, so that many scores are equal.
          const table = new VectorTable(2, distance);
          for (const [slot, value] of values.entries()) table.set(slot, bytesOf([value, 1], distance));
          const query = prepared([1, 0.5], distance);
          const all = await table.search({ ...everything, query });
          const expected = all.toSorted((a, b) => {
            const order = distance === "Cosine" || distance === "Dot" ? b.score - a.score : a.score - b.score;
            return order || a.slot - b.slot;
          });
          expect(await table.search({ ...everything, query, count })).toEqual(expected.slice(0, count));
        },
      ),
      { numRuns: 100 },
    );
  });
});

test("a table grows over its memory's pages and keeps what it has", async () => {
  const table = new VectorTable(384, "Dot");
  const unit = (slot: number) =>
    Array.from({ length: 384 }, (_, index) => (index === slot % 384 ? slot + 1 : 0));
  for (let slot = 0; slot < 20_000; slot += 7) table.set(slot, bytesOf(unit(slot), "Dot"));
  for (const slot of [0, 7, 9996, 19_999 - (19_999 % 7)])
    expect([...(table.get(slot) ?? [])]).toEqual(unit(slot));
  expect(table.get(1)).toBeUndefined();
  const hits = await table.search({ ...everything, query: prepared(unit(700), "Dot"), count: 3 });
  expect(hits[0]?.slot).toBe(
    Math.max(
      ...Array.from({ length: 20_000 }, (_, n) => n).filter((n) => n % 7 === 0 && n % 384 === 700 % 384),
    ),
  );
});

test("a removed vector is no hit, a threshold and a filter leave others out", async () => {
  const table = new VectorTable(1, "Euclid");
  for (let slot = 0; slot < 10; slot++) table.set(slot, bytesOf([slot], "Euclid"));
  const before = table.versionOf(0);
  table.remove(0);
  table.remove(0);
  expect(table.versionOf(0)).toBe(before + 1);
  const query = Float32Array.of(0);
  const slots = async (more: object) =>
    (await table.search({ ...everything, query, ...more })).map(({ slot }) => slot);
  expect(await slots({})).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(await slots({ threshold: 3 })).toEqual([1, 2, 3]);
  expect(await slots({ accepts: (slot: number) => slot % 4 === 0 })).toEqual([4, 8]);
  expect(await slots({ count: 2 })).toEqual([1, 2]);
});

test("the largest table has the memory that WebAssembly can address", () => {
  expect(new VectorTable(384, "Cosine").capacity).toBe(Math.floor((2 ** 32 - 1536 - 8192) / 1536));
  expect(new VectorTable(65_536, "Cosine").capacity).toBeGreaterThan(16_000);
});

test("vectors are normalised for cosine only, and one of zeros stays that", () => {
  expect([...prepared([3, 4], "Cosine")]).toEqual([Math.fround(0.6), Math.fround(0.8)]);
  expect([...prepared([3, 4], "Dot")]).toEqual([3, 4]);
  expect([...prepared([0, 0], "Cosine")]).toEqual([0, 0]);
  expect([...prepared([1e-30, 0], "Cosine")]).toEqual([1, 0]);
});
