/** Databases and gateways that are killed, and what repair finds: afterwards both databases agree, and nothing acknowledged is lost. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { pointId } from "../../../containers/services/gateway/src/retrieval/content.ts";
import { type RunningGateway, startGateway, until } from "../gateway/support.ts";
import { type FakeTriton, startFakeTriton } from "./fake-triton.ts";
import { type FaultProxy, failAlways, failOnce, mongoProxy, vectorProxy } from "./fault-proxies.ts";
import {
  agree,
  contentsOf,
  type Databases,
  dataUrl,
  picture,
  retrievalConfig,
  startDatabases,
} from "./support.ts";

let databases: Databases;
let triton: FakeTriton;
let mongo: FaultProxy;
let vector: FaultProxy;
let gateway: RunningGateway;

beforeAll(async () => {
  [databases, triton] = await Promise.all([startDatabases(), startFakeTriton()]);
  [mongo, vector] = await Promise.all([mongoProxy(databases.mongo.port), vectorProxy(databases.vector.port)]);
});
afterAll(async () => {
  await Promise.all([mongo?.close(), vector?.close()]);
  await Promise.all([databases?.dispose(), triton?.close()]);
});
beforeEach(async () => {
  gateway = await startGateway(retrievalConfig(triton, { mongo: mongo.port, vector: vector.port }));
  await sweep();
});
afterEach(async () => {
  heal();
  await gateway.app.close();
});

const write = (body: unknown) => gateway.post("/v1/documents", body);
const remove = (id: string) => fetch(`${gateway.url}/v1/documents/${id}`, { method: "DELETE" });
const read = (id: string) => fetch(`${gateway.url}/v1/documents/${id}`);

async function sweep() {
  const { retrieval } = gateway.gateway;
  if (retrieval === undefined) throw new Error("the test's configuration has databases");
  return retrieval.repair.sweep(true);
}

function heal() {
  mongo.fate = () => "pass";
  vector.fate = () => "pass";
}

/** Kills of each database. */
const ROUNDS = 5;

describe("a database that is killed", () => {
  it("between the two writes comes back, and both agree", async () => {
    failOnce(vector, "PUT /points", "pass", () => databases.vector.kill());
    const documents = Array.from({ length: 30 }, (_, index) => ({
      id: `kill-${index}`,
      text: `killed ${index}`,
    }));
    const response = await write({ documents });
    expect([200, 503]).toContain(response.status);
    expect(await (await gateway.post("/v1/match", { text: "killed" })).json()).toMatchObject({
      error: { code: "vector_unavailable" },
    });
    await expect(sweep()).rejects.toThrow("vector database");
    await databases.vector.start();
    await sweep();
    const contents = await contentsOf(databases);
    expect(agree(contents)).toBe(true);
    expect(contents.documents.has("kill-0")).toBe(true);
  });

  it.each(["mongo", "vector"] as const)("under writes (%s) loses nothing acknowledged", async (name) => {
    /** What a document may hold: the last acknowledged text (at first none), or one that was sent after it without answer. */
    const possible = new Map<string, Set<string | undefined>>();
    let acknowledged = 0;
    const put = async (id: string, text: string) => {
      const texts = possible.get(id) ?? new Set([undefined]);
      possible.set(id, texts.add(text));
      const { ok } = await write({ id, text });
      if (!ok) return false;
      possible.set(id, new Set([text]));
      acknowledged += 1;
      return true;
    };
    for (let round = 0; round < ROUNDS; round++) {
      // The driver looks for a server that was away every half second.
      await until(() => put(`${name}-probe`, `round ${round}`));
      let isDown = false;
      const writers = Array.from({ length: 4 }, async (_, writer) => {
        for (let turn = 0; !isDown; turn++) {
          await put(`${name}-${writer}-${turn % 7}`, `round ${round} turn ${turn} of ${writer}`);
        }
      });
      // A moment that depends on what was done, not on how fast the machine is.
      const enough = acknowledged + 1 + Math.floor(Math.random() * 20);
      await until(() => acknowledged >= enough);
      await databases[name].kill();
      isDown = true;
      await Promise.all(writers);
      await databases[name].start();
    }
    await until(() => sweep().then(Boolean, () => false));
    const contents = await contentsOf(databases);
    expect(agree(contents)).toBe(true);
    expect(acknowledged).toBeGreaterThan(ROUNDS);
    for (const [id, texts] of possible) expect(texts).toContain(contents.documents.get(id)?.text);
  });
});

describe("a gateway that is killed", () => {
  it("between the two writes leaves nothing that its successor does not finish by itself", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gateway-killed-"));
    const config = join(folder, "gateway.json");
    const ports = { mongo: mongo.port, vector: vector.port };
    writeFileSync(config, JSON.stringify(retrievalConfig(triton, ports, { log: {} })));
    const image = dataUrl(await picture("lime", "maroon"));
    const documents = Array.from({ length: 20 }, (_, index) => ({
      id: `victim-${index}`,
      text: `victim ${index}`,
      ...(index === 0 && { image }),
    }));
    const first = await gatewayProcess(config);
    failOnce(vector, "PUT /points", "loseAnswer", () => first.kill());
    await expect(postTo(first.url, { documents })).rejects.toThrow("fetch failed");
    const { documents: left } = await contentsOf(databases);
    expect([...left.values()].some(({ state }) => state === "pending")).toBe(true);
    const second = await gatewayProcess(config);
    try {
      await until(async () => agree(await contentsOf(databases)));
      // A client that was not answered sends the same again.
      const response = await postTo(second.url, { documents });
      const results = ((await response.json()) as { documents: { status: string }[] }).documents;
      expect(new Set(results.map(({ status }) => status))).toEqual(new Set(["created", "unchanged"]));
      expect(agree(await contentsOf(databases))).toBe(true);
    } finally {
      await second.kill();
      rmSync(folder, { recursive: true });
    }
  });
});

