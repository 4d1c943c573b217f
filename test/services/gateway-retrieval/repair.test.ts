/** What repair finds and mends, and two gateways on the same databases. */
import { MongoClient } from "mongodb";
import { describe, expect, it } from "vitest";
import { pointId } from "../../../containers/services/gateway/src/retrieval/content.ts";
import { startGateway } from "../gateway/support.ts";
import { failAlways } from "./fault-proxies.ts";
import { useFaultyDatabases, useRepairingGateway } from "./faulty-databases.ts";
import { agree, contentsOf, dataUrl, picture } from "./support.ts";

const faulty = useFaultyDatabases();
const { databases, triton, vector, config, heal } = faulty;
const { gateway, write, remove, read, found, sweep } = useRepairingGateway(faulty);

describe("repair", () => {
  it("fills a vector database that was emptied", async () => {
    await write({
      documents: Array.from({ length: 20 }, (_, index) => ({ id: `kept-${index}`, text: `kept ${index}` })),
    });
    await fetch(`http://127.0.0.1:${databases().vector.port}/collections/documents`, { method: "DELETE" });
    await sweep();
    const contents = await contentsOf(databases());
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
    await fetch(`http://127.0.0.1:${databases().vector.port}/collections/documents/points`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ points: [point(pointId("orphan"), orphan), point(foreign, { kind: "other" })] }),
    });
    await sweep();
    const at = (id: string) =>
      fetch(`http://127.0.0.1:${databases().vector.port}/collections/documents/points/${id}`);
    expect([(await at(pointId("orphan"))).status, (await at(foreign)).status]).toEqual([404, 200]);
    await fetch(`http://127.0.0.1:${databases().vector.port}/collections/documents/points/delete`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ points: [foreign] }),
    });
  });

  it("is not held up by a document that the encoder refuses", async () => {
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

  it("removes images that no document shows, after a while", async () => {
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
});

describe("an image that was lost", () => {
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
        .db("engine_room")
        .collection<{ _id: string }>("images")
        .deleteOne({ _id: sha256 ?? "" });
      expect(deletedCount).toBe(1);
    } finally {
      await client.close();
    }
  }

  it("keeps an unfinished write unfinished, not found by its text alone, until it is stored again", async () => {
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

  it("hides a document whose vectors are lost as well, until it is stored again", async () => {
    const document = {
      id: "burnt",
      text: "a burnt photograph",
      image: dataUrl(await picture("red", "black")),
    };
    await write(document);
    await loseImage("burnt");
    await fetch(`http://127.0.0.1:${databases().vector.port}/collections/documents`, { method: "DELETE" });
    expect(await sweep()).toMatchObject({ refused: 1 });
    const { documents, points } = await contentsOf(databases());
    expect([documents.get("burnt")?.state, points.has("burnt")]).toEqual(["pending", false]);
    expect((await read("burnt")).status).toBe(404);
    expect(await statusOf(document)).toBe("updated");
    expect(await image("burnt")).toBe(200);
    expect(agree(await contentsOf(databases()))).toBe(true);
  });

  it("leaves a finished document found, and comes back when it is stored again", async () => {
    const document = { id: "torn", text: "a torn photograph", image: dataUrl(await picture("snow", "plum")) };
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

describe("two gateways", () => {
  it("that write and delete the same documents at the same time end with databases that agree", async () => {
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
