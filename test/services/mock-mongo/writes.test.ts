/** The official driver of npm: what writes do, and what indexes keep them from. */
import { type Document, Double, Int32, Long, type MongoBulkWriteError, MongoServerError } from "mongodb";
import { describe, expect, test } from "vitest";
import { clientOf, errorOf, useMongo } from "./support.ts";

const { client, fresh, mongo } = useMongo();

describe("writes", () => {
  test("an ordered bulk ends at its first error, an unordered one goes on", async () => {
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

  test("an update keeps the types of fields that it leaves alone, and gives those that the client sent", async () => {
    const collection = fresh();
    await collection.insertOne({ kept: new Double(1), list: [new Double(2), new Int32(3)], n: new Int32(1) });
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

  test("twenty upserts of one document at the same time make one document", async () => {
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
    ["mixes operators and fields", { $set: { a: 1 }, b: 2 }, 9],
    ["has an unknown operator", { $frob: { a: 1 } }, 9],
    ["writes twice to one place", { $set: { a: 1 }, $inc: { a: 1 } }, 40],
    ["writes within what it writes", { $set: { a: 1, "a.b": 1 } }, 40],
    ["goes through a number", { $set: { "n.x": 1 } }, 28],
    ["adds to a text", { $inc: { text: 1 } }, 14],
    ["pushes to a number", { $push: { n: 1 } }, 2],
    ["is positional", { $set: { "list.$": 1 } }, 238],
    ["is a pipeline", [{ $set: { a: 1 } }], 238],
  ])("an update that %s is refused and changes nothing", async (_what, change, code) => {
    const collection = fresh();
    const document = { _id: 1 as never, n: 1, text: "x", list: [1] };
    await collection.insertOne(document);
    const command = { update: collection.collectionName, updates: [{ q: { _id: 1 }, u: change }] };
    const { writeErrors } = await client().db("test").command(command);
    expect(writeErrors).toMatchObject([{ index: 0, code }]);
    expect(await collection.findOne()).toEqual(document);
  });

  test("unacknowledged writes are done and not answered, and the connection goes on", async () => {
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
});

describe("collections and indexes", () => {
  test("are made, listed in batches, and dropped", async () => {
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

  test("a unique index refuses what is there twice, by elements where there is a list", async () => {
    const collection = fresh();
    await collection.insertMany([{ tags: ["a", "b"] }, { tags: "c" }]);
    expect(await collection.createIndex({ tags: 1 }, { unique: true })).toBe("tags_1");
    expect(await collection.createIndex({ tags: 1 }, { unique: true })).toBe("tags_1");
    const error = (await collection
      .insertOne({ tags: ["x", "b"] })
      .catch((caught) => caught)) as MongoServerError;
    expect(error).toBeInstanceOf(MongoServerError);
    expect(error).toMatchObject({ code: 11000, keyPattern: { tags: 1 }, keyValue: { tags: "b" } });
    await collection.insertOne({ tags: ["x", "x"] });
    await collection.insertOne({});
    expect(await errorOf(collection.insertOne({ other: 1 }))).toMatchObject({ code: 11000 });
    expect(await errorOf(collection.updateOne({ tags: "c" }, { $set: { tags: "a" } }))).toMatchObject({
      code: 11000,
    });
    await collection.deleteOne({ tags: "a" });
    await collection.updateOne({ tags: "c" }, { $set: { tags: "a" } });
    await collection.dropIndex("tags_1");
    await collection.insertMany([{ tags: "a" }, {}]);
    expect(await errorOf(collection.createIndex({ tags: 1 }, { unique: true }))).toMatchObject({
      code: 11000,
    });
    expect((await collection.indexes()).map(({ name }) => name)).toEqual(["_id_"]);
  });

  test.each([
    ["of another kind", { key: { a: "text" }, name: "t" }, 67],
    ["with an option that is not there", { key: { a: 1 }, name: "a", expireAfterSeconds: 5 }, 67],
    ["with another index's name", { key: { b: 1 }, name: "n_1" }, 86],
    ["that is there by another name", { key: { n: 1 }, name: "other" }, 85],
  ])("an index %s is refused", async (_what, index, code) => {
    const collection = fresh();
    await collection.createIndex({ n: 1 });
    const command = { createIndexes: collection.collectionName, indexes: [index] };
    expect(await errorOf(client().db("test").command(command))).toMatchObject({ code });
  });
});
