import { Decimal128, type Document, Double, deserialize, Int32, Long, serialize } from "bson";
import { describe, expect, test } from "vitest";
import { applyUpdate, upserted } from "../../../containers/services/mock-mongo/src/update.ts";

const typed = { promoteValues: false, promoteLongs: false };
const int = (value: number) => new Int32(value);

/** What becomes of a document; undefined when nothing does. Operands are typed as a driver's are. */
function updated(document: Document, change: Document): Document | undefined {
  const sent = deserialize(serialize({ change }), typed).change;
  const bytes = applyUpdate(serialize({ _id: 1, ...document }), sent, false);
  if (bytes === undefined) return undefined;
  const { _id, ...rest } = deserialize(bytes, typed);
  expect(_id).toEqual(int(1));
  return rest;
}

test.each<[string, Document, Document, Document | undefined]>([
  ["$set in a new place", {}, { $set: { "a.b.c": 1 } }, { a: { b: { c: int(1) } } }],
  [
    "$set of a name that JavaScript has",
    {},
    { $set: { "a.__proto__": 1 } },
    { a: JSON.parse('{"__proto__":0}') },
  ],
  [
    "$set in a list, filled up with null",
    { a: [1] },
    { $set: { "a.3": 2 } },
    { a: [int(1), null, null, int(2)] },
  ],
  ["$set of what is there", { a: 1 }, { $set: { a: 1 } }, undefined],
  ["$set of another number type", { a: 1 }, { $set: { a: new Double(1) } }, { a: new Double(1) }],
  ["$unset", { a: 1, b: { c: 2, d: 3 } }, { $unset: { a: "", "b.c": "" } }, { b: { d: int(3) } }],
  ["$unset of an element", { a: [1, 2] }, { $unset: { "a.0": 1 } }, { a: [null, int(2)] }],
  ["$unset of nothing", { a: 1 }, { $unset: { "x.y": 1 } }, undefined],
  ["$inc beyond 32 bits", { a: 2 ** 31 - 1 }, { $inc: { a: 1 } }, { a: Long.fromNumber(2 ** 31) }],
  [
    "$inc of a 64-bit integer",
    { a: Long.fromString("9007199254740993") },
    { $inc: { a: 1 } },
    {
      a: Long.fromString("9007199254740994"),
    },
  ],
  ["$inc by a double", { a: 1 }, { $inc: { a: 0.5 } }, { a: new Double(1.5) }],
  ["$inc of nothing", {}, { $inc: { "a.b": 2 } }, { a: { b: int(2) } }],
  ["$mul of nothing", {}, { $mul: { a: 2 } }, { a: int(0) }],
  [
    "$min and $max",
    { a: 5, b: 5 },
    { $min: { a: 3 }, $max: { b: 3, c: 1 } },
    { a: int(3), b: int(5), c: int(1) },
  ],
  ["$max of another type", { a: 5 }, { $max: { a: "x" } }, { a: "x" }],
  ["$rename", { a: 1, b: 2 }, { $rename: { a: "c.d", x: "y" } }, { b: int(2), c: { d: int(1) } }],
  ["$push", { a: [1] }, { $push: { a: 2, b: 3 } }, { a: [int(1), int(2)], b: [int(3)] }],
  [
    "$push with everything",
    { a: [5, 1] },
    { $push: { a: { $each: [4, 2], $position: 0, $sort: -1, $slice: 3 } } },
    { a: [int(5), int(4), int(2)] },
  ],
  [
    "$push sorted by a field",
    { a: [{ n: 2 }] },
    { $push: { a: { $each: [{ n: 1 }], $sort: { n: 1 } } } },
    {
      a: [{ n: int(1) }, { n: int(2) }],
    },
  ],
  [
    "$push from the end",
    { a: [1, 2, 3] },
    { $push: { a: { $each: [9], $position: -1, $slice: -3 } } },
    {
      a: [int(2), int(9), int(3)],
    },
  ],
  [
    "$addToSet",
    { a: [1, "x"] },
    { $addToSet: { a: { $each: [new Double(1), 2, 2] } } },
    {
      a: [int(1), "x", int(2)],
    },
  ],
  ["$addToSet of what is there", { a: [1] }, { $addToSet: { a: new Double(1) } }, undefined],
  ["$pull of a value", { a: [1, new Double(1), 2] }, { $pull: { a: 1 } }, { a: [int(2)] }],
  ["$pull by a condition", { a: [1, 5, new Double(9)] }, { $pull: { a: { $gte: 5 } } }, { a: [int(1)] }],
  ["$pull by fields", { a: [{ b: 1, c: 2 }, { b: 2 }] }, { $pull: { a: { b: 1 } } }, { a: [{ b: int(2) }] }],
  ["$pullAll", { a: [1, 2, 3] }, { $pullAll: { a: [1, 3, 4] } }, { a: [int(2)] }],
  ["$pop", { a: [1, 2], b: [1, 2] }, { $pop: { a: 1, b: -1 } }, { a: [int(1)], b: [int(2)] }],
  ["$setOnInsert", { a: 1 }, { $setOnInsert: { a: 2 } }, undefined],
  ["a replacement", { a: 1, b: 2 }, { b: new Double(2) }, { b: new Double(2) }],
  ["an empty replacement", { a: 1 }, {}, {}],
])("%s", (what, document, change, expected) => {
  if (what.includes("JavaScript")) Object.defineProperty(expected?.a, "__proto__", { value: int(1) });
  expect(updated(document, change)).toEqual(expected);
});

