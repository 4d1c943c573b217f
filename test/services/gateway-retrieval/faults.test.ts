/** Interrupted writes, what repair mends, and databases that are away. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Validator } from "@seriousme/openapi-schema-validator";
import { MongoClient } from "mongodb";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { pointId } from "../../../containers/services/gateway/src/retrieval/content.ts";
import {
  closedPort,
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
  useRepairingGateway,
} from "./faulty-databases.ts";
import {
  agree,
  agreed,
  contentsOf,
  dataUrl,
  picture,
  postDocuments,
  restartableService,
  retrievalConfig,
  statusesOf,
} from "./support.ts";

const shared = useFaultyDatabases();

/** Writes and deletions that are interrupted at every step: afterwards both databases agree, and nothing acknowledged is lost. */
describe("interruptions", () => {
  const faulty = shared.inArea("interrupted");

  const { databases, mongo, vector, config, heal } = faulty;

  const { gateway, write, remove, read, found, sweep } = useRepairingGateway(faulty);

  type Step = readonly [database: "mongo" | "vector", request: string, fate: Fate];

  function failStep([database, request, fate]: Step) {
    return database === "mongo" ? failOnce(mongo(), request, fate) : failAlways(vector(), request, fate);
  }

  describe("writes", () => {
    const steps: readonly Step[] = [
      ["mongo", "insert", "lose"],
      ["mongo", "insert", "loseAnswer"],
      ["vector", "PUT /points", "lose"],
      ["vector", "PUT /points", "loseAnswer"],
      ["mongo", "update", "lose"],
      ["mongo", "update", "loseAnswer"],
    ];

    test.each(steps)("a write of a new document survives %s %s: %s", async (...step) => {
      const id = `new-${step.join("-").replaceAll(/[^a-zA-Z]+/g, "-")}`;
      const document = { id, text: `a story about ${id}` };
      const fault = failStep(step);
      const response = await write(document);
      expect(fault.seen).toBe(true);
      expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
      expect(await response.json()).toMatchObject({ error: { code: `${step[0]}_unavailable` } });
      heal();
      // Shown only where the last step was done and its answer alone was lost.
      const isDone = step[1] === "update" && step[2] === "loseAnswer";
      expect((await read(id)).status).toBe(isDone ? 200 : 404);
      expect((await found(document.text)).includes(id)).toBe(isDone);
      await sweep();
      const contents = await contentsOf(databases());
      expect(agree(contents)).toBe(true);
      expect(contents.documents.has(id)).toBe(step[1] !== "insert" || step[2] === "loseAnswer");
      expect((await write(document)).status).toBe(200);
      expect(await (await read(id)).json()).toMatchObject({ text: document.text });
      expect((await found(document.text))[0]).toBe(id);
    });

    test.each(steps.filter(([, request]) => request !== "insert"))(
      "a write over an old document survives %s %s: %s",
      async (...step) => {
        const id = `old-${step.join("-").replaceAll(/[^a-zA-Z]+/g, "-")}`;
        await write({ id, text: "the first content" });
        const fault = failStep(step);
        expect((await write({ id, text: "the second content" })).status).toBe(503);
        expect(fault.seen).toBe(true);
        heal();
        await sweep();
        const contents = await contentsOf(databases());
        expect(agree(contents)).toBe(true);
        // The first `update` of this write is the one that puts the new content there.
        const isLost = step[1] === "update" && step[2] === "lose";
        expect(contents.documents.get(id)?.text).toBe(isLost ? "the first content" : "the second content");
      },
    );

    test("a retry finishes an interrupted write without repair", async () => {
      failStep(["vector", "PUT /points", "lose"]);
      const image = dataUrl(await picture("olive", "navy"));
      const document = { id: "retried", text: "again and again", image };
      expect((await write(document)).status).toBe(503);
      expect((await contentsOf(databases())).documents.get("retried")?.state).toBe("pending");
      heal();
      expect((await write(document)).status).toBe(200);
      expect(await (await write(document)).json()).toEqual({
        documents: [{ id: "retried", status: "unchanged" }],
      });
      expect(agree(await contentsOf(databases()))).toBe(true);
    });

    test("repair finishes an interrupted write with the image that was kept", async () => {
      failStep(["vector", "PUT /points", "lose"]);
      const bytes = await picture("purple", "orange");
      expect((await write({ id: "pictured", image: dataUrl(bytes) })).status).toBe(503);
      heal();
      await sweep();
      const response = await gateway().post("/v1/match", { image: dataUrl(bytes), topK: 1 });
      expect(await response.json()).toMatchObject({ matches: [{ id: "pictured" }] });
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
      // The lock of the id is given back when the write has come to its end.
      expect(await (await write({ id: "left", text: "left alone" })).json()).toMatchObject({
        documents: [{ status: "unchanged" }],
      });
    });
  });

  test.each<Step>([
    ["mongo", "update", "lose"],
    ["mongo", "update", "loseAnswer"],
    ["vector", "POST /points/delete", "lose"],
    ["vector", "POST /points/delete", "loseAnswer"],
    ["mongo", "delete", "lose"],
    ["mongo", "delete", "loseAnswer"],
  ])("a deletion survives %s %s: %s", async (...step) => {
    const id = `gone-${step.join("-").replaceAll(/[^a-zA-Z]+/g, "-")}`;
    await write({ id, text: `soon gone ${id}` });
    const fault = failStep(step);
    expect((await remove(id)).status).toBe(503);
    expect(fault.seen).toBe(true);
    heal();
    const isBegun = step[1] !== "update" || step[2] === "loseAnswer";
    expect((await read(id)).status).toBe(isBegun ? 404 : 200);
    await sweep();
    const contents = await contentsOf(databases());
    expect(agree(contents)).toBe(true);
    expect(contents.documents.has(id)).toBe(!isBegun);
    expect((await remove(id)).status).toBe(204);
    expect((await contentsOf(databases())).documents.has(id)).toBe(false);
  });

  test("a write replaces an unfinished deletion", async () => {
    await write({ id: "phoenix", text: "first life" });
    failStep(["vector", "POST /points/delete", "lose"]);
    expect((await remove("phoenix")).status).toBe(503);
    heal();
    expect(await (await write({ id: "phoenix", text: "first life" })).json()).toMatchObject({
      documents: [{ status: "created" }],
    });
    expect((await read("phoenix")).status).toBe(200);
    expect(agree(await contentsOf(databases()))).toBe(true);
  });

  test("both databases agree after one was killed between the two writes", async () => {
    failOnce(vector(), "PUT /points", "pass", () => databases().vector.kill());
    const documents = Array.from({ length: 30 }, (_, index) => ({
      id: `kill-${index}`,
      text: `killed ${index}`,
    }));
    const response = await write({ documents });
    expect([200, 503]).toContain(response.status);
    expect(await (await gateway().post("/v1/match", { text: "killed" })).json()).toMatchObject({
      error: { code: "vector_unavailable" },
    });
    await expect(sweep()).rejects.toThrow("vector database");
    await databases().vector.start();
    await sweep();
    const contents = await contentsOf(databases());
    expect(agree(contents)).toBe(true);
    expect(contents.documents.has("kill-0")).toBe(true);
  });

  test("a new gateway finishes by itself the writes of a gateway that was killed", async () => {
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
      failOnce(vector(), "PUT /points", "loseAnswer", () => service.kill());
      await expect(postDocuments(first, documents)).rejects.toThrow("fetch failed");
      const { documents: left } = await contentsOf(databases());
      expect([...left.values()].some(({ state }) => state === "pending")).toBe(true);
      const second = urlIn(await service.start());
      await agreed(databases());
      // A client that was not answered sends the same again.
      const statuses = await statusesOf(postDocuments(second, documents));
      expect(statuses).toEqual(documents.map(() => "unchanged"));
      expect(agree(await contentsOf(databases()))).toBe(true);
    } finally {
      await service.kill();
      folder.remove();
    }
  });
});

