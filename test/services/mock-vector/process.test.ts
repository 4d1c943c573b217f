/** The vector database as a process: arguments, exit codes, signals, its lock, its log and its metrics. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { logLines, temporaryFolder, until } from "../mock-mongo/service-process.ts";
import { testStarts } from "../mock-mongo/start-tests.ts";
import { clientOf, HEAVY_SEARCH, heavyCollection, MAIN, startVector } from "./support.ts";

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder("vector-process");
});
afterEach(() => folder.remove());

const lines = (text: string) => text.trimEnd().split("\n");

describe("start", () => {
  testStarts(
    {
      main: MAIN,
      file: "vectors.lmdb",
      portOptions: ["--port"],
      start: async (data) => {
        const { service, url } = await startVector(data);
        return { service, firstLine: { service: "vector", msg: `vector listens on ${url}` } };
      },
    },
    () => folder.path,
  );
});

describe("SIGTERM", () => {
  it("lets requests that run be answered", async () => {
    const { service, url } = await startVector(folder.path);
    const client = clientOf(url);
    await heavyCollection(client);
    const running = fetch(`${url}/collections/c/points/query/batch`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": "last" },
      body: JSON.stringify({ searches: new Array(100).fill(HEAVY_SEARCH) }),
    });
    await until(async () =>
      /^vector_transit_bytes [1-9]/m.test(await (await fetch(`${url}/metrics`)).text()),
    );
    const ended = service.kill("SIGTERM");
    expect(((await (await running).json()) as { result: unknown[] }).result).toHaveLength(100);
    expect(await ended).toBe(0);
  });
});

describe("what can be observed", () => {
  it("has a line a request with its id, and neither payloads nor vectors", async () => {
    const { service, url } = await startVector(folder.path);
    const call = (path: string, id: string, body: object, method = "POST") =>
      fetch(`${url}${path}`, {
        method,
        headers: { "content-type": "application/json", "x-request-id": id },
        body: JSON.stringify(body),
      });
    await call("/collections/c", "req-1", { vectors: { size: 1, distance: "Dot" } }, "PUT");
    const points = [{ id: 1, vector: [1.2345], payload: { secret: "the launch code" } }];
    await call("/collections/c/points", "req-2", { points }, "PUT");
    await call("/collections/none/points/query", 'evil"} {', { query: [1] });
    await service.kill("SIGTERM");
    const requests = logLines(service.output.stdout).filter(({ msg }) => msg === "request");
    expect(requests).toMatchObject([
      {
        service: "vector",
        level: 30,
        requestId: "req-1",
        method: "PUT",
        route: "/collections/:name",
        collection: "c",
        status: 200,
      },
      { requestId: "req-2", route: "/collections/:name/points", milliseconds: expect.any(Number) },
      { requestId: expect.stringMatching(/^[\da-f-]{36}$/), collection: "none", status: 404 },
    ]);
    expect(service.output.stdout).not.toMatch(/launch code|1\.2345|evil/);
  });

  it("is at /metrics, /healthz, /livez and /readyz, with no client's text in a label", async () => {
    const { service, url } = await startVector(folder.path);
    const client = clientOf(url);
    await client.createCollection("c", { vectors: { size: 1, distance: "Dot" } });
    await client.upsert("c", {
      points: [
        { id: 1, vector: [1] },
        { id: 2, vector: [1] },
      ],
    });
    await fetch(`${url}/evil%22%7D`);
    for (const path of ["/healthz", "/livez", "/readyz"]) expect((await fetch(url + path)).status).toBe(200);
    const text = await (await fetch(`${url}/metrics`)).text();
    for (const line of [
      'vector_http_request_duration_seconds_count{method="PUT",route="/collections/:name/points",status="200"} 1',
      'vector_http_request_duration_seconds_count{method="GET",route="unknown",status="404"} 1',
      "vector_collections 1",
      "vector_points 2",
      "vector_transit_bytes 0",
    ]) {
      expect(lines(text)).toContain(line);
    }
    expect(text).toMatch(/^vector_store_bytes [1-9]\d+$/m);
    expect(text).not.toContain("evil");
    await service.kill("SIGTERM");
  });
});
