/** The official driver of npm: what documents are, and how they are found. */
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
  ObjectId,
  Timestamp,
  UUID,
} from "mongodb";
import { describe, expect, test } from "vitest";
import { errorOf, useMongo } from "./support.ts";

const { client, fresh } = useMongo();

describe("documents", () => {
  test("come back with every BSON type that they were stored with", async () => {
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
  ])("are found, changed and deleted by an _id that is %s", async (_what, id) => {
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

  test("have their _id in the first place, whoever made it", async () => {
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

  test("with equal numbers of different types have the same _id, and near ones have not", async () => {
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

  test("that can't be stored are refused, each with its error", async () => {
    const collection = fresh();
    expect(await errorOf(collection.insertOne({ _id: [1] } as Document))).toMatchObject({ code: 53 });
    expect(await errorOf(collection.insertOne({ $a: 1 }))).toMatchObject({ code: 52 });
    const large = { text: "x".repeat(16 * 1024 * 1024) };
    expect((await errorOf(collection.insertOne(large))).message).toMatch(
      /larger than|too large|out of range/,
    );
  });
});

describe("find", () => {
  test("filters, sorts, skips, limits and projects", async () => {
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
      code: 238,
    });
  });

  test("sorts values of all types in MongoDB's order", async () => {
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

  test("compares within types: numbers of any kind, dates, ids", async () => {
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
    expect(await count({ n: { $type: "date" } })).toBe(1);
    expect(await count({ _id: { $type: "objectId" } })).toBe(7);
  });

  test("fetches a large result in many batches, each document once", async () => {
    const collection = fresh();
    const text = "x".repeat(1000);
    await collection.insertMany(Array.from({ length: 2500 }, (_, n) => ({ n, text })));
    for (const sort of [{}, { n: -1 }] as Document[]) {
      const found = await collection.find({}, { batchSize: 37, sort }).toArray();
      expect(found.map(({ n }) => n).sort((a, b) => a - b)).toEqual(
        Array.from({ length: 2500 }, (_, n) => n),
      );
    }
    const large = await collection.aggregate([{ $match: { n: { $gte: 10 } } }], { batchSize: 500 }).toArray();
    expect(large).toHaveLength(2490);
  });

  test("keeps a cursor over writes, and loses one that was killed", async () => {
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

  test("ends a search that takes longer than maxTimeMS", async () => {
    const collection = fresh();
    await collection.insertMany(Array.from({ length: 20_000 }, (_, n) => ({ n })));
    expect(await errorOf(collection.find({ n: -1 }, { maxTimeMS: 1 }).toArray())).toMatchObject({
      code: 50,
      codeName: "MaxTimeMSExpired",
    });
  });
});
