/** The document database with the official drivers of npm and PyPI. */
import { EJSON, serialize } from "bson";
import {
  Binary,
  BSONRegExp,
  Decimal128,
  type Document,
  Double,
  Int32,
  Long,
  MaxKey,
  MinKey,
  type MongoBulkWriteError,
  ObjectId,
  Timestamp,
  UUID,
} from "mongodb";
import { describe, expect, test } from "vitest";
import { pythonMissing, runPython } from "../databases.ts";
import { clientOf, errorOf, useMongo, withMongo } from "./support.ts";

const { client, fresh } = useMongo();

test("a document comes back with every BSON type that it was stored with", async () => {
  const collection = fresh();
  const document = {
    _id: new ObjectId(),
    int: new Int32(1),
    double: new Double(1),
    long: Long.fromString("9007199254740993"),
    smallLong: Long.fromNumber(5),
    decimal: Decimal128.fromString("1.50"),
    text: "ä𝄞\u0000",
    bytes: new Binary(Buffer.from([0, 255, 1]), 0x80),
    uuid: new UUID(),
    date: new Date(-1),
    nothing: null,
    yes: true,
    pattern: new BSONRegExp("a.b", "isx"),
    timestamp: new Timestamp({ t: 7, i: 9 }),
    least: new MinKey(),
    most: new MaxKey(),
    list: [new Double(2), [new Int32(3)], {}],
    inner: { b: new Int32(1), a: new Double(-0) },
  };
  const typed = { promoteValues: false, promoteLongs: false, bsonRegExp: true };
  await collection.insertOne(document);
  expect(await collection.findOne({}, typed)).toEqual(document);
  await collection.insertMany([{ ...document, _id: new ObjectId(), n: 2 }, { n: 3 }]);
  expect(await collection.findOne({ n: 2 }, { ...typed, projection: { _id: 0, n: 0 } })).toEqual({
    ...document,
    _id: undefined,
  });
  expect(Object.keys((await collection.findOne({ n: 2 })) ?? {})).toEqual([...Object.keys(document), "n"]);
});

test.each([
  ["a string", "x"],
  ["a number", 5],
  ["a 64-bit integer beyond 2^53", Long.fromString("9007199254740993")],
  ["a UUID", new UUID("5c56c793-69f3-4fbf-87e6-c4bf54c28c26")],
  ["a date", new Date(0)],
  ["a document", { a: 1, b: [2] }],
  ["null", null],
  ["true", true],
])("a document is found, changed and deleted by an _id that is %s", async (_what, id) => {
  const collection = fresh();
  const filter = { _id: id } as Document;
  await collection.insertMany([{ _id: "other" } as Document, filter]);
  expect(await collection.countDocuments(filter)).toBe(1);
  expect(await errorOf(collection.insertOne(filter))).toMatchObject({ code: 11000 });
  expect(await collection.updateOne(filter, { $set: { n: 1 } })).toMatchObject({ modifiedCount: 1 });
  expect(await collection.findOne({ n: 1 })).toMatchObject({ n: 1 });
  expect(await collection.deleteOne(filter)).toMatchObject({ deletedCount: 1 });
  expect(await collection.distinct("_id").catch(() => collection.find().toArray())).toMatchObject([
    { _id: "other" },
  ]);
});

test("the _id is a document's first field, whether client or server created it", async () => {
  const collection = fresh();
  const documents = [{ a: new Double(1), _id: 1 }, { b: 2 }, { "2": 1, c: 3, _id: "x" }];
  await client().db("test").command({ insert: collection.collectionName, documents });
  const found = await collection.find({}, { raw: true, promoteValues: false }).toArray();
  const names = found.map((bytes) =>
    Buffer.from(bytes as never)
      .toString("latin1")
      .slice(5, 8),
  );
  expect(names).toEqual(["_id", "_id", "_id"]);
  expect(await collection.findOne({ _id: 1 as never }, { promoteValues: false })).toEqual({
    _id: new Int32(1),
    a: new Double(1),
  });
  expect(await collection.findOne({ b: 2 })).toMatchObject({ _id: expect.any(ObjectId) });
});