describe("repair", () => {
  const faulty = shared.inArea("repaired");

  const { databases, triton, vector, config, heal } = faulty;

  const { gateway, write, remove, read, found, sweep } = useRepairingGateway(faulty);

  test("repair fills a vector database that was emptied", async () => {
    await write({
      documents: Array.from({ length: 20 }, (_, index) => ({ id: `kept-${index}`, text: `kept ${index}` })),
    });
    await fetch(`http://127.0.0.1:${databases().vector.port}/collections/${databases().area}`, {
      method: "DELETE",
    });
    await sweep();
    const contents = await contentsOf(databases());
    expect(contents.points.size).toBeGreaterThanOrEqual(20);
    expect(agree(contents)).toBe(true);
  });

  test("repair removes vectors without a document, and leaves those of others alone", async () => {
    const point = (id: string, payload: object) => ({
      id,
      vector: { text: Array(64).fill(1) },
      payload,
    });
    const orphan = { documentId: "orphan", contentHash: "0".repeat(64), metadata: {} };
    const foreign = "11111111-1111-5111-8111-111111111111";
    await fetch(`http://127.0.0.1:${databases().vector.port}/collections/${databases().area}/points`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        points: [point(pointId("orphan"), orphan), point(foreign, { kind: "other" })],
      }),
    });
    await sweep();
    const at = (id: string) =>
      fetch(`http://127.0.0.1:${databases().vector.port}/collections/${databases().area}/points/${id}`);
    expect([(await at(pointId("orphan"))).status, (await at(foreign)).status]).toEqual([404, 200]);
    await fetch(`http://127.0.0.1:${databases().vector.port}/collections/${databases().area}/points/delete`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ points: [foreign] }),
    });
  });

  test("repair continues past a document that the encoder refuses", async () => {
    failAlways(vector(), "PUT /points", "lose");
    await write({
      documents: [1, 2, 3].map((index) => ({
        id: `r${index}`,
        text: index === 2 ? "REFUSED" : `fine ${index}`,
      })),
    });
    heal();
    triton().behaviour.refuses = "REFUSED";
    expect(await sweep()).toMatchObject({ refused: 1 });
    triton().behaviour.refuses = undefined;
    const { documents } = await contentsOf(databases());
    expect(["r1", "r2", "r3"].map((id) => documents.get(id)?.state)).toEqual(["ready", "pending", "ready"]);
    await sweep();
    expect(agree(await contentsOf(databases()))).toBe(true);
  });

  test("repair removes images without a document after a while", async () => {
    await write({ id: "shown", image: dataUrl(await picture("teal", "gold")) });
    const { retrieval } = gateway().gateway;
    const call = { requestId: "test", signal: new AbortController().signal };
    const later = new Date(Date.now() + 1000);
    const before = (await contentsOf(databases())).images.length;
    await retrieval?.stores.images.removeUnused(later, call);
    const kept = (await contentsOf(databases())).images;
    expect(kept.length).toBeLessThanOrEqual(before);
    expect((await read("shown")).status).toBe(200);
    expect((await fetch(`${gateway().url}/v1/documents/shown/image`)).status).toBe(200);
    await remove("shown");
    expect((await contentsOf(databases())).images).toEqual(kept);
    expect(await retrieval?.stores.images.removeUnused(new Date(Date.now() + 1000), call)).toBe(1);
  });

  describe("lost images", () => {
    const image = async (id: string) => (await fetch(`${gateway().url}/v1/documents/${id}/image`)).status;
    const statusOf = async (body: object) => {
      const { documents } = (await (await write(body)).json()) as { documents: { status: string }[] };
      return documents[0]?.status;
    };

    /** Takes the image away behind the gateway's back. */
    async function loseImage(id: string) {
      const client = new MongoClient(`mongodb://127.0.0.1:${databases().mongo.port}/`);
      try {
        const sha256 = (await contentsOf(databases())).documents.get(id)?.image;
        const { deletedCount } = await client
          .db(databases().area)
          .collection<{ _id: string }>("images")
          .deleteOne({ _id: sha256 ?? "" });
        expect(deletedCount).toBe(1);
      } finally {
        await client.close();
      }
    }

    test("an unfinished write without its image stays unfinished and is not found until it is stored again", async () => {
      const document = {
        id: "faded",
        text: "a faded photograph",
        image: dataUrl(await picture("tan", "peru")),
      };
      failAlways(vector(), "PUT /points", "lose");
      expect((await write({ documents: [document, { id: "caption", text: "a caption" }] })).status).toBe(503);
      heal();
      await loseImage("faded");
      // Each time anew, and the other document goes on.
      expect(await sweep()).toMatchObject({ finished: 1, refused: 1 });
      expect(await sweep()).toMatchObject({ finished: 0, refused: 1 });
      const { documents, points } = await contentsOf(databases());
      expect(["faded", "caption"].map((id) => documents.get(id)?.state)).toEqual(["pending", "ready"]);
      expect(["faded", "caption"].map((id) => points.has(id))).toEqual([false, true]);
      expect((await read("faded")).status).toBe(404);
      expect(await found("a faded photograph")).not.toContain("faded");
      expect(await statusOf(document)).toBe("updated");
      expect(await image("faded")).toBe(200);
      expect(await found("a faded photograph")).toContain("faded");
      expect(agree(await contentsOf(databases()))).toBe(true);
      expect(await sweep()).toMatchObject({ finished: 0, compared: 0, refused: 0 });
    });

    test("a document without image and vectors is hidden until it is stored again", async () => {
      const document = {
        id: "burnt",
        text: "a burnt photograph",
        image: dataUrl(await picture("red", "black")),
      };
      await write(document);
      await loseImage("burnt");
      await fetch(`http://127.0.0.1:${databases().vector.port}/collections/${databases().area}`, {
        method: "DELETE",
      });
      expect(await sweep()).toMatchObject({ refused: 1 });
      const { documents, points } = await contentsOf(databases());
      expect([documents.get("burnt")?.state, points.has("burnt")]).toEqual(["pending", false]);
      expect((await read("burnt")).status).toBe(404);
      expect(await statusOf(document)).toBe("updated");
      expect(await image("burnt")).toBe(200);
      expect(agree(await contentsOf(databases()))).toBe(true);
    });

    test("a finished document without its image is found, and gets the image back when it is stored again", async () => {
      const document = {
        id: "torn",
        text: "a torn photograph",
        image: dataUrl(await picture("snow", "plum")),
      };
      await write(document);
      await loseImage("torn");
      expect(await sweep()).toMatchObject({ finished: 0, compared: 0, refused: 0 });
      expect(agree(await contentsOf(databases()))).toBe(true);
      expect(await found("a torn photograph")).toContain("torn");
      expect(await image("torn")).toBe(404);
      expect(await statusOf(document)).toBe("updated");
      expect(await image("torn")).toBe(200);
      expect(await statusOf(document)).toBe("unchanged");
    });
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
      for (const status of await Promise.all(work)) expect([200, 204, 503]).toContain(status);
      await sweep();
      expect(agree(await contentsOf(databases()))).toBe(true);
      const last = ids.map((id) => ({ id, text: `the end of ${id}` }));
      expect((await other.post("/v1/documents", { documents: last })).status).toBe(200);
      const contents = await contentsOf(databases());
      expect(agree(contents)).toBe(true);
      for (const { id, text } of last) expect(contents.documents.get(id)?.text).toBe(text);
    } finally {
      await other.app.close();
    }
  });
});

