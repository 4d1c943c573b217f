/** Many clients that hold a connection, and one that works. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { closedPort, until } from "../gateway/support.ts";
import { openFilesLimit, residentBytes } from "../mock-mongo/service-process.ts";
import { useDatabasesAndTriton } from "./databases-and-triton.ts";

const MAIN = fileURLToPath(new URL("../../../containers/services/gateway/src/main.ts", import.meta.url));
const CONNECTIONS = 10_000;
const AT_A_TIME = 250;
/** Of the gateway, for each connection. */
const MOST_BYTES = 60 * 1024;
const tooFewFiles = openFilesLimit() < CONNECTIONS + 500;

const { config } = useDatabasesAndTriton();
let gateway: ChildProcess;
let url: URL;
const folder = mkdtempSync(join(tmpdir(), "gateway-connections-"));
const sockets: Socket[] = [];

beforeAll(async () => {
  const port = await closedPort();
  url = new URL(`http://127.0.0.1:${port}`);
  const file = join(folder, "gateway.json");
  writeFileSync(file, JSON.stringify(config({ log: { level: "error" } })));
  gateway = spawn(process.execPath, ["--import", "tsx", MAIN, "--config", file, "--port", String(port)], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  await until(() =>
    fetch(new URL("/readyz", url)).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
});

afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  const ended = new Promise((resolve) => gateway.once("close", resolve));
  gateway.kill("SIGKILL");
  await ended;
  rmSync(folder, { recursive: true, force: true });
});

/** A connection that has asked for something and been answered. */
function greeted(): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(url.port), url.hostname);
    socket.once("error", reject);
    socket.once("data", () => resolve(socket));
    socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  });
}

// A process that may open fewer files can't have that many connections; `ulimit -n 11000` lets it.
test.skipIf(tooFewFiles)(`${CONNECTIONS} connections wait while one stores and finds`, async () => {
  const before = residentBytes(gateway.pid ?? 0);
  while (sockets.length < CONNECTIONS) {
    sockets.push(...(await Promise.all(Array.from({ length: AT_A_TIME }, greeted))));
  }
  const post = async (path: string, body: object) =>
    fetch(new URL(path, url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  for (let index = 0; index < 20; index++) {
    expect((await post("/v1/documents", { id: `d-${index}`, text: `Document ${index}` })).status).toBe(200);
  }
  const found = (await (await post("/v1/match", { text: "Document 7" })).json()) as {
    matches: { id: string }[];
  };
  expect(found.matches).toHaveLength(5);
  expect(residentBytes(gateway.pid ?? 0) - before).toBeLessThan(CONNECTIONS * MOST_BYTES);
});