test("equal numbers of different types are the same _id, and close numbers are not", async () => {
  const collection = fresh();
  await collection.insertOne({ _id: new Double(1) } as Document);
  expect(await errorOf(collection.insertOne({ _id: Long.fromNumber(1) } as Document))).toMatchObject({
    code: 11000,
  });
  await collection.insertOne({ _id: Long.fromString("9007199254740993") } as Document);
  await collection.insertOne({ _id: Long.fromString("9007199254740995") } as Document);
  await collection.insertOne({ _id: new Timestamp(Long.ONE) } as Document);
  expect(await collection.countDocuments()).toBe(4);
});

test("an invalid document is refused with its error", async () => {
  const collection = fresh();
  expect(await errorOf(collection.insertOne({ _id: [1] } as Document))).toMatchObject({ code: 53 });
  expect(await errorOf(collection.insertOne({ $a: 1 }))).toMatchObject({ code: 52 });
  expect(await errorOf(collection.insertOne({ _id: { $a: 1 } } as Document))).toMatchObject({ code: 52 });
  const large = { text: "x".repeat(16 * 1024 * 1024) };
  expect((await errorOf(collection.insertOne(large))).message).toMatch(/larger than|too large|out of range/);
});

test("find filters, sorts, skips, limits and projects", async () => {
  const collection = fresh();
  await collection.insertMany(
    Array.from({ length: 20 }, (_, n) => ({ _id: n as never, n, odd: n % 2 === 1, deep: { n: -n } })),
  );
  const found = await collection
    .find({ odd: true, "deep.n": { $lte: -5 } })
    .sort({ n: -1 })
    .skip(1)
    .limit(2)
    .project({ _id: 0, n: 1 })
    .toArray();
  expect(found).toEqual([{ n: 17 }, { n: 15 }]);
  expect(await collection.find({}, { sort: { $natural: -1 }, limit: 1 }).toArray()).toMatchObject([
    { n: 19 },
  ]);
  expect(await errorOf(collection.find({ n: { $near: 1 } }).toArray())).toMatchObject({ code: 2 });
  expect(await errorOf(collection.find({ $where: "1" }).toArray())).toMatchObject({ code: 2 });
  expect(await errorOf(collection.find({}, { collation: { locale: "de" } }).toArray())).toMatchObject({
    code: 40415,
  });
});

test.each<[Document, Document]>([
  [{ _id: 1 }, { _id: new Int32(1) }],
  [{ _id: 0, a: 1 }, { a: new Double(1) }],
  [
    { a: true, none: 1 },
    { _id: 1, a: new Double(1) },
  ],
  [{ _id: 0, "b.c": 1 }, { b: [{ c: new Double(2) }, {}] }],
  [{ _id: 0, e: { f: { g: 1 } } }, { e: { f: { g: new Double(3) } } }],
  [{ a: 2, _id: 0 }, { a: new Double(1) }],
  [{ _id: 0, "b.d": true }, { b: [{}, { d: "d" }] }],
  [{ _id: 0, "e.f.g": 1 }, { e: { f: { g: new Double(3) } } }],
  [{ _id: 0, "a.x": 1 }, {}],
  [{ _id: 0, b: 0, e: 0 }, { a: new Double(1) }],
  [
    { _id: false, a: false, "b.c": 0, "e.f.g": 0 },
    { b: [{}, new Int32(5), { d: "d" }], e: { f: {}, h: new Double(4) } },
  ],
])("the projection %j keeps the fields that it names, with their types", async (projection, expected) => {
  const collection = fresh();
  await collection.insertOne({
    _id: 1 as never,
    a: new Double(1),
    b: [{ c: new Double(2) }, 5, { d: "d" }],
    e: { f: { g: new Double(3) }, h: new Double(4) },
  });
  const typed = { promoteValues: false };
  const text = (document: unknown) => EJSON.stringify(document, { relaxed: false });
  const wanted = text(expected);
  for (const sort of [{}, { a: 1 }, { "e.h": -1 }] as Document[]) {
    expect(text(await collection.findOne({ "e.h": 4 }, { ...typed, projection, sort }))).toBe(wanted);
  }
  const [aggregated] = await collection.aggregate([{ $project: projection }], typed).toArray();
  expect(text(aggregated)).toBe(wanted);
  const raw: unknown = await collection.findOne({}, { projection, raw: true });
  expect(raw).toEqual(Buffer.from(serialize(expected)));
});

