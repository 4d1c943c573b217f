/** Thousands of connections to the document database. */
import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { openFilesLimit, residentBytes } from "./service-process.ts";
import { message, withMongo } from "./support.ts";

const CONNECTIONS = 10_000;
const tooFewFiles = openFilesLimit() < CONNECTIONS + 500;

// A process that may open fewer files can't have that many connections; `ulimit -n 11000` lets it.
test.skipIf(tooFewFiles)(`${CONNECTIONS} connections wait while one works`, async () => {
  await withMongo(async (other, running) => {
    const { port: realPort } = running;
    const pid = running.service.child.pid ?? 0;
    const before = residentBytes(pid);
    const idle: Socket[] = [];
    try {
      while (idle.length < CONNECTIONS) {
        const some = Array.from({ length: 250 }, () => connect(realPort, "127.0.0.1"));
        idle.push(...some);
        await Promise.all(
          some.map(
            (socket) =>
              new Promise((resolve, reject) => {
                socket.once("error", reject);
                // A handshake, as a driver's, so that each of them has been served once.
                socket.once("data", resolve);
                socket.write(message({ hello: 1, $db: "admin" }));
              }),
          ),
        );
      }
      const collection = other.db("d").collection("c");
      for (let n = 0; n < 100; n++) await collection.insertOne({ n });
      expect(await collection.countDocuments()).toBe(100);
      const text = await (await fetch(`http://127.0.0.1:${running.metricsPort}/metrics`)).text();
      expect(Number(/^mongo_connections (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(CONNECTIONS);
      expect(residentBytes(pid) - before).toBeLessThan(CONNECTIONS * 40 * 1024);
    } finally {
      for (const socket of idle) socket.destroy();
    }
  });
});
