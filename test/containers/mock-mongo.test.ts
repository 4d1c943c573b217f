import {
  Binary,
  BSONRegExp,
  Decimal128,
  type Document,
  Double,
  deserialize,
  Int32,
  Long,
  ObjectId,
  serialize,
  Timestamp,
} from "bson";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readUpdate } from "../../containers/services/mock-mongo/src/update.ts";
import {
  compareValues,
  identityOf,
  sortKey,
  valuesAt,
} from "../../containers/services/mock-mongo/src/values.ts";
import {
  batchReply,
  encodeReply,
  MAX_MESSAGE_BYTES,
  MessageReader,
  parseMessage,
  WireError,
} from "../../containers/services/mock-mongo/src/wire.ts";
import { times } from "../harness/thorough.ts";

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

test("the order of values is total", () => {
  fc.assert(
    fc.property(value, value, value, (a, b, c) => {
      expect(Math.sign(compareValues(a, b))).toBe(-Math.sign(compareValues(b, a)) + 0);
      expect(compareValues(a, a)).toBe(0);
      if (compareValues(a, b) <= 0 && compareValues(b, c) <= 0) {
        expect(compareValues(a, c)).toBeLessThanOrEqual(0);
      }
    }),
    { numRuns: times(100, 2000) },
  );
});

test("strings are ordered by their UTF-8 bytes", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (a, b) => {
      expect(Math.sign(compareValues(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
    { numRuns: times(100, 2000) },
  );
});

test("64-bit integers are ordered exactly", () => {
  const near = ["9007199254740992", "9007199254740993", "9007199254740994"].map((text) =>
    Long.fromString(text),
  );
  expect(near.toReversed().sort(compareValues)).toEqual(near);
});

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
])("the identities of %s and %s are equal: %s", (a, b, isSame) => {
  expect(identityOf(a) === identityOf(b)).toBe(isSame);
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
  ])("the path %s leads to %j", (path, expected) => {
    expect(valuesAt(document, path)).toEqual(expected);
  });

  test("an array sorts by its least element upwards and by its greatest downwards", () => {
    expect(sortKey({ a: [5, 1, 3] }, "a", 1)).toBe(1);
    expect(sortKey({ a: [5, 1, 3] }, "a", -1)).toBe(5);
    expect(sortKey({}, "a", 1)).toBeNull();
    expect(compareValues(sortKey({ a: [] }, "a", 1), sortKey({}, "a", 1))).toBeLessThan(0);
  });
});

const typed = { promoteValues: false, promoteLongs: false };

const int = (value: number) => new Int32(value);

/** The document after the update; undefined when unchanged. Operands have the types that drivers send. */
function updated(document: Document, change: Document): Document | undefined {
  const sent = deserialize(serialize({ change }), typed).change;
  const bytes = readUpdate(sent, false).apply(serialize({ _id: 1, ...document }));
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
  [
    "$set beside names that begin alike",
    {},
    { $set: { undefined: 1, "a-b": 1, "a.b": 1, ab: 1 } },
    { undefined: int(1), "a-b": int(1), a: { b: int(1) }, ab: int(1) },
  ],
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
  ["$push", { a: [1] }, { $push: { a: 2, b: 3 } }, { a: [int(1), int(2)], b: [int(3)] }],
  [
    "$addToSet",
    { a: [1, "x"] },
    { $addToSet: { a: { $each: [new Double(1), 2, 2] } } },
    {
      a: [int(1), "x", int(2)],
    },
  ],
  ["$push of several", { a: [1] }, { $push: { a: { $each: [2, 3] } } }, { a: [int(1), int(2), int(3)] }],
  ["$addToSet of what is there", { a: [1] }, { $addToSet: { a: new Double(1) } }, undefined],
  ["$pull of a value", { a: [1, new Double(1), 2] }, { $pull: { a: 1 } }, { a: [int(2)] }],
  ["$pull by a condition", { a: [1, 5, new Double(9)] }, { $pull: { a: { $gte: 5 } } }, { a: [int(1)] }],
  ["$pull by fields", { a: [{ b: 1, c: 2 }, { b: 2 }] }, { $pull: { a: { b: 1 } } }, { a: [{ b: int(2) }] }],
  [
    "$min and $max",
    { a: 5, b: "x" },
    { $min: { a: 7, c: 1 }, $max: { b: 9 } },
    { a: int(5), b: "x", c: int(1) },
  ],
  ["$setOnInsert", { a: 1 }, { $setOnInsert: { a: 2 } }, undefined],
  ["a replacement", { a: 1, b: 2 }, { b: new Double(2) }, { b: new Double(2) }],
  ["an empty replacement", { a: 1 }, {}, {}],
])("the update %s gives MongoDB's result", (what, document, change, expected) => {
  if (what.includes("JavaScript")) Object.defineProperty(expected?.a, "__proto__", { value: int(1) });
  expect(updated(document, change)).toEqual(expected);
});