test("find filters and sorts by fields that it does not return", async () => {
  const collection = fresh();
  await collection.insertMany(
    Array.from({ length: 40 }, (_, n) => ({ _id: n as never, a: { n }, kind: n % 2, text: `t${n}` })),
  );
  const found = collection.find(
    { kind: 1, $or: [{ "a.n": { $lt: 5 } }, { text: "t39" }] },
    { sort: { kind: 1, "a.n": -1 }, projection: { _id: 0, text: 1 } },
  );
  expect(await found.toArray()).toEqual([{ text: "t39" }, { text: "t3" }, { text: "t1" }]);
  expect(await collection.find({ "a.n": { $gte: 38 } }, { projection: { a: 0, kind: 0 } }).toArray()).toEqual(
    [
      { _id: 38, text: "t38" },
      { _id: 39, text: "t39" },
    ],
  );
});

test("find sorts values of all types in MongoDB's order", async () => {
  const collection = fresh();
  const inOrder = [
    new MinKey(),
    null,
    -1,
    1.5,
    Long.fromString("9007199254740993"),
    "B",
    "a",
    "\uffff",
    "𝄞",
    { a: 1 },
    { a: 2 },
    new Binary(Buffer.from("b")),
    new Binary(Buffer.from("aa")),
    new ObjectId("000000000000000000000001"),
    false,
    true,
    new Date(0),
    new Timestamp({ t: 1, i: 1 }),
    new BSONRegExp("a"),
    new MaxKey(),
  ];
  const places = inOrder.map((_, place) => place);
  const mixed = places.toSorted((a, b) => ((a * 7) % 20) - ((b * 7) % 20));
  await collection.insertMany(mixed.map((place) => ({ place, value: inOrder[place] })));
  const read = async (direction: 1 | -1) =>
    (await collection.find().sort({ value: direction }).toArray()).map(({ place }) => place);
  expect(await read(1)).toEqual(places);
  expect(await read(-1)).toEqual(places.toReversed());
  const aggregated = await collection.aggregate([{ $sort: { value: 1 } }]).toArray();
  expect(aggregated.map(({ place }) => place)).toEqual(places);
});

test("a read concern that a standalone server does not support is refused", async () => {
  const collection = fresh();
  await collection.insertOne({ n: 1 });
  const read = (level: string) => collection.find({}, { readConcern: { level: level as never } }).toArray();
  for (const level of ["local", "majority"]) expect(await read(level)).toMatchObject([{ n: 1 }]);
  for (const level of ["snapshot", "sometimes"]) {
    expect(await errorOf(read(level))).toMatchObject({
      code: 2,
      message: `The read concern '${level}' is not supported by this server`,
    });
  }
  expect(
    await errorOf(
      client()
        .db("test")
        .aggregate([{ $match: {} }])
        .toArray(),
    ),
  ).toMatchObject({
    code: 73,
    message: "A pipeline of a database is not supported by this server; name a collection",
  });
});

test("documents are equal when their fields have the same values in the same order", async () => {
  const collection = fresh();
  const size = { h: 14, w: 21 };
  await collection.insertMany([{ size }, { size: [{ w: 1, h: 2 }, size] }, { size: 7 }]);
  const count = (filter: Document) => collection.countDocuments(filter);
  const turned = { w: 21, h: 14 };
  expect([await count({ size }), await count({ size: turned })]).toEqual([2, 0]);
  expect([await count({ size: { $in: [7, size] } }), await count({ size: { $in: [turned, 7] } })]).toEqual([
    3, 1,
  ]);
  expect([await count({ size: { $ne: size } }), await count({ size: { $nin: [turned] } })]).toEqual([1, 3]);
  expect(await count({ size: [{ w: 1, h: 2 }, size] })).toBe(1);
});

test("find compares within types: numbers of any kind, dates, ids", async () => {
  const collection = fresh();
  const big = Long.fromString("9007199254740993");
  await collection.insertMany([
    { n: 1 },
    { n: big },
    { n: "5" },
    { n: new Date(5) },
    { n: [0, 9] },
    { n: null },
    {},
  ]);
  const count = (filter: Document) => collection.countDocuments(filter);
  expect(await count({ n: { $gt: 5 } })).toBe(2);
  expect(await count({ n: { $gte: big } })).toBe(1);
  expect(await count({ n: { $lt: "6" } })).toBe(1);
  expect(await count({ n: { $gt: new Date(0) } })).toBe(1);
  expect(await count({ n: null })).toBe(2);
  expect(await count({ n: { $lte: null } })).toBe(2);
  for (const type of ["date", "objectId", 7]) {
    expect(await errorOf(count({ n: { $type: type } }))).toMatchObject({ code: 2 });
  }
});

