/** The document database as a process: arguments, exit codes, signals, its lock, its log and its metrics. */

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { logLines, startService, temporaryFolder, until } from "./service-process.ts";
import { clientOf, MAIN, startMongo } from "./support.ts";

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder("mongo-process");
});
afterEach(() => folder.remove());

const lines = (text: string) => text.trimEnd().split("\n");

describe("start", () => {
  it("says in one JSON line where it listens, and ends with 0 on SIGTERM and on SIGINT", async () => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      const { service, port, metricsPort } = await startMongo(folder.path);
      expect(logLines(service.output.stdout)).toMatchObject([
        { service: "mongo", msg: `mongo listens on mongodb://127.0.0.1:${port}`, port, metricsPort },
      ]);
      expect(await service.kill(signal)).toBe(0);
      expect(service.output.stderr).toBe("");
    }
  });

  it.each([
    ["no data directory", [], "--data is missing"],
    ["an unknown argument", ["--data", "x", "--prot", "1"], "--prot"],
    ["a wrong port", ["--data", "x", "--port", "80a"], "--port is 80a"],
    ["a port that is too large", ["--data", "x", "--metrics-port", "65536"], "--metrics-port is 65536"],
    ["a wrong level", ["--data", "x", "--log-level", "loud"], "--log-level is loud"],
  ])("ends with 1 and one sentence about %s", async (_what, args, message) => {
    const service = startService(MAIN, args);
    expect(await service.exit).toBe(1);
    expect(lines(service.output.stderr)).toHaveLength(1);
    expect(service.output.stderr).toContain(message);
  });

  it("ends with 1 and one sentence when a port is taken", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as { port: number };
    for (const option of ["--port", "--metrics-port"]) {
      const free = option === "--port" ? "--metrics-port" : "--port";
      const service = startService(MAIN, ["--data", folder.path, option, String(port), free, "0"]);
      expect(await service.exit).toBe(1);
      expect(lines(service.output.stderr)).toEqual([
        `Port ${port} of 127.0.0.1 is taken by another process; choose another one with ${option}.`,
      ]);
    }
    other.close();
  });

  it("ends with 1 and one sentence when the data can't be opened", async () => {
    const file = join(folder.path, "file");
    writeFileSync(file, "");
    const damaged = join(folder.path, "damaged");
    mkdirSync(damaged);
    writeFileSync(join(damaged, "documents.lmdb"), "no database ".repeat(1000));
    for (const data of [file, damaged]) {
      const service = startService(MAIN, ["--data", data, "--port", "0", "--metrics-port", "0"]);
      expect(await service.exit).toBe(1);
      expect(lines(service.output.stderr)).toHaveLength(1);
      expect(service.output.stderr).toMatch(/^The data in .* can't be opened: /);
    }
  });

  it("is refused while another process has the directory, by any path, and not after it was killed", async () => {
    const data = join(folder.path, "data");
    mkdirSync(data);
    const link = join(folder.path, "link");
    symlinkSync(data, link);
    const { service: first } = await startMongo(data);
    for (const path of [data, link]) {
      const second = startService(MAIN, ["--data", path, "--port", "0", "--metrics-port", "0"]);
      expect(await second.exit).toBe(1);
      expect(lines(second.output.stderr)).toEqual([
        `Another process uses the data in ${path}; stop it, or choose another directory with --data.`,
      ]);
    }
    await first.kill("SIGKILL");
    const { service: third } = await startMongo(data);
    expect(await third.kill("SIGTERM")).toBe(0);
  });
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
