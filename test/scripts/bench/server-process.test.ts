import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { freePort, startServer } from "../../../scripts/bench/server-process.ts";

const directory = mkdtempSync(join(tmpdir(), "engine-room-bench-server-"));
afterAll(() => rmSync(directory, { recursive: true }));

async function start(script: (port: number) => string, readySeconds = 100) {
  const port = await freePort();
  const readyUrl = `http://127.0.0.1:${port}/`;
  const command = [process.execPath, "-e", script(port)] as const;
  return {
    readyUrl,
    server: startServer({ name: "It", command, log: join(directory, `${port}`), readyUrl, readySeconds }),
  };
}

const answering = (status: number) => (port: number) =>
  `require("node:http").createServer((_, reply) => reply.writeHead(${status}).end()).listen(${port}, "127.0.0.1")`;

describe("a benchmark's server", () => {
  test("is there when it is ready, and gone when it is stopped", async () => {
    const { readyUrl, server } = await start(answering(200));
    const { stop } = await server;
    expect((await fetch(readyUrl)).status).toBe(200);
    await stop();
    await expect(fetch(readyUrl)).rejects.toThrow("fetch failed");
  });

  test("that ends before it is ready says why", async () => {
    const { server } = await start(() => `console.error("no such model"); process.exit(7)`);
    await expect(server).rejects.toThrow("It ended (7) before it was ready:\nno such model");
  });

  test("whose program is absent is named", async () => {
    const command = [join(directory, "absent")] as const;
    const readyUrl = `http://127.0.0.1:${await freePort()}/`;
    await expect(startServer({ name: "It", command, readyUrl, readySeconds: 100 })).rejects.toThrow(/ENOENT/);
  });

  test("that does not get ready is stopped", async () => {
    const { readyUrl, server } = await start(answering(503), 2);
    await expect(server).rejects.toThrow("It was not ready after 2 s.");
    await expect(fetch(readyUrl)).rejects.toThrow("fetch failed");
  });
});