interface GatewayProcess {
  readonly url: string;
  /** SIGKILL, and waits for the end. */
  kill(): Promise<void>;
}

async function gatewayProcess(config: string): Promise<GatewayProcess> {
  const main = fileURLToPath(new URL("../../../containers/services/gateway/src/main.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", main, "--config", config], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const address = () => /gateway listens on (http:\/\/[\d.:]+)/.exec(output)?.[1];
  await until(() => address() !== undefined || child.exitCode !== null);
  const kill = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  return { url: address() ?? "", kill };
}

function postTo(url: string, body: object): Promise<Response> {
  return fetch(`${url}/v1/documents`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

describe("repair", () => {
  it("fills a vector database that was emptied", async () => {
    await write({
      documents: Array.from({ length: 20 }, (_, index) => ({ id: `kept-${index}`, text: `kept ${index}` })),
    });
    await fetch(`http://127.0.0.1:${databases.vector.port}/collections/documents`, { method: "DELETE" });
    await sweep();
    const contents = await contentsOf(databases);
    expect(contents.points.size).toBeGreaterThanOrEqual(20);
    expect(agree(contents)).toBe(true);
  });

  it("removes vectors without a document, and leaves those of others alone", async () => {
    const point = (id: string, payload: object) => ({
      id,
      vector: { text: Array(64).fill(1) },
      payload,
    });
    const orphan = { documentId: "orphan", contentHash: "0".repeat(64), metadata: {} };
    const foreign = "11111111-1111-5111-8111-111111111111";
    await fetch(`http://127.0.0.1:${databases.vector.port}/collections/documents/points`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ points: [point(pointId("orphan"), orphan), point(foreign, { kind: "other" })] }),
    });
    await sweep();
    const at = (id: string) =>
      fetch(`http://127.0.0.1:${databases.vector.port}/collections/documents/points/${id}`);
    expect([(await at(pointId("orphan"))).status, (await at(foreign)).status]).toEqual([404, 200]);
    await fetch(`http://127.0.0.1:${databases.vector.port}/collections/documents/points/delete`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ points: [foreign] }),
    });
  });

  it("is not held up by a document that the encoder refuses", async () => {
    failAlways(vector, "PUT /points", "lose");
    await write({
      documents: [1, 2, 3].map((index) => ({
        id: `r${index}`,
        text: index === 2 ? "REFUSED" : `fine ${index}`,
      })),
    });
    heal();
    triton.behaviour.refuses = "REFUSED";
    expect(await sweep()).toMatchObject({ refused: 1 });
    triton.behaviour.refuses = undefined;
    const { documents } = await contentsOf(databases);
    expect(["r1", "r2", "r3"].map((id) => documents.get(id)?.state)).toEqual(["ready", "pending", "ready"]);
    await sweep();
    expect(agree(await contentsOf(databases))).toBe(true);
  });

  it("removes images that no document shows, after a while", async () => {
    await write({ id: "shown", image: dataUrl(await picture("teal", "gold")) });
    const { retrieval } = gateway.gateway;
    const call = { requestId: "test", signal: new AbortController().signal };
    const later = new Date(Date.now() + 1000);
    const before = (await contentsOf(databases)).images.length;
    await retrieval?.stores.images.removeUnused(later, call);
    const kept = (await contentsOf(databases)).images;
    expect(kept.length).toBeLessThanOrEqual(before);
    expect((await read("shown")).status).toBe(200);
    expect((await fetch(`${gateway.url}/v1/documents/shown/image`)).status).toBe(200);
    await remove("shown");
    expect((await contentsOf(databases)).images).toEqual(kept);
    expect(await retrieval?.stores.images.removeUnused(new Date(Date.now() + 1000), call)).toBe(1);
  });
});

describe("two gateways", () => {
  it("that write and delete the same documents at the same time end with databases that agree", async () => {
    const other = await startGateway(retrievalConfig(triton, { mongo: mongo.port, vector: vector.port }));
    try {
      const ids = Array.from({ length: 5 }, (_, index) => `both-${index}`);
      const work = [gateway, other].flatMap((one, side) =>
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
      expect(agree(await contentsOf(databases))).toBe(true);
      const last = ids.map((id) => ({ id, text: `the end of ${id}` }));
      expect((await other.post("/v1/documents", { documents: last })).status).toBe(200);
      const contents = await contentsOf(databases);
      expect(agree(contents)).toBe(true);
      for (const { id, text } of last) expect(contents.documents.get(id)?.text).toBe(text);
    } finally {
      await other.app.close();
    }
  });
});
