/** Interrupted writes, repairs by reindexing, and unavailable databases. */
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { pointId } from "../../../containers/services/gateway/src/retrieval/vector-store.ts";
import { freePort } from "../../harness/ports.ts";
import {
  configOf,
  errorOf,
  type RunningGateway,
  sha256,
  silentPeer,
  startGateway,
} from "../gateway/support.ts";
import { temporaryFolder, until, urlIn } from "../service-process.ts";
import {
  type Fate,
  failAlways,
  failOnce,
  useFaultyDatabases,
  useMendingGateway,
} from "./faulty-databases.ts";
import {
  agree,
  agreed,
  contentsOf,
  dataUrl,
  inMongo,
  picture,
  postDocuments,
  restartableService,
  retrievalConfig,
  statusesOf,
} from "./support.ts";

const shared = useFaultyDatabases();

type Step = readonly [database: "mongo" | "vector", request: string, fate: Fate];

/** Writes and deletions that are interrupted at every step: afterwards both databases agree, and nothing acknowledged is lost. */
describe("interruptions", () => {
  const faulty = shared.inArea("interrupted");

  const { databases, mongo, vector, config, heal } = faulty;

  const { gateway, write, remove, read, found, reindex } = useMendingGateway(faulty);

  const failStep = ([database, request, fate]: Step) =>
    failAlways(database === "mongo" ? mongo() : vector(), request, fate);

  /** Interrupts the read from MongoDB that follows a change of the vectors. */
  function failLook(change: string) {
    failOnce(vector(), change, "pass", async () => {
      failAlways(mongo(), "find", "lose");
    });
  }

  test("a full vector database is not ready, and gets the vectors of written documents when it has room", async () => {
    const vectorState = async () => {
      const services = (await (await fetch(`${gateway().url}/status`)).json()) as { name: string }[];
      return services.find(({ name }) => name === "vector");
    };
    failAlways(vector(), "PUT /points", "refuse");
    const refused = await errorOf(await write({ id: "full", text: "a story about fullness" }));
    expect(refused).toMatchObject({ status: 502, code: "vector_failed" });
    await until(async () => JSON.stringify(await vectorState()).includes("a write of vectors"));
    expect(await vectorState()).toMatchObject({ state: "starting" });
    expect(await (await read("full")).json()).toMatchObject({ text: "a story about fullness" });
    heal();
    await until(async () => JSON.stringify(await vectorState()).includes('"ready"'), 100);
    expect((await found("a story about fullness"))[0]).toBe("full");
  });

  const steps: readonly Step[] = [
    ["mongo", "update", "lose"],
    ["mongo", "update", "loseAnswer"],
    ["vector", "PUT /points", "lose"],
    ["vector", "PUT /points", "loseAnswer"],
  ];

  test.each(steps)("a write of a new document survives %s %s: %s", async (...step) => {
    const id = `new-${step.join("-").replaceAll(/[^a-zA-Z]+/g, "-")}`;
    const document = { id, text: `a story about ${id}` };
    const fault = failStep(step);
    const response = await write(document);
    expect(fault.seen).toBe(true);
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await response.json()).toMatchObject({ error: { code: `${step[0]}_unavailable` } });
    // A document exists when MongoDB has it, even if vectors of it remain.
    const isPresent = step[1] !== "update" || step[2] === "loseAnswer";
    expect((await read(id)).status).toBe(isPresent ? 200 : 404);
    heal();
    await reindex();
    const contents = await contentsOf(databases());
    expect(agree(contents)).toBe(true);
    expect(contents.documents.has(id)).toBe(isPresent);
    expect((await found(document.text)).includes(id)).toBe(isPresent);
    expect(await (await write(document)).json()).toMatchObject({
      documents: [{ status: isPresent ? "unchanged" : "created" }],
    });
    expect((await found(document.text))[0]).toBe(id);
  });

  test.each(steps)("a write over an old document survives %s %s: %s", async (...step) => {
    const id = `old-${step.join("-").replaceAll(/[^a-zA-Z]+/g, "-")}`;
    await write({ id, text: "the first content" });
    const fault = failStep(step);
    expect((await write({ id, text: "the second content" })).status).toBe(503);
    expect(fault.seen).toBe(true);
    // It is never found by the vectors of another content.
    const isLost = step[1] === "update" && step[2] === "lose";
    const isIndexed = step[1] === "PUT /points" && step[2] === "loseAnswer";
    expect((await found("content")).includes(id)).toBe(isLost || isIndexed);
    heal();
    await reindex();
    const contents = await contentsOf(databases());
    expect(agree(contents)).toBe(true);
    expect(contents.documents.get(id)?.text).toBe(isLost ? "the first content" : "the second content");
  });

  test.each<Step>([
    ["mongo", "delete", "lose"],
    ["mongo", "delete", "loseAnswer"],
    ["vector", "POST /points/delete", "lose"],
    ["vector", "POST /points/delete", "loseAnswer"],
  ])("a deletion survives %s %s: %s", async (...step) => {
    const id = `gone-${step.join("-").replaceAll(/[^a-zA-Z]+/g, "-")}`;
    await write({ id, text: `soon gone ${id}` });
    const fault = failStep(step);
    expect((await remove(id)).status).toBe(503);
    expect(fault.seen).toBe(true);
    const isPresent = step[1] === "delete" && step[2] === "lose";
    expect((await read(id)).status).toBe(isPresent ? 200 : 404);
    expect((await found("soon gone")).includes(id)).toBe(isPresent);
    heal();
    await reindex();
    const contents = await contentsOf(databases());
    expect(agree(contents)).toBe(true);
    expect(contents.documents.has(id)).toBe(isPresent);
    expect((await remove(id)).status).toBe(204);
    expect((await contentsOf(databases())).documents.has(id)).toBe(false);
  });

  test("a write and a deletion that can't read from MongoDB afterwards are not acknowledged", async () => {
    failLook("PUT /points");
    expect((await write({ id: "unseen", text: "unseen" })).status).toBe(503);
    heal();
    expect(await (await write({ id: "unseen", text: "unseen" })).json()).toMatchObject({
      documents: [{ status: "unchanged" }],
    });
    failLook("POST /points/delete");
    expect((await remove("unseen")).status).toBe(503);
    heal();
    expect((await remove("unseen")).status).toBe(204);
    expect(agree(await contentsOf(databases()))).toBe(true);
  });

  test("a retry finishes an interrupted write with its image, and a deletion removes what it left", async () => {
    const bytes = await picture("olive", "navy");
    const document = { id: "retried", text: "again and again", image: dataUrl(bytes) };
    failStep(["vector", "PUT /points", "lose"]);
    expect((await write(document)).status).toBe(503);
    heal();
    expect(await (await write(document)).json()).toMatchObject({ documents: [{ status: "updated" }] });
    expect(await (await write(document)).json()).toEqual({
      documents: [{ id: "retried", status: "unchanged" }],
    });
    expect(agree(await contentsOf(databases()))).toBe(true);
    failStep(["vector", "POST /points/delete", "lose"]);
    expect((await remove("retried")).status).toBe(503);
    heal();
    expect((await remove("retried")).status).toBe(204);
    expect((await contentsOf(databases())).points.has("retried")).toBe(false);
  });

  test("reindexing finishes an interrupted write with the image that was kept", async () => {
    failStep(["vector", "PUT /points", "lose"]);
    const bytes = await picture("purple", "orange");
    expect((await write({ id: "pictured", image: dataUrl(bytes) })).status).toBe(503);
    heal();
    await reindex();
    const response = await gateway().post("/v1/match", { image: dataUrl(bytes), topK: 1 });
    expect(await response.json()).toMatchObject({ matches: [{ id: "pictured" }] });
  });

  test("a gateway repairs an interrupted write by itself", async () => {
    failStep(["vector", "PUT /points", "lose"]);
    expect((await write({ id: "mended", text: "mended by itself" })).status).toBe(503);
    heal();
    await until(async () => (await found("mended by itself"))[0] === "mended");
  });

  test("a write continues when its client has left", async () => {
    const leaver = new AbortController();
    failOnce(vector(), "PUT /points", "pass", async () => {
      leaver.abort();
      await new Promise((resolve) => setTimeout(resolve, 50));
    });
    const left = fetch(`${gateway().url}/v1/documents`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id: "left", text: "left alone" }),
      signal: leaver.signal,
    });
    await expect(left).rejects.toThrow();
    await until(async () => (await found("left alone"))[0] === "left");
  });

  test("both databases agree after one was killed between the two writes", async () => {
    failOnce(vector(), "PUT /points", "pass", () => databases().vector.kill());
    const documents = Array.from({ length: 30 }, (_, index) => ({
      id: `kill-${index}`,
      text: `killed ${index}`,
    }));
    expect((await write({ documents })).status).toBe(503);
    expect(await (await gateway().post("/v1/match", { text: "killed" })).json()).toMatchObject({
      error: { code: "vector_unavailable" },
    });
    await expect(reindex()).rejects.toThrow("vector database");
    await databases().vector.start();
    await reindex();
    const contents = await contentsOf(databases());
    expect(agree(contents)).toBe(true);
    expect(contents.documents.has("kill-0")).toBe(true);
  });

  test("a new gateway finishes the writes of a killed gateway by itself", async () => {
    const folder = temporaryFolder("gateway-killed");
    const file = join(folder.path, "gateway.json");
    writeFileSync(file, JSON.stringify(config({ log: {} })));
    const image = dataUrl(await picture("lime", "maroon"));
    const documents = Array.from({ length: 20 }, (_, index) => ({
      id: `victim-${index}`,
      text: `victim ${index}`,
      ...(index === 0 && { image }),
    }));
    const service = restartableService("gateway", ["--config", file]);
    try {
      const first = urlIn(await service.start());
      failOnce(vector(), "PUT /points", "lose", () => service.kill());
      await expect(postDocuments(first, documents)).rejects.toThrow("fetch failed");
      expect(agree(await contentsOf(databases()))).toBe(false);
      const second = urlIn(await service.start());
      await agreed(databases());
      // The client without a response retries the same request.
      const statuses = await statusesOf(postDocuments(second, documents));
      expect(statuses).toEqual(documents.map(() => "unchanged"));
      expect(agree(await contentsOf(databases()))).toBe(true);
    } finally {
      await service.kill();
      folder.remove();
    }
  });
});