test("find fetches a large result in many batches, each document once", async () => {
  const collection = fresh();
  const text = "x".repeat(1000);
  await collection.insertMany(Array.from({ length: 2500 }, (_, n) => ({ n, text })));
  for (const sort of [{}, { n: -1 }] as Document[]) {
    const found = await collection.find({}, { batchSize: 37, sort }).toArray();
    expect(found.map(({ n }) => n).sort((a, b) => a - b)).toEqual(Array.from({ length: 2500 }, (_, n) => n));
  }
  const large = await collection.aggregate([{ $match: { n: { $gte: 10 } } }], { batchSize: 500 }).toArray();
  expect(large).toHaveLength(2490);
});

test("a cursor survives writes, and is not found after it was killed", async () => {
  const collection = fresh();
  await collection.insertMany(Array.from({ length: 300 }, (_, n) => ({ n })));
  const cursor = collection.find({}, { batchSize: 10 });
  await cursor.next();
  await collection.deleteMany({ n: { $gte: 100 } });
  expect(await cursor.toArray()).toHaveLength(99);
  const other = collection.find({}, { batchSize: 10 });
  await other.next();
  await client()
    .db("test")
    .command({ killCursors: collection.collectionName, cursors: [other.id] });
  expect(await errorOf(other.toArray())).toMatchObject({ code: 43, codeName: "CursorNotFound" });
});

test("a search that takes longer than maxTimeMS ends with its error", async () => {
  const collection = fresh();
  await collection.insertMany(Array.from({ length: 20_000 }, (_, n) => ({ n })));
  expect(await errorOf(collection.find({ n: -1 }, { maxTimeMS: 1 }).toArray())).toMatchObject({
    code: 50,
    codeName: "MaxTimeMSExpired",
  });
});