test.each<[Document, Document, number]>([
  [{ a: "x" }, { $inc: { a: 1 } }, 14],
  [{ a: null }, { $inc: { a: 1 } }, 14],
  [{ a: 1 }, { $inc: { a: "1" } }, 14],
  [{ a: 1 }, { $inc: { a: Decimal128.fromString("1") } }, 238],
  [{ a: Long.MAX_VALUE }, { $inc: { a: 1 } }, 2],
  [{ a: 1 }, { $push: { a: 1 } }, 2],
  [{ a: 1 }, { $addToSet: { a: 1 } }, 2],
  [{ a: 1 }, { $pull: { a: 1 } }, 2],
  [{ a: [] }, { $push: { a: { $each: 1 } } }, 14],
  [{ a: [] }, { $push: { a: { $each: [], $frob: 1 } } }, 2],
  [{ a: [] }, { $set: { "a.x": 1 } }, 28],
  [{ a: [] }, { $set: { "a.9999999": 1 } }, 28],
  [{ a: 1 }, { $set: { "a.b.c": 1 } }, 28],
  [{}, { $set: { "a..b": 1 } }, 2],
  [{}, { $set: { "a.$[].b": 1 } }, 238],
  [{}, { $set: 1 }, 9],
  [{}, { $set: { a: 1 }, b: 2 }, 9],
  [{}, { $frob: { a: 1 } }, 9],
  [{ a: [] }, { $push: { a: { $each: [1], $slice: 1 } } }, 2],
  ...["$pullAll", "$pop", "$bit", "$mul", "$rename", "$currentDate"].map(
    (name): [Document, Document, number] => [{ a: 1 }, { [name]: { a: 1 } }, 9],
  ),
  [{}, { $inc: { a: 1 }, $set: { "a.b": 1 } }, 40],
  [{}, { $inc: { a: 1 }, $set: { a: 1 } }, 40],
  [{}, { $set: { undefined: 1, "a-b": 1, a: 1, "a.b": 1 } }, 40],
  [{}, { $unset: { _id: 1 } }, 66],
  [{}, { _id: 2 }, 66],
])("a document %j refuses the update %j with MongoDB's code %d", (document, change, code) => {
  expect(() => updated(document, change)).toThrow(expect.objectContaining({ code }));
});

test("an upsert without an _id gets a new _id as its first key", () => {
  const document = readUpdate({ $set: { d: 3 } }, false).insert({
    a: { $gt: 1 },
    b: new BSONRegExp("x"),
    c: 2,
  });
  expect(Object.keys(document)).toEqual(["_id", "c", "d"]);
  expect(readUpdate({ a: 1 }, false).insert({ _id: 5 })).toEqual({ _id: 5, a: 1 });
});

function header(length: number, opCode: number): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeInt32LE(length, 0);
  bytes.writeInt32LE(7, 4);
  bytes.writeInt32LE(opCode, 12);
  return bytes;
}

function message(opCode: number, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([header(16 + body.length, opCode), body]);
}

