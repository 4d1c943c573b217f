/** The vector database as a process: arguments, exit codes, signals, its lock, its log and its metrics. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { logLines, startService, temporaryFolder, until } from "../mock-mongo/service-process.ts";
import { clientOf, HEAVY_SEARCH, heavyCollection, MAIN, startVector } from "./support.ts";

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder("vector-process");
});
afterEach(() => folder.remove());

const lines = (text: string) => text.trimEnd().split("\n");

describe("start", () => {
  it("says in one JSON line where it listens, and ends with 0 on SIGTERM and on SIGINT", async () => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      const { service, url } = await startVector(folder.path);
      expect(logLines(service.output.stdout)).toMatchObject([
        { service: "vector", msg: `vector listens on ${url}` },
      ]);
      expect(await service.kill(signal)).toBe(0);
      expect(service.output.stderr).toBe("");
    }
  });

  it.each([
    ["no data directory", [], "--data is missing"],
    ["an unknown argument", ["--data", "x", "--prot", "1"], "--prot"],
    ["a wrong port", ["--data", "x", "--port", "80a"], "--port is 80a"],
    ["a wrong level", ["--data", "x", "--log-level", "loud"], "--log-level is loud"],
  ])("ends with 1 and one sentence about %s", async (_what, args, message) => {
    const service = startService(MAIN, args);
    expect(await service.exit).toBe(1);
    expect(lines(service.output.stderr)).toHaveLength(1);
    expect(service.output.stderr).toContain(message);
  });

  it("ends with 1 and one sentence when the port is taken, or the data can't be opened", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as { port: number };
    const file = join(folder.path, "file");
    writeFileSync(file, "");
    const damaged = join(folder.path, "damaged");
    mkdirSync(damaged);
    writeFileSync(join(damaged, "vectors.lmdb"), "no database ".repeat(1000));
    for (const [data, to, message] of [
      [join(folder.path, "data"), port, `Port ${port} of 127.0.0.1 is taken by another process; `],
      [file, 0, `The data in ${file} can't be opened: `],
      [damaged, 0, `The data in ${damaged} can't be opened: vectors.lmdb is no LMDB file; `],
    ] as const) {
      const service = startService(MAIN, ["--data", data, "--port", String(to)]);
      expect(await service.exit).toBe(1);
      expect(lines(service.output.stderr)).toHaveLength(1);
      expect(service.output.stderr).toContain(message);
    }
    other.close();
  });

  it("is refused while another process has the directory, by any path, and not after it was killed", async () => {
    const data = join(folder.path, "data");
    mkdirSync(data);
    const link = join(folder.path, "link");
    symlinkSync(data, link);
    const { service: first } = await startVector(data);
    const second = startService(MAIN, ["--data", link, "--port", "0"]);
    expect(await second.exit).toBe(1);
    expect(lines(second.output.stderr)).toEqual([
      `Another process uses the data in ${link}; stop it, or choose another directory with --data.`,
    ]);
    await first.kill("SIGKILL");
    const { service: third } = await startVector(data);
    expect(await third.kill("SIGTERM")).toBe(0);
  });
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
