/** Databases whose disk is full for a while. */
import { expect, test } from "vitest";
import { needs } from "../../harness/requirements.ts";
import { startGateway } from "../gateway/support.ts";
import { smallDisk, smallDiskMissing } from "../small-disk.ts";
import { foundBy } from "./document-writes.ts";
import { startFakeTriton } from "./fake-triton.ts";
import { agreed, placesOf, postDocuments, retrievalConfig, startDatabases, statusesOf } from "./support.ts";

const DISK_MEBIBYTES = 16;
const LARGE_TEXT = "large ".repeat(10_000);

test("a full disk ends neither database: writes are refused, reads are answered, and writes succeed again with room", {
  ...needs(smallDiskMissing()),
}, async () => {
  const disk = smallDisk(DISK_MEBIBYTES);
  const [databases, triton] = await Promise.all([startDatabases(disk.path), startFakeTriton()]);
  const gateway = await startGateway(retrievalConfig(triton, placesOf(databases)));
  const write = (id: string) => postDocuments(gateway.url, [{ id, text: LARGE_TEXT }]);
  /** Fills the vector database directly, because vectors of documents are too small to need new disk space. */
  const upsert = () =>
    fetch(`http://127.0.0.1:${databases.vector.port}/collections/${databases.area}/points`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ points: [{ id: 1, vector: {}, payload: { text: LARGE_TEXT } }] }),
    });
  try {
    expect(await statusesOf(write("before"))).toEqual(["created"]);
    disk.fill();
    for (let turn = 0; turn < 3; turn++) {
      await expect(statusesOf(write(`during-${turn}`))).rejects.toThrow(/HTTP 50[23]/);
      expect((await upsert()).status).toBe(500);
      expect(await foundBy(gateway.url)).toEqual(["before"]);
    }
    disk.free();
    expect(await statusesOf(write("after"))).toEqual(["created"]);
    expect([...(await agreed(databases)).documents.keys()].sort()).toEqual(["after", "before"]);
    expect(await foundBy(gateway.url)).toEqual(["after", "before"]);
    for (const database of [databases.mongo, databases.vector])
      expect(database.current().child.exitCode).toBe(null);
  } finally {
    await gateway.app.close();
    await Promise.all([databases.dispose(), triton.close()]);
    disk.remove();
  }
});
