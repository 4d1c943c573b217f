/** The document database as a process: arguments, exit codes, signals, its lock, its log and its metrics. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { logLines, temporaryFolder, until } from "./service-process.ts";
import { testStarts } from "./start-tests.ts";
import { clientOf, MAIN, startMongo } from "./support.ts";

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder("mongo-process");
});
afterEach(() => folder.remove());

const lines = (text: string) => text.trimEnd().split("\n");

describe("start", () => {
  testStarts(
    {
      main: MAIN,
      file: "documents.lmdb",
      portOptions: ["--port", "--metrics-port"],
      start: async (data) => {
        const { service, port, metricsPort } = await startMongo(data);
        const msg = `mongo listens on mongodb://127.0.0.1:${port}`;
        return { service, firstLine: { service: "mongo", msg, port, metricsPort } };
      },
    },
    () => folder.path,
  );
});

describe("SIGTERM", () => {
  it("lets a write that runs be finished, and what was acknowledged is there after it", async () => {
    const { service, port } = await startMongo(folder.path);
    const client = clientOf(port);
    const collection = client.db("d").collection("c");
    await collection.insertMany(Array.from({ length: 10_000 }, (_, n) => ({ n })));
    const updating = collection.updateMany({}, { $set: { changed: true } });
    // It has begun when the first of its transactions is on disk.
    await until(async () => (await collection.countDocuments({ n: 0, changed: true })) === 1);
    const ended = service.kill("SIGTERM");
    expect((await updating).modifiedCount).toBe(10_000);
    expect(await ended).toBe(0);
    await client.close();
    const again = await startMongo(folder.path);
    const reader = clientOf(again.port);
    expect(await reader.db("d").collection("c").countDocuments({ changed: true })).toBe(10_000);
    await reader.close();
    await again.service.kill("SIGTERM");
  });
});

describe("what can be observed", () => {
  it("has a line a command with the request's id, and no document", async () => {
    const { service, port } = await startMongo(folder.path);
    const client = clientOf(port);
    const collection = client.db("shop").collection("orders");
    await collection.insertOne({ secret: "the launch code" }, { comment: "req-1" });
    await collection.findOne({ secret: "the launch code" }, { comment: "req-2" });
    await collection.distinct("secret", {}, { comment: "x".repeat(5000) }).catch(() => undefined);
    await client.close();
    await service.kill("SIGTERM");
    const commands = logLines(service.output.stdout).filter(({ msg }) => msg === "command");
    expect(commands).toMatchObject([
      {
        service: "mongo",
        level: 30,
        requestId: "req-1",
        command: "insert",
        database: "shop",
        collection: "orders",
      },
      { requestId: "req-2", command: "find", milliseconds: expect.any(Number) },
      { requestId: "x".repeat(100), command: "distinct", level: 40, code: 59 },
    ]);
    expect(service.output.stdout).not.toContain("launch code");
  });

  it("is at /metrics and /healthz, with no client's text in a label", async () => {
    const { service, port, metricsPort } = await startMongo(folder.path);
    const client = clientOf(port);
    await client.db("d").collection("c").insertMany([{}, {}]);
    await client
      .db("d")
      .command({ 'evil"} 1': 1 })
      .catch(() => undefined);
    const read = (path: string, method = "GET") =>
      fetch(`http://127.0.0.1:${metricsPort}${path}`, { method });
    expect(await (await read("/healthz")).json()).toEqual({ status: "ok" });
    expect((await read("/other")).status).toBe(404);
    expect((await read("/metrics", "POST")).status).toBe(404);
    const text = await (await read("/metrics")).text();
    for (const line of [
      'mongo_commands_total{command="insert",ok="1"} 1',
      'mongo_commands_total{command="unknown",ok="0"} 1',
      'mongo_command_duration_seconds_count{command="insert"} 1',
      "mongo_documents 2",
      "mongo_open_cursors 0",
      "mongo_unsent_reply_bytes 0",
    ]) {
      expect(lines(text)).toContain(line);
    }
    expect(text).toMatch(/^mongo_store_bytes [1-9]\d+$/m);
    expect(text).toMatch(/^mongo_connections [1-9]$/m);
    expect(text).not.toContain("evil");
    await client.close();
    await service.kill("SIGTERM");
  });
});