/** Two changes of the same document: the first is held between its two steps, and the second runs meanwhile. */
describe("overtaken changes", () => {
  const faulty = shared.inArea("overtaken");

  const { databases, vector, config } = faulty;

  const { gateway, write, remove, found, reindex } = useMendingGateway(faulty);

  /** Runs some work before the first change of the vectors. */
  const beforeFirst = (change: string, work: () => Promise<unknown>) =>
    failOnce(vector(), change, "pass", async () => {
      await work();
    });

  async function expectAgreed() {
    expect(agree(await contentsOf(databases()))).toBe(true);
  }

  test("a write that another write overtakes leaves the vectors of the later write", async () => {
    beforeFirst("PUT /points", () => write({ id: "a", text: "the later content" }));
    expect((await write({ id: "a", text: "the earlier content" })).status).toBe(200);
    await expectAgreed();
    expect((await contentsOf(databases())).documents.get("a")?.text).toBe("the later content");
    expect(await found("the later content")).toContain("a");
  });

  test("a write that a deletion overtakes leaves nothing", async () => {
    beforeFirst("PUT /points", () => remove("b"));
    expect((await write({ id: "b", text: "soon gone" })).status).toBe(200);
    await expectAgreed();
    expect((await contentsOf(databases())).points.has("b")).toBe(false);
  });

  test("a deletion that a write overtakes leaves the document, and it is found", async () => {
    await write({ id: "c", text: "the first life" });
    beforeFirst("POST /points/delete", () => write({ id: "c", text: "the second life" }));
    expect((await remove("c")).status).toBe(204);
    await expectAgreed();
    expect(await found("the second life")).toContain("c");
  });

  test("reindexing that a write overtakes leaves the vectors of the write", async () => {
    await write({ id: "d", text: "the first content" });
    await inMongo(databases(), (database) =>
      database
        .collection<{ _id: string }>("documents")
        .updateOne({ _id: "d" }, { $set: { contentHash: "x" } }),
    );
    beforeFirst("PUT /points", () => write({ id: "d", text: "the content that was written meanwhile" }));
    await reindex();
    await expectAgreed();
    expect(await found("the content that was written meanwhile")).toContain("d");
  });

  test("a write that is overtaken again and again ends with 503, without the other documents of its request", async () => {
    let turn = 0;
    vector().fate = async (name): Promise<Fate> => {
      turn += 1;
      if (name === "PUT /points")
        await inMongo(databases(), (database) =>
          database
            .collection<{ _id: string }>("documents")
            .updateOne({ _id: "e" }, { $set: { contentHash: `turn ${turn}` } }),
        );
      return "pass";
    };
    const response = await write({
      documents: [
        { id: "e", text: "contended" },
        { id: "f", text: "calm" },
      ],
    });
    vector().fate = () => "pass";
    expect(await response.json()).toMatchObject({
      documents: [{ status: "failed", error: { code: "contended" } }, { status: "created" }],
    });
    await reindex();
    await expectAgreed();
  });

  test("two gateways that write and delete the same documents end with databases that agree", async () => {
    const other = await startGateway(config());
    try {
      const ids = Array.from({ length: 5 }, (_, index) => `both-${index}`);
      const work = [gateway(), other].flatMap((one, side) =>
        Array.from({ length: 30 }, async (_, turn) => {
          const id = ids[turn % ids.length] ?? "";
          if (turn % 7 === 6) {
            const response = await fetch(`${one.url}/v1/documents/${id}`, { method: "DELETE" });
            return response.status;
          }
          return (await one.post("/v1/documents", { id, text: `side ${side} turn ${turn}` })).status;
        }),
      );
      const statuses = await Promise.all(work);
      for (const status of statuses) expect([200, 204, 503]).toContain(status);
      // Acknowledged writes need no reindexing; other writes are compared again by the gateway.
      if (!statuses.includes(503)) await expectAgreed();
      const last = ids.map((id) => ({ id, text: `the end of ${id}` }));
      await agreed(databases());
      expect((await other.post("/v1/documents", { documents: last })).status).toBe(200);
      const contents = await contentsOf(databases());
      expect(agree(contents)).toBe(true);
      for (const { id, text } of last) expect(contents.documents.get(id)?.text).toBe(text);
    } finally {
      await other.app.close();
    }
  });
});

