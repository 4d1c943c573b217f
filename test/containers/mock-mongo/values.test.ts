/** Order, identity and paths of values. */
import { Binary, Decimal128, Double, Int32, Long, ObjectId, Timestamp } from "bson";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { identityOf } from "../../../containers/services/mock-mongo/src/identity.ts";
import { entriesOf } from "../../../containers/services/mock-mongo/src/indexes.ts";
import { compareValues } from "../../../containers/services/mock-mongo/src/order.ts";
import { leavesAt, sortKey, valuesAt } from "../../../containers/services/mock-mongo/src/paths.ts";

const scalar = fc.oneof(
  fc.double(),
  fc.integer().map((value) => new Int32(value)),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((value) => Long.fromBigInt(value)),
  fc.string({ unit: "binary" }),
  fc.boolean(),
  fc.constant(null),
  fc.date({ noInvalidDate: true }),
  fc.uint8Array({ maxLength: 3 }).map((bytes) => new Binary(bytes)),
  fc.uint8Array({ minLength: 12, maxLength: 12 }).map((bytes) => new ObjectId(bytes)),
);
const value = fc.oneof(
  scalar,
  fc.array(scalar, { maxLength: 3 }),
  fc.dictionary(fc.string(), scalar, { maxKeys: 3 }),
);

describe("the order of values", () => {
  test("is a total order", () => {
    fc.assert(
      fc.property(value, value, value, (a, b, c) => {
        expect(Math.sign(compareValues(a, b))).toBe(-Math.sign(compareValues(b, a)) + 0);
        expect(compareValues(a, a)).toBe(0);
        if (compareValues(a, b) <= 0 && compareValues(b, c) <= 0) {
          expect(compareValues(a, c)).toBeLessThanOrEqual(0);
        }
      }),
      { numRuns: 2000 },
    );
  });

  test("of texts is that of their UTF-8 bytes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (a, b) => {
        expect(Math.sign(compareValues(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
      }),
      { numRuns: 2000 },
    );
  });

  test("of 64-bit integers is exact", () => {
    const near = ["9007199254740992", "9007199254740993", "9007199254740994"].map((text) =>
      Long.fromString(text),
    );
    expect(near.toReversed().sort(compareValues)).toEqual(near);
  });
});

describe("identity", () => {
  test.each([
    [1, new Double(1), true],
    [1, Long.fromNumber(1), true],
    [1, Decimal128.fromString("1.0"), true],
    [0, new Double(-0), true],
    [Number.NaN, new Double(Number.NaN), true],
    [{ a: 1, b: 2 }, { b: 2, a: 1 }, false],
    [[1, 2], [new Int32(1), 2], true],
    [Long.fromString("9007199254740993"), Long.fromString("9007199254740992"), false],
    [1, new Timestamp(Long.ONE), false],
    [1, "1", false],
    [null, undefined, true],
    [1, true, false],
  ])("of %s and %s is the same: %s", (a, b, isSame) => {
    expect(identityOf(a) === identityOf(b)).toBe(isSame);
  });
});

describe("paths", () => {
  const document = { a: [{ b: 1 }, { b: [2, 3] }, { c: 4 }], list: [], "x.y": 5, none: null };
  test.each([
    ["a.b", [1, [2, 3]]],
    ["a.1.b", [[2, 3]]],
    ["a.1.b.0", [2]],
    ["list", [[]]],
    ["none", [null]],
    ["none.more", []],
    ["missing", []],
    ["toString", []],
    ["a.length", []],
  ])("%s leads to %j", (path, expected) => {
    expect(valuesAt(document, path)).toEqual(expected);
  });

  test("a list sorts by its least element upwards and by its greatest downwards", () => {
    expect(sortKey({ a: [5, 1, 3] }, "a", 1)).toBe(1);
    expect(sortKey({ a: [5, 1, 3] }, "a", -1)).toBe(5);
    expect(sortKey({}, "a", 1)).toBeNull();
    expect(compareValues(sortKey({ a: [] }, "a", 1), sortKey({}, "a", 1))).toBeLessThan(0);
  });

  test("an index has an entry for each element of a list, and takes one list only", () => {
    const index = { name: "i", key: { "a.b": 1, c: 1 }, unique: true };
    expect(entriesOf(index, document).map(({ values }) => values)).toEqual([
      { "a.b": 1, c: null },
      { "a.b": 2, c: null },
      { "a.b": 3, c: null },
    ]);
    expect(leavesAt({ a: [] }, "a")).toEqual([[]]);
    expect(() => entriesOf(index, { a: { b: [1] }, c: [2] })).toThrow(/parallel arrays/);
  });
});