describe("writes", () => {
  const { client, fresh, mongo } = useMongo();

  test("an ordered bulk ends at its first error, and an unordered bulk continues", async () => {
    const documents = [{ _id: 1 }, { _id: 1 }, { _id: 2 }, { _id: 2 }, { _id: 3 }] as Document[];
    for (const [ordered, inserted, failed] of [
      [true, 1, [1]],
      [false, 3, [1, 3]],
    ] as const) {
      const collection = fresh();
      const error = (await collection
        .insertMany(documents, { ordered })
        .catch((caught) => caught)) as MongoBulkWriteError;
      expect(error).toMatchObject({ name: "MongoBulkWriteError", code: 11000, insertedCount: inserted });
      expect([error.writeErrors].flat().map(({ index }) => index)).toEqual(failed);
      expect(await collection.countDocuments()).toBe(inserted);
    }
  });

  test("a bulk of every kind reports what it did", async () => {
    const collection = fresh();
    await collection.insertMany([{ n: 1 }, { n: 2 }, { n: 3 }]);
    const result = await collection.bulkWrite([
      { insertOne: { document: { n: 4 } } },
      { updateMany: { filter: { n: { $gt: 1 } }, update: { $inc: { n: 10 } } } },
      { updateOne: { filter: { n: 99 }, update: { $set: { a: 1 } }, upsert: true } },
      { replaceOne: { filter: { n: 12 }, replacement: { n: 0 } } },
      { deleteMany: { filter: { n: { $gte: 13 } } } },
    ]);
    expect(result).toMatchObject({
      insertedCount: 1,
      matchedCount: 4,
      modifiedCount: 4,
      upsertedCount: 1,
      deletedCount: 3,
    });
    const found = await collection.find({}, { projection: { _id: 0 } }).toArray();
    expect(found).toEqual([{ n: 1 }, { n: 0 }]);
  });

  test("an update keeps the types of fields that it does not change, and stores those that the client sent", async () => {
    const collection = fresh();
    await collection.insertOne({
      kept: new Double(1),
      list: [new Double(2), new Int32(3)],
      n: new Int32(1),
    });
    await collection.updateOne({}, {
      $set: { "deep.er": Long.fromNumber(5), whole: new Double(4) },
      $inc: { n: new Double(1) },
      $push: { list: new Double(4) },
    } as Document);
    expect(
      await collection.findOne({}, { promoteValues: false, promoteLongs: false, projection: { _id: 0 } }),
    ).toEqual({
      kept: new Double(1),
      list: [new Double(2), new Int32(3), new Double(4)],
      n: new Double(2),
      deep: { er: Long.fromNumber(5) },
      whole: new Double(4),
    });
  });

  test("an upsert takes equalities of its filter, defaults and changes", async () => {
    const collection = fresh();
    const result = await collection.updateOne(
      { _id: "a" as never, "b.c": { $eq: 1 }, d: { $gt: 5 }, $and: [{ e: Long.fromNumber(3) }] },
      { $set: { f: 1 }, $setOnInsert: { g: new Double(2) } },
      { upsert: true },
    );
    expect(result).toMatchObject({ upsertedId: "a", upsertedCount: 1, matchedCount: 0 });
    expect(await collection.findOne({}, { promoteValues: false, promoteLongs: false })).toEqual({
      _id: "a",
      b: { c: new Int32(1) },
      e: Long.fromNumber(3),
      f: new Int32(1),
      g: new Double(2),
    });
    const again = await collection.updateOne(
      { _id: "a" as never },
      { $set: { f: 1 }, $setOnInsert: { g: 9 } },
      { upsert: true },
    );
    expect(again).toMatchObject({ matchedCount: 1, modifiedCount: 0, upsertedCount: 0 });
    const replaced = await collection.replaceOne({ _id: "b" as never }, { x: 1 }, { upsert: true });
    expect(replaced.upsertedId).toBe("b");
  });

  test("an upsert can't insert another _id than its filter has", async () => {
    const collection = fresh();
    for (const change of [{ $set: { _id: 10 } }, { _id: 10, a: 1 }]) {
      const updates = [{ q: { _id: 9 }, u: change, upsert: true }];
      const { writeErrors } = await client()
        .db("test")
        .command({ update: collection.collectionName, updates });
      expect(writeErrors).toMatchObject([{ code: 66 }]);
    }
    expect(await collection.countDocuments()).toBe(0);
  });

  test("$pull with a regular expression removes the texts that it matches", async () => {
    const collection = fresh();
    await collection.insertOne({ list: ["ab", "b", 1] });
    await collection.updateOne({}, { $pull: { list: /^a/ } } as never);
    expect(await collection.findOne({}, { projection: { _id: 0 } })).toEqual({ list: ["b", 1] });
  });

  test("twenty concurrent upserts of one document create one document", async () => {
    const collection = fresh();
    await Promise.all(
      Array.from({ length: 20 }, () =>
        collection.updateOne({ _id: "counter" as never }, { $inc: { n: 1 } }, { upsert: true }),
      ),
    );
    expect(await collection.find().toArray()).toEqual([{ _id: "counter", n: 20 }]);
  });

  test.each([
    ["changes _id", { $set: { _id: 9 } }, 66],
    ["has an unknown operator", { $frob: { a: 1 } }, 9],
    ["writes within what it writes", { $set: { a: 1, "a.b": 1 } }, 40],
    ["is positional", { $set: { "list.$": 1 } }, 238],
    ["is a pipeline", [{ $set: { a: 1 } }], 238],
  ])("an update that %s is refused and changes nothing", async (_what, change, code) => {
    const collection = fresh();
    const document = { _id: 1 as never, n: 1, list: [1] };
    await collection.insertOne(document);
    const command = { update: collection.collectionName, updates: [{ q: { _id: 1 }, u: change }] };
    const { writeErrors } = await client().db("test").command(command);
    expect(writeErrors).toMatchObject([{ index: 0, code }]);
    expect(await collection.findOne()).toEqual(document);
  });

  test("unacknowledged writes have no reply, and the connection stays usable", async () => {
    const collection = fresh();
    const single = clientOf(mongo().port, { maxPoolSize: 1 });
    try {
      const silent = single.db("test").collection(collection.collectionName, { writeConcern: { w: 0 } });
      for (let n = 0; n < 50; n++) await silent.insertOne({ n });
      expect(await single.db("test").collection(collection.collectionName).countDocuments()).toBe(50);
    } finally {
      await single.close();
    }
    expect(await errorOf(collection.insertOne({}, { writeConcern: { w: 2 } }))).toMatchObject({ code: 2 });
  });

  test("collections are created, listed in batches, and dropped", async () => {
    const database = client().db("many");
    const names = Array.from({ length: 150 }, (_, n) => `c${n}𝄞`);
    await Promise.all(names.map((name) => database.createCollection(name)));
    const listed = await database.listCollections({}, { nameOnly: true, batchSize: 40 }).toArray();
    expect(listed.map(({ name }) => name).sort()).toEqual(names.toSorted());
    expect(await database.listCollections({ name: "c7𝄞" }).toArray()).toMatchObject([
      { name: "c7𝄞", type: "collection" },
    ]);
    expect(await errorOf(database.createCollection("c1𝄞"))).toMatchObject({ code: 48 });
    expect((await client().db().admin().listDatabases()).databases.map(({ name }) => name)).toContain("many");
    await database.dropDatabase();
    expect(await database.listCollections().toArray()).toEqual([]);
  });

  test("an index is listed and dropped; a unique index is refused", async () => {
    const collection = fresh();
    expect(await collection.createIndex({ tags: 1, "a.b": -1 })).toBe("tags_1_a.b_-1");
    expect(await collection.createIndex({ tags: 1, "a.b": -1 })).toBe("tags_1_a.b_-1");
    expect(await collection.createIndex({ _id: 1 })).toBe("_id_1");
    expect(await errorOf(collection.createIndex({ tags: 1 }, { unique: true }))).toMatchObject({
      code: 67,
      message: expect.stringContaining("unique"),
    });
    expect((await collection.indexes()).map(({ name, key }) => [name, key])).toEqual([
      ["_id_", { _id: 1 }],
      ["tags_1_a.b_-1", { tags: 1, "a.b": -1 }],
    ]);
    await collection.dropIndex("tags_1_a.b_-1");
    expect((await collection.indexes()).map(({ name }) => name)).toEqual(["_id_"]);
    expect(await errorOf(collection.dropIndex("tags_1_a.b_-1"))).toMatchObject({ code: 27 });
  });

  test.each([
    ["of another kind", { key: { a: "text" }, name: "t" }, 67],
    ["with an option that is not there", { key: { a: 1 }, name: "a", expireAfterSeconds: 5 }, 67],
    ["with another index's name", { key: { b: 1 }, name: "n_1" }, 86],
  ])("an index %s is refused", async (_what, index, code) => {
    const collection = fresh();
    await collection.createIndex({ n: 1 });
    const command = { createIndexes: collection.collectionName, indexes: [index] };
    expect(await errorOf(client().db("test").command(command))).toMatchObject({ code });
  });
});

