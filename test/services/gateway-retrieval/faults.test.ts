/** Writes and deletions that are interrupted at every step: afterwards both databases agree, and nothing acknowledged is lost. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../mock-mongo/service-process.ts";
import { urlIn } from "../mock-vector/support.ts";
import { type Fate, failAlways, failOnce } from "./fault-proxies.ts";
import { useFaultyDatabases, useRepairingGateway } from "./faulty-databases.ts";
import { agree, agreed, contentsOf, dataUrl, picture, restartableService } from "./support.ts";
import { postDocuments, statusesOf } from "./writers.ts";

const faulty = useFaultyDatabases();
const { databases, mongo, vector, config, heal } = faulty;
const { gateway, write, remove, read, found, sweep } = useRepairingGateway(faulty);

type Step = readonly [database: "mongo" | "vector", request: string, fate: Fate];

function failStep([database, request, fate]: Step) {
  return database === "mongo" ? failOnce(mongo(), request, fate) : failAlways(vector(), request, fate);
}

describe("a write", () => {
  const steps: readonly Step[] = [
    ["mongo", "insert", "lose"],
    ["mongo", "insert", "loseAnswer"],
    ["vector", "PUT /points", "lose"],
    ["vector", "PUT /points", "loseAnswer"],
    ["mongo", "update", "lose"],
    ["mongo", "update", "loseAnswer"],
  ];

  it.each(steps)("of a new document survives %s %s: %s", async (...step) => {
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

  it.each(steps.filter(([, request]) => request !== "insert"))(
    "over an old document survives %s %s: %s",
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

  it("is finished by a retry as well, without repair", async () => {
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

  it("with an image is finished by repair from the image that is kept", async () => {
    failStep(["vector", "PUT /points", "lose"]);
    const bytes = await picture("purple", "orange");
    expect((await write({ id: "pictured", image: dataUrl(bytes) })).status).toBe(503);
    heal();
    await sweep();
    const response = await gateway().post("/v1/match", { image: dataUrl(bytes), topK: 1 });
    expect(await response.json()).toMatchObject({ matches: [{ id: "pictured" }] });
  });

  it("goes on when its client has left", async () => {
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

describe("a deletion", () => {
  it.each<Step>([
    ["mongo", "update", "lose"],
    ["mongo", "update", "loseAnswer"],
    ["vector", "POST /points/delete", "lose"],
    ["vector", "POST /points/delete", "loseAnswer"],
    ["mongo", "delete", "lose"],
    ["mongo", "delete", "loseAnswer"],
  ])("survives %s %s: %s", async (...step) => {
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

  it("that is not finished gives way to a new write", async () => {
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
});

describe("a database that is killed", () => {
  it("between the two writes comes back, and both agree", async () => {
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
});

describe("a gateway that is killed", () => {
  it("between the two writes leaves nothing that its successor does not finish by itself", async () => {
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
      await service.dispose();
      folder.remove();
    }
  });
});
