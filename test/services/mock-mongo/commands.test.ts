/** The official driver of npm: aggregation, and what there is besides. */
import { type Document, Double, Long } from "mongodb";
import { describe, expect, test } from "vitest";
import { errorOf, useMongo } from "./support.ts";

const { client, fresh } = useMongo();

describe("aggregate", () => {
  test("matches, sorts, limits, projects and groups", async () => {
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

  test("keeps whole documents and 64-bit integers as they are", async () => {
    const collection = fresh();
    const big = Long.fromNumber(5_000_000_000);
    await collection.insertMany([{ big, double: new Double(1) }]);
    const typed = { promoteValues: false, promoteLongs: false };
    const [whole] = await collection.aggregate([{ $sort: { big: 1 } }], typed).toArray();
    expect(whole).toMatchObject({ big, double: new Double(1) });
    expect(await collection.aggregate([{ $group: { _id: "$big" } }], typed).toArray()).toEqual([
      { _id: big },
    ]);
  });

  test("refuses what it can't do, on an empty collection as well", async () => {
    const run = (pipeline: Document[]) => errorOf(fresh().aggregate(pipeline).toArray());
    expect(await run([{ $lookup: { from: "x", as: "y" } }])).toMatchObject({ code: 40324 });
    expect(await run([{ $match: { a: { $frob: 1 } } }])).toMatchObject({ code: 2 });
    expect(await run([{ $group: { total: { $sum: 1 } } }])).toMatchObject({ code: 2 });
    expect(await run([{ $limit: -1 }])).toMatchObject({ code: 2 });
    expect(await run([{ $match: {}, $limit: 1 }])).toMatchObject({ code: 9 });
    expect(
      await run([{ $project: { x: { $function: { body: "1", args: [], lang: "js" } } } }]),
    ).toMatchObject({
      code: 2,
    });
  });
});

describe("the rest", () => {
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

  test("a command that is not there is MongoDB's own error 59, an option that is not there an error too", async () => {
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
});