test("aggregate matches, sorts, limits, projects and groups", async () => {
  const collection = fresh();
  await collection.insertMany(
    Array.from({ length: 12 }, (_, n) => ({ n, kind: ["a", "b", "c"][n % 3], at: new Date(n) })),
  );
  const groups = await collection
    .aggregate([
      { $match: { n: { $lt: 9 } } },
      { $group: { _id: "$kind", total: { $sum: "$n" }, count: { $sum: 1 }, last: { $max: "$at" } } },
      { $sort: { total: -1 } },
      { $limit: 2 },
      { $project: { _id: 0, kind: "$_id", total: 1, count: 1, last: 1 } },
    ])
    .toArray();
  expect(groups).toEqual([
    { kind: "c", total: 15, count: 3, last: new Date(8) },
    { kind: "b", total: 12, count: 3, last: new Date(7) },
  ]);
  expect(await collection.aggregate([{ $skip: 10 }, { $project: { n: 1, _id: 0 } }]).toArray()).toEqual([
    { n: 10 },
    { n: 11 },
  ]);
  expect(await collection.countDocuments({ kind: "a" }, { skip: 1, limit: 2 })).toBe(2);
  expect(await collection.countDocuments({ kind: "z" })).toBe(0);
  expect(await collection.estimatedDocumentCount()).toBe(12);
});

