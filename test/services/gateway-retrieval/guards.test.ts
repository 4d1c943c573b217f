/** What retrieval shares with the other routes: keys, probes, time-outs, request ids, metrics, the API's description. */
import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  closedPort,
  configOf,
  errorOf,
  type RunningGateway,
  sha256,
  silentPeer,
  startGateway,
  until,
} from "../gateway/support.ts";
import { useFaultyDatabases } from "./faulty-databases.ts";
import { retrievalConfig } from "./support.ts";

const { triton, mongo, vector, ports, config } = useFaultyDatabases();
let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startGateway(config());
});
afterAll(async () => {
  await gateway?.app.close();
});

const ROUTES = [
  ["POST", "/v1/documents"],
  ["GET", "/v1/documents"],
  ["GET", "/v1/documents/a"],
  ["DELETE", "/v1/documents/a"],
  ["POST", "/v1/match"],
  ["POST", "/v1/answer"],
] as const;

describe("without databases", () => {
  it("every route says what is missing, whatever it is sent", async () => {
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
});

describe("a database that is away", () => {
  it("makes its requests 503 with Retry-After, and is named by /readyz", async () => {
    const port = await closedPort();
    for (const name of ["mongo", "vector"] as const) {
      const halfPorts = { ...ports(), [name]: port };
      const half = await startGateway(retrievalConfig(triton(), halfPorts));
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

  it("and hangs is left when the request's time is over", async () => {
    const peer = await silentPeer();
    for (const name of ["mongo", "vector"] as const) {
      const halfPorts = { ...ports(), [name]: peer.port };
      const half = await startGateway(
        retrievalConfig(triton(), halfPorts, { limits: { requestSeconds: 1 } }),
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

  it("is a fault of its own where it answers nonsense", async () => {
    const strange = await startGateway(
      retrievalConfig(triton(), { ...ports(), vector: Number(new URL(triton().url).port) }),
    );
    try {
      const error = await errorOf(await strange.post("/v1/match", { text: "a" }));
      expect(error).toMatchObject({ status: 502, code: "vector_failed" });
    } finally {
      await strange.app.close();
    }
  });
});

describe("a collection of other vectors", () => {
  it("is reported with both lengths and the way on", async () => {
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
});

describe("a request", () => {
  it("has one id in Triton, in the vector database, and in MongoDB", async () => {
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

  it("needs a key where there are keys, before its body is looked at", async () => {
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

  it("has a body as large as an image may be, and no larger", async () => {
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

  it("is counted, by what came of it", async () => {
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
});

describe("the description", () => {
  it("is valid, and has every route with its forms", async () => {
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
});

describe("repair", () => {
  it("runs when a gateway starts, and goes on by itself when a database comes back", async () => {
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