describe("reindexing", () => {
  const faulty = shared.inArea("reindexed");

  const { databases, triton, vector, config, heal } = faulty;

  const { gateway, write, read, found, reindex } = useMendingGateway(faulty);

  const points = (path: string, init?: RequestInit) => {
    const { vector: database, area } = databases();
    const headers = { "content-type": "application/json" };
    return fetch(`http://127.0.0.1:${database.port}/collections/${area}${path}`, { headers, ...init });
  };

  const KEPT = Array.from({ length: 300 }, (_, index) => ({ id: `kept-${index}`, text: `kept ${index}` }));

  async function writeKept() {
    for (const documents of [KEPT.slice(0, 200), KEPT.slice(200)])
      expect((await write({ documents })).status).toBe(200);
    const image = dataUrl(await picture("teal", "gold"));
    expect((await write({ id: "kept-picture", image })).status).toBe(200);
    return image;
  }

  async function expectFound(image: string) {
    const contents = await contentsOf(databases());
    expect(agree(contents)).toBe(true);
    expect(contents.points.size).toBeGreaterThan(KEPT.length);
    const response = await gateway().post("/v1/match", { image, topK: 1 });
    expect(await response.json()).toMatchObject({ matches: [{ id: "kept-picture" }] });
    expect((await found("kept")).length).toBe(100);
  }

  /** Counts all runs, because the gateway starts one by itself some seconds after it created the collection. */
  async function reindexed(result: "indexed" | "removed"): Promise<number> {
    const metrics = await (await fetch(`${gateway().url}/metrics`)).text();
    return Number(
      new RegExp(`^gateway_reindexed_total\\{result="${result}"\\} (\\d+)`, "m").exec(metrics)?.[1] ?? 0,
    );
  }

  test("POST /v1/reindex finds all documents again after the data of the vector database was deleted", async () => {
    const image = await writeKept();
    const before = await reindexed("indexed");
    await databases().vector.empty();
    const { documents } = await reindex();
    expect(await reindexed("indexed")).toBe(before + documents);
    await expectFound(image);
    expect(await reindex()).toMatchObject({ indexed: 0, removed: 0, refused: 0 });
  });

  test("a gateway that starts finds all documents again after the data of the vector database was deleted", async () => {
    const image = await writeKept();
    await gateway().app.close();
    await databases().vector.empty();
    const next = await startGateway(config());
    try {
      await agreed(databases());
      const response = await next.post("/v1/match", { image, topK: 1 });
      expect(await response.json()).toMatchObject({ matches: [{ id: "kept-picture" }] });
    } finally {
      await next.app.close();
    }
  });

  test("a running gateway fills a deleted collection by itself", async () => {
    const image = await writeKept();
    await points("", { method: "DELETE" });
    // It notices the deletion at the next request.
    expect((await gateway().post("/v1/match", { text: "kept" })).status).toBe(200);
    await agreed(databases());
    await expectFound(image);
  });

  test("reindexing removes vectors without a document, and keeps those of other programs", async () => {
    const point = (id: string, payload: object) => ({ id, vector: { text: Array(64).fill(1) }, payload });
    const orphan = { documentId: "orphan", contentHash: "0".repeat(64), metadata: {} };
    const foreign = "11111111-1111-5111-8111-111111111111";
    const body = { points: [point(pointId("orphan"), orphan), point(foreign, { kind: "other" })] };
    const before = await reindexed("removed");
    await points("/points", { method: "PUT", body: JSON.stringify(body) });
    await reindex();
    expect(await reindexed("removed")).toBe(before + 1);
    const ids = [pointId("orphan"), foreign];
    const left = await points("/points", { method: "POST", body: JSON.stringify({ ids }) });
    expect(await left.json()).toMatchObject({ result: [{ id: foreign }] });
    await points("/points/delete", { method: "POST", body: JSON.stringify({ points: [foreign] }) });
  });

  test("reindexing continues past a document that the encoder refuses", async () => {
    failAlways(vector(), "PUT /points", "lose");
    await write({
      documents: [1, 2, 3].map((index) => ({
        id: `r${index}`,
        text: index === 2 ? "REFUSED" : `fine ${index}`,
      })),
    });
    triton().behaviour.refuses = "REFUSED";
    heal();
    expect(await reindex()).toMatchObject({ refused: 1 });
    const { points: indexed } = await contentsOf(databases());
    expect(["r1", "r2", "r3"].map((id) => indexed.has(id))).toEqual([true, false, true]);
    const metrics = await (await fetch(`${gateway().url}/metrics`)).text();
    expect(metrics).toMatch(/^gateway_reindexed_total\{result="refused"\} [1-9]/m);
    triton().behaviour.refuses = undefined;
    // The gateway may have done so by itself, some seconds after the write that failed.
    expect(await reindex()).toMatchObject({ refused: 0 });
    expect(agree(await contentsOf(databases()))).toBe(true);
  });

  /** Writes a row of the old layout, where pictures had their own collection. */
  async function writeOldRow(id: string, jpeg: Buffer, isKept: boolean) {
    const digest = createHash("sha256").update(jpeg).digest("hex");
    const image = { sha256: digest, contentType: "image/jpeg", width: 64, height: 64 };
    const times = { createdAt: new Date(0), updatedAt: new Date(0) };
    const row = {
      _id: id,
      text: `old ${id}`,
      metadata: {},
      image,
      contentHash: id,
      state: "ready",
      ...times,
    };
    await inMongo(databases(), async (database) => {
      await database.collection<{ _id: string }>("documents").insertOne(row);
      const kept = { _id: digest, bytes: jpeg, contentType: "image/jpeg", usedAt: new Date(0) };
      if (isKept) await database.collection<{ _id: string }>("images").insertOne(kept);
    });
  }

  test("reindexing moves pictures of the old layout into their documents, even when another picture is lost", async () => {
    const jpeg = await picture("snow", "plum", { format: "jpeg" });
    await writeOldRow("old-picture", jpeg, true);
    await writeOldRow("lost-picture", await picture("tan", "peru", { format: "jpeg" }), false);
    expect(await reindex()).toMatchObject({ indexed: 1, refused: 1 });
    const image = await fetch(`${gateway().url}/v1/documents/old-picture/image`);
    expect(Buffer.from(await image.arrayBuffer()).equals(jpeg)).toBe(true);
    expect(await found("old picture")).toContain("old-picture");
    const left = await inMongo(databases(), (database) => database.collection("images").countDocuments());
    expect(left).toBe(0);
    // It has no vectors until it is stored again.
    expect(await found("lost picture")).not.toContain("lost-picture");
    expect(await errorOf(await read("lost-picture/image"))).toMatchObject({
      status: 404,
      message: expect.stringContaining("The image of the document lost-picture is missing"),
    });
    const again = { id: "lost-picture", text: "old lost-picture", image: dataUrl(jpeg, "image/jpeg") };
    expect(await (await write(again)).json()).toMatchObject({ documents: [{ status: "updated" }] });
    expect((await read("lost-picture/image")).status).toBe(200);
    expect(agree(await contentsOf(databases()))).toBe(true);
  });
});