test("aggregate keeps complete documents and 64-bit integers unchanged", async () => {
  const collection = fresh();
  const big = Long.fromNumber(5_000_000_000);
  await collection.insertMany([{ big, double: new Double(1) }]);
  const typed = { promoteValues: false, promoteLongs: false };
  const [whole] = await collection.aggregate([{ $sort: { big: 1 } }], typed).toArray();
  expect(whole).toMatchObject({ big, double: new Double(1) });
  expect(await collection.aggregate([{ $group: { _id: "$big" } }], typed).toArray()).toEqual([{ _id: big }]);
});

test("aggregate refuses unsupported stages, on an empty collection as well", async () => {
  const run = (pipeline: Document[]) => errorOf(fresh().aggregate(pipeline).toArray());
  expect(await run([{ $lookup: { from: "x", as: "y" } }])).toMatchObject({ code: 40324 });
  expect(await run([{ $match: { a: { $frob: 1 } } }])).toMatchObject({ code: 2 });
  expect(await run([{ $group: { total: { $sum: 1 } } }])).toMatchObject({ code: 2 });
  expect(await run([{ $limit: -1 }])).toMatchObject({ code: 2 });
  expect(await run([{ $match: {}, $limit: 1 }])).toMatchObject({ code: 9 });
});

test("JavaScript of a client is never run", async () => {
  const collection = fresh();
  await collection.insertOne({ a: 1 });
  const script = { body: "function () { return 1; }", args: [], lang: "js" };
  const accumulator = { init: "", accumulate: "", accumulateArgs: [], merge: "", lang: "js" };
  for (const stage of [
    { $match: { $where: "true" } },
    { $match: { $expr: { $function: script } } },
    { $match: { $or: [{ a: 2 }, { $where: "true" }] } },
    { $project: { x: { $function: script } } },
    { $group: { _id: null, x: { $accumulator: accumulator } } },
  ]) {
    expect(await errorOf(collection.aggregate([stage]).toArray())).toMatchObject({ code: 2 });
  }
  expect(await errorOf(collection.deleteMany({ $where: "true" } as Document))).toMatchObject({ code: 2 });
});

test("sessions work without transactions", async () => {
  const collection = fresh();
  await client().withSession(async (session) => {
    await collection.insertOne({ a: 1 }, { session });
    expect(await collection.findOne({}, { session })).toMatchObject({ a: 1 });
  });
  const inTransaction = client().withSession((session) =>
    session.withTransaction(() => collection.insertOne({ b: 1 }, { session })),
  );
  await expect(inTransaction).rejects.toThrow(/retryable writes|Transaction numbers/);
  expect(await collection.countDocuments()).toBe(1);
});

test("ping and buildInfo answer", async () => {
  expect(await client().db("admin").command({ ping: 1 })).toEqual({ ok: 1 });
  expect(await client().db("admin").command({ buildInfo: 1 })).toMatchObject({ version: "7.0.0" });
});

test("an unsupported command is MongoDB's own error 59, and an unsupported option is an error", async () => {
  const collection = fresh();
  await collection.insertOne({ a: 1 });
  const unsupported = [
    () => collection.distinct("a"),
    () => collection.findOneAndUpdate({}, { $set: { a: 2 } }),
    () => collection.rename("x"),
    () =>
      client()
        .db("test")
        .command({ explain: { find: "x" } }),
    () => client().db("admin").command({ serverStatus: 1 }),
    () => client().db("test").command({ constructor: 1 }),
  ];
  for (const run of unsupported) {
    expect(await errorOf(run())).toMatchObject({ code: 59, codeName: "CommandNotFound" });
  }
  expect(
    await errorOf(client().db("test").createCollection("capped", { capped: true, size: 1 })),
  ).toMatchObject({
    code: 40415,
  });
  expect(await errorOf(client().db("test").command({ find: "a$b" }))).toMatchObject({ code: 73 });
});

const missing = await pythonMissing();

test("pymongo works with the document database", async ({ skip }) => {
  skip(missing !== undefined, missing);
  await withMongo(async (_client, { port }) => {
    const { status, output } = await runPython(import.meta.dirname, "driver.py", { PORT: String(port) });
    expect(output).toMatch(/^all checks hold$/m);
    expect(status).toBe(0);
  });
});