function flags(bits: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(bits);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

const body = (document: Document) => Buffer.concat([Buffer.from([0]), serialize(document)]);

function sequence(name: string, documents: readonly Uint8Array[]): Buffer {
  const rest = Buffer.concat([Buffer.from(`${name}\0`), ...documents]);
  return Buffer.concat([Buffer.from([1]), int32(4 + rest.length), rest]);
}

const ping = message(2013, flags(0), body({ ping: 1, $db: "admin" }));

test("OP_MSG keeps documents as bytes, from its body and from its sequences", () => {
  const documents = [serialize({ a: 1 }), serialize({ b: { c: 2 } })];
  const inBody = parseMessage(
    message(
      2013,
      flags(2),
      body({ insert: "c", documents: documents.map((one) => deserialize(one)), $db: "d" }),
    ),
  );
  const inSequence = parseMessage(
    message(2013, flags(2), sequence("documents", documents), body({ insert: "c", $db: "d" })),
  );
  for (const request of [inBody, inSequence]) {
    expect(request.body).toEqual({
      insert: "c",
      documents: documents.map((bytes) => Buffer.from(bytes)),
      $db: "d",
    });
    expect(request).toMatchObject({ requestId: 7, isSilent: true, isLegacy: false });
  }
});

test("OP_MSG reads the lists of other commands as plain values", () => {
  const { body: read } = parseMessage(
    message(2013, flags(0), body({ find: "c", documents: [1, {}], filter: { documents: [{ a: 1 }] } })),
  );
  expect(read).toEqual({ find: "c", documents: [1, {}], filter: { documents: [{ a: 1 }] } });
});

test.each([
  ["a checksum", message(2013, flags(1), body({ ping: 1 }), int32(0))],
  ["an unknown flag", message(2013, flags(1 << 5), body({ ping: 1 }))],
  ["two bodies", message(2013, flags(0), body({ ping: 1 }), body({ ping: 1 }))],
  ["no body", message(2013, flags(0))],
  [
    "a list given twice",
    message(2013, flags(0), body({ insert: "c", documents: [{}] }), sequence("documents", [])),
  ],
  ["a section of another kind", message(2013, flags(0), Buffer.from([9, 5, 0, 0, 0, 0]))],
  ["a section that is too long", message(2013, flags(0), Buffer.from([0, 99, 0, 0, 0, 0]))],
  ["a compressed body", message(2012, flags(0))],
  ["an old insert", message(2002, flags(0))],
  ["a query that is no command", message(2004, flags(0), Buffer.from("db.c\0"), Buffer.alloc(8))],
  ["nothing but a header", message(2013)],
])("a message with %s is refused", (_what, bytes) => {
  expect(() => parseMessage(bytes)).toThrow(WireError);
});

test("the legacy hello is answered in its own form", () => {
  const query = message(
    2004,
    ...[flags(0), Buffer.from("admin.$cmd\0"), int32(0), int32(-1), serialize({ isMaster: 1 })],
  );
  const request = parseMessage(query);
  expect(request).toMatchObject({ body: { isMaster: 1, $db: "admin" }, isLegacy: true });
  const reply = encodeReply(request, { ok: 1 });
  expect([reply.readInt32LE(0), reply.readInt32LE(8), reply.readInt32LE(12)]).toEqual([reply.length, 7, 1]);
  expect(deserialize(reply.subarray(36))).toEqual({ ok: 1 });
});

test("a cursor's documents are sent byte for byte", () => {
  const documents = [serialize({ _id: 1 }), serialize({ x: [1, { y: 2 }] })];
  const reply = encodeReply(parseMessage(ping), batchReply("firstBatch", 5, "d.c", documents));
  expect(reply.readInt32LE(0)).toBe(reply.length);
  expect(deserialize(reply.subarray(21))).toEqual({
    cursor: { firstBatch: [{ _id: 1 }, { x: [1, { y: 2 }] }], id: 5, ns: "d.c" },
    ok: 1,
  });
  for (const bytes of documents) expect(reply.includes(Buffer.from(bytes))).toBe(true);
});

describe("random bytes", () => {
  const isRefusedOrRead = (bytes: Buffer): void => {
    try {
      parseMessage(bytes);
    } catch (error) {
      expect(error).toBeInstanceOf(WireError);
    }
  };

  test("random bytes are either read or refused with a WireError", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(2013, 2004, 2012, 0, -1),
        fc.uint8Array({ maxLength: 200 }),
        (opCode, bytes) => isRefusedOrRead(message(opCode, bytes)),
      ),
      { numRuns: times(100, 2000) },
    );
  });

  test("changed or truncated messages are either read or refused with a WireError", () => {
    const documents = [serialize({ _id: 1, a: "text", b: [1, 2] }), serialize({ c: new Date() })];
    const good = message(
      2013,
      ...[flags(0), body({ insert: "c", $db: "d", lsid: { a: 1 } }), sequence("documents", documents)],
    );
    const change = fc.tuple(fc.nat(good.length - 1), fc.nat(255));
    fc.assert(
      fc.property(
        fc.array(change, { minLength: 1, maxLength: 5 }),
        fc.nat(good.length - 16),
        (changes, cut) => {
          const bytes = Buffer.from(good.subarray(0, good.length - cut));
          for (const [index, value] of changes) bytes[index % bytes.length] = value;
          isRefusedOrRead(bytes);
        },
      ),
      { numRuns: times(100, 3000) },
    );
  });

  test("a document that nests 100000 levels deep is read or refused with a WireError", () => {
    const levels = 100_000;
    const parts: Buffer[] = [];
    for (let level = levels; level > 0; level--)
      parts.push(Buffer.from([3, 97, 0]), int32(5 + 8 * (level - 1)));
    const nested = Buffer.concat([int32(5 + 8 * levels), ...parts, Buffer.alloc(levels + 1)]);
    isRefusedOrRead(message(2013, flags(0), Buffer.from([0]), nested));
  });
});

test("messages are the same for any chunks of their bytes", () => {
  const messages = [ping, message(2013, flags(0), body({ find: "c", text: "x".repeat(500) })), ping, ping];
  const all = Buffer.concat(messages);
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1 }), (sizes) => {
      const reader = new MessageReader();
      const read: Buffer[] = [];
      for (let offset = 0, turn = 0; offset < all.length; turn++) {
        const size = sizes[turn % sizes.length] ?? 1;
        reader.add(all.subarray(offset, offset + size));
        offset += size;
        for (let whole = reader.take(); whole !== undefined; whole = reader.take())
          read.push(Buffer.from(whole));
      }
      expect(read).toEqual(messages);
      expect(reader.bytes).toBe(0);
    }),
    { numRuns: times(25, 100) },
  );
});

test.each([0, 15, -1, MAX_MESSAGE_BYTES + 1])(
  "a message of %d bytes is refused as soon as its length is read",
  (length) => {
    const reader = new MessageReader();
    const bytes = int32(length);
    reader.add(bytes.subarray(0, 3));
    expect(reader.take()).toBeUndefined();
    reader.add(bytes.subarray(3));
    expect(() => reader.take()).toThrow(WireError);
  },
);