describe("gateway and databases", () => {
  const { databases, triton, mongo, vector, places, heal, config } = shared.inArea("guarded");

  let gateway: RunningGateway;

  beforeAll(async () => {
    gateway = await startGateway(config());
  });

  afterAll(async () => {
    await gateway?.app.close();
  });

  afterEach(heal);

  const ROUTES = [
    ["POST", "/v1/documents"],
    ["GET", "/v1/documents"],
    ["GET", "/v1/documents/a"],
    ["DELETE", "/v1/documents/a"],
    ["POST", "/v1/match"],
    ["POST", "/v1/answer"],
    ["POST", "/v1/reindex"],
  ] as const;

  test("every retrieval route of a gateway without databases reports that they are missing", async () => {
    const plain = await startGateway(configOf({ encoders: 1, model: 1 }));
    try {
      for (const [method, path] of ROUTES) {
        const body = method === "POST" ? { body: new FormData() } : {};
        const response = await fetch(plain.url + path, { method, ...body });
        expect(await errorOf(response)).toMatchObject({
          status: 404,
          code: "no_databases",
          message: expect.stringContaining("`databases`"),
        });
      }
    } finally {
      await plain.app.close();
    }
  });

  test("requests to an unavailable database are 503 with Retry-After, and /readyz names it", async () => {
    const port = await freePort();
    for (const name of ["mongo", "vector"] as const) {
      const halfPlaces = { ...places(), [name]: port };
      const half = await startGateway(retrievalConfig(triton(), halfPlaces));
      try {
        const response = await half.post("/v1/match", { text: "a" });
        expect(response.headers.get("retry-after")).toBe("5");
        expect(await errorOf(response)).toMatchObject({
          status: 503,
          code: `${name}_unavailable`,
          message: expect.stringContaining(name === "mongo" ? "document database" : "vector database"),
        });
        const batch = await half.post("/v1/documents", { documents: [{ text: "a" }, { text: "b" }] });
        expect(await errorOf(batch)).toMatchObject({ status: 503, code: `${name}_unavailable` });
        const ready = await fetch(`${half.url}/readyz`);
        const { message } = await errorOf(ready);
        expect(message).toMatch(new RegExp(`^${name}: [^;]*$`));
        const metrics = await (await fetch(`${half.url}/metrics`)).text();
        expect(metrics).toMatch(
          new RegExp(`gateway_database_errors_total\\{database="${name}",kind="unavailable"\\} [1-9]`),
        );
      } finally {
        await half.app.close();
      }
    }
  });

  test("a request to a database that hangs ends when its time is over", async () => {
    const peer = await silentPeer();
    for (const name of ["mongo", "vector"] as const) {
      const halfPlaces = { ...places(), [name]: peer.port };
      const half = await startGateway(
        retrievalConfig(triton(), halfPlaces, { limits: { requestSeconds: 1 } }),
      );
      try {
        const error = await errorOf(await half.post("/v1/match", { text: "a" }));
        expect([503, 504]).toContain(error.status);
        expect(half.gateway.limiter.taken).toBe(0);
      } finally {
        await half.app.close();
      }
    }
    await peer.close();
  });

  test("a database that answers nonsense is reported as failed", async () => {
    const strange = await startGateway(
      retrievalConfig(triton(), { ...places(), vector: Number(new URL(triton().url).port) }),
    );
    try {
      const error = await errorOf(await strange.post("/v1/match", { text: "a" }));
      expect(error).toMatchObject({ status: 502, code: "vector_failed" });
    } finally {
      await strange.app.close();
    }
  });

  test("a collection of other vectors is reported with both lengths and a remedy", async () => {
    const own = config();
    await gateway.post("/v1/documents", { id: "first", text: "a" });
    const other = await startGateway({
      ...own,
      encoders: {
        ...own.encoders,
        http: triton().url,
        modelName: "words",
        dimension: 64,
        imageDimension: 7,
        maxBatchSize: 8,
      },
    });
    try {
      const error = await errorOf(await other.post("/v1/match", { text: "a" }));
      expect(error).toMatchObject({
        status: 500,
        code: "vector_misfit",
        message: expect.stringMatching(
          /Cosine 48-d vectors named image.*Cosine 7-d.*databases\.vector\.collection/,
        ),
      });
    } finally {
      await other.app.close();
    }
  });

  test("a request has one id in Triton, in the vector database, and in MongoDB", async () => {
    // The first request of a gateway creates a missing collection.
    await gateway.post("/v1/match", { text: "a" });
    const id = "trace-of-this-test";
    const seen = { mongo: 0, vector: 0 };
    mongo().fate = (_name, message) => {
      if (message.includes(id)) seen.mongo += 1;
      return "pass";
    };
    vector().fate = (_name, request) => {
      if (request.includes(id)) seen.vector += 1;
      return "pass";
    };
    triton().encoderCalls.length = 0;
    await gateway.post("/v1/match", { text: "a" }, { "x-request-id": id });
    expect(triton().encoderCalls.map(({ requestId }) => requestId)).toEqual([id]);
    // One query each, and nothing else.
    expect(seen).toEqual({ mongo: 1, vector: 1 });
    Object.assign(seen, { mongo: 0, vector: 0 });
    await gateway.post("/v1/documents", { id: "traced", text: "b" }, { "x-request-id": id });
    // Read, write, read again; and the vectors.
    expect(seen).toEqual({ mongo: 3, vector: 1 });
  });

  test("the key of a retrieval request is checked before its body", async () => {
    const guarded = await startGateway(config({ apiKeys: [{ name: "alice", sha256: sha256("sk-alice") }] }));
    try {
      for (const [method, path] of ROUTES) {
        expect((await fetch(guarded.url + path, { method })).status).toBe(401);
      }
      const headers = { authorization: "Bearer sk-alice" };
      expect((await guarded.post("/v1/match", { text: "a" }, headers)).status).toBe(200);
    } finally {
      await guarded.app.close();
    }
  });

  test("a retrieval body may be as large as an image, and no larger", async () => {
    const small = await startGateway(config({ limits: { bodyBytes: 1024 } }));
    try {
      const large = await small.post("/v1/match", {
        image: `data:image/png;base64,${"A".repeat(16_000_000)}`,
      });
      expect(await errorOf(large)).toMatchObject({ status: 413, code: "body_too_large" });
      const image = await small.post("/v1/match", {
        image: `data:image/png;base64,${"A".repeat(14_000_000)}`,
      });
      expect(await errorOf(image)).toMatchObject({ status: 413, code: "image_too_large", param: "image" });
    } finally {
      await small.app.close();
    }
  });

  test("documents are counted by their status", async () => {
    await gateway.post("/v1/documents", { id: "counted", text: "c" });
    await gateway.post("/v1/documents", { id: "counted", text: "c" });
    await fetch(`${gateway.url}/v1/documents/counted`, { method: "DELETE" });
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    for (const status of ["created", "unchanged", "removed"]) {
      expect(metrics).toMatch(new RegExp(`^gateway_documents_total\\{status="${status}"\\} [1-9]`, "m"));
    }
    expect(metrics).toMatch(
      /^gateway_database_duration_seconds_count\{database="vector",operation="upsert"\} [1-9]/m,
    );
    expect(metrics).not.toContain("counted");
  });

  test("the description of the retrieval API is valid, and has every route with its forms", async () => {
    const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
      paths: Record<
        string,
        Record<string, { requestBody?: { content: Record<string, { schema: object }> } }>
      >;
    };
    expect(await new Validator().validate(document)).toMatchObject({ valid: true });
    for (const path of ["/v1/documents", "/v1/match", "/v1/answer"]) {
      const content = document.paths[path]?.post?.requestBody?.content ?? {};
      expect(Object.keys(content)).toEqual(["application/json", "multipart/form-data"]);
      expect(JSON.stringify(content["application/json"]?.schema)).toContain('"image"');
    }
    expect(document.paths["/v1/documents/{id}/image"]).toHaveProperty("get");
  });

  test("reindexing runs when a gateway starts, and again when a database comes back", async () => {
    await gateway.post("/v1/documents", { id: "interrupted", text: "half" });
    vector().fate = () => "lose";
    expect((await gateway.post("/v1/documents", { id: "interrupted", text: "whole" })).status).toBe(503);
    const next = await startGateway(config());
    try {
      expect((await next.post("/v1/match", { text: "whole" })).status).toBe(503);
      vector().fate = () => "pass";
      await agreed(databases());
      const response = await next.post("/v1/match", { text: "whole", topK: 1 });
      expect(await response.json()).toMatchObject({ matches: [{ id: "interrupted", text: "whole" }] });
    } finally {
      await next.app.close();
    }
  });
});