describe("gateway and databases", () => {
  const { triton, mongo, vector, places, heal, config } = shared.inArea("guarded");

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
  ] as const;

  test("every retrieval route of a gateway without databases says that they are missing", async () => {
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

  test("a database that is away makes its requests 503 with Retry-After, and /readyz names it", async () => {
    const port = await closedPort();
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
        const { upstreams } = (await ready.json()) as { upstreams: { name: string; ready: boolean }[] };
        expect(upstreams.filter((one) => !one.ready).map((one) => one.name)).toEqual([name]);
        const metrics = await (await fetch(`${half.url}/metrics`)).text();
        expect(metrics).toMatch(
          new RegExp(`gateway_database_errors_total\\{database="${name}",kind="away"\\} [1-9]`),
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
    // The first request of a gateway makes the collection where it is absent.
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
    // What is there, pending, ready; and the vectors.
    expect(seen).toEqual({ mongo: 3, vector: 1 });
  });

  test("a retrieval request needs a key before its body is looked at", async () => {
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
    const small = await startGateway(config({ images: { maxBytes: 1024 }, limits: { bodyBytes: 1024 } }));
    try {
      const large = await small.post("/v1/match", {
        image: `data:image/png;base64,${"A".repeat(2_000_000)}`,
      });
      expect(await errorOf(large)).toMatchObject({ status: 413, code: "body_too_large" });
      const image = await small.post("/v1/match", { image: `data:image/png;base64,${"A".repeat(4000)}` });
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

  test("repair runs when a gateway starts, and again when a database comes back", async () => {
    await gateway.post("/v1/documents", { id: "interrupted", text: "half" });
    vector().fate = (name) => (name === "PUT /points" ? "lose" : "pass");
    expect((await gateway.post("/v1/documents", { id: "interrupted", text: "whole" })).status).toBe(503);
    vector().fate = () => "lose";
    const next = await startGateway(config());
    try {
      expect((await fetch(`${next.url}/v1/documents/interrupted`)).status).toBe(404);
      vector().fate = () => "pass";
      await until(async () => (await fetch(`${next.url}/v1/documents/interrupted`)).status === 200);
      expect(await (await fetch(`${next.url}/v1/documents/interrupted`)).json()).toMatchObject({
        text: "whole",
      });
    } finally {
      await next.app.close();
    }
  });
});