test("$currentDate sets the time of now", () => {
  const before = Date.now();
  const { at, too } = updated({}, { $currentDate: { at: true, too: { $type: "date" } } }) as {
    at: Date;
    too: Date;
  };
  expect(at.getTime()).toBeGreaterThanOrEqual(before);
  expect(too.getTime()).toBeGreaterThanOrEqual(before);
});

describe("what MongoDB refuses is refused", () => {
  test.each<[Document, Document, number]>([
    [{ a: "x" }, { $inc: { a: 1 } }, 14],
    [{ a: null }, { $inc: { a: 1 } }, 14],
    [{ a: 1 }, { $inc: { a: "1" } }, 14],
    [{ a: 1 }, { $inc: { a: Decimal128.fromString("1") } }, 238],
    [{ a: Long.MAX_VALUE }, { $inc: { a: 1 } }, 2],
    [{ a: 1 }, { $push: { a: 1 } }, 2],
    [{ a: 1 }, { $addToSet: { a: 1 } }, 2],
    [{ a: 1 }, { $pull: { a: 1 } }, 2],
    [{ a: [] }, { $pullAll: { a: 1 } }, 2],
    [{ a: [] }, { $pop: { a: 2 } }, 9],
    [{ a: [] }, { $push: { a: { $each: 1 } } }, 14],
    [{ a: [] }, { $push: { a: { $each: [], $frob: 1 } } }, 2],
    [{ a: [] }, { $set: { "a.x": 1 } }, 28],
    [{ a: [] }, { $set: { "a.9999999": 1 } }, 28],
    [{ a: 1 }, { $set: { "a.b.c": 1 } }, 28],
    [{}, { $set: { "a..b": 1 } }, 2],
    [{}, { $set: { "a.$[].b": 1 } }, 238],
    [{}, { $set: 1 }, 9],
    [{}, { $rename: { a: 1 } }, 2],
    [{}, { $rename: { a: "b" }, $set: { b: 1 } }, 40],
    [{}, { $unset: { _id: 1 } }, 66],
    [{}, { _id: 2 }, 66],
  ])("%j with %j: %d", (document, change, code) => {
    expect(() => updated(document, change)).toThrow(expect.objectContaining({ code }));
  });
});

test("an upsert that gives no _id gets one of its own, in the first place", () => {
  const document = upserted({ a: { $gt: 1 }, b: /x/, c: 2 }, { $set: { d: 3 } });
  expect(Object.keys(document)).toEqual(["_id", "c", "d"]);
  expect(upserted({ _id: 5 }, { a: 1 })).toEqual({ _id: 5, a: 1 });
});
