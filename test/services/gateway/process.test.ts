/** The gateway as a process: arguments, exit codes, signals, its log, and many connections. */

import { writeFileSync } from "node:fs";
import { Agent, get } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { freePort } from "../../harness/ports.ts";
import { needs } from "../../harness/requirements.ts";
import { times } from "../../harness/thorough.ts";
import { startFakeTriton } from "../gateway-retrieval/fake-triton.ts";
import { placesOf, retrievalConfig, startDatabases } from "../gateway-retrieval/support.ts";
import {
  logLines,
  openFilesLimit,
  residentBytes,
  type ServiceProcess,
  startService,
  temporaryFolder,
  until,
  urlIn,
} from "../service-process.ts";
import { CHAT, configOf, listenTcp, sha256, silentPeer } from "./support.ts";

const folder = temporaryFolder("gateway-process");
afterAll(() => folder.remove());

function run(config: unknown, ...args: string[]): ServiceProcess {
  const file = join(folder.path, `${Math.random().toString(36).slice(2)}.json`);
  writeFileSync(file, typeof config === "string" ? config : JSON.stringify(config));
  return startService("gateway", ["--config", file, ...args]);
}

const lines = (text: string) => text.trimEnd().split("\n");

test("the gateway prints only its address, in one JSON line", async () => {
  const port = await freePort();
  const gateway = run(configOf({ encoders: port, model: port }, { log: {} }));
  const line = await gateway.listening();
  const url = urlIn(line);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect(line).toMatchObject({ service: "gateway", msg: `gateway listens on ${url}` });
  expect(JSON.parse(lines(gateway.output.stdout)[0] ?? "")).toEqual(line);
  expect(gateway.output.stderr).toBe("");
  expect(await gateway.kill("SIGTERM")).toBe(0);
});

test("the gateway ends with 1 and one sentence when its port is taken", async () => {
  const { server, port } = await listenTcp((socket) => socket.destroy());
  const gateway = run(configOf({ encoders: 1, model: 1 }), "--port", String(port));
  expect(await gateway.exit).toBe(1);
  expect(lines(gateway.output.stderr)).toEqual([
    `The server can't listen: listen EADDRINUSE: address already in use 127.0.0.1:${port}; choose another port with --port, or another "host" in the configuration.`,
  ]);
  server.close();
});

test("the gateway ends with 1 and every problem of its configuration", async () => {
  const gateway = run({ port: -1, models: [{ name: "m" }], colour: "red" });
  expect(await gateway.exit).toBe(1);
  expect(lines(gateway.output.stderr)[0]).toMatch(/: 3 problems$/);
  expect(lines(gateway.output.stderr)).toHaveLength(4);
});

test.each([
  ["a configuration that is not JSON", "{", [], "is not valid JSON"],
  ["an unknown argument", "{}", ["--prot", "1"], "--prot"],
  ["a wrong port", "{}", ["--port", "80a"], "--port is 80a"],
])("the gateway ends with 1 and one sentence about %s", async (_what, config, args, message) => {
  const values = config === "{}" ? configOf({ encoders: 1, model: 1 }) : config;
  const gateway = run(values, ...args);
  expect(await gateway.exit).toBe(1);
  expect(lines(gateway.output.stderr)).toHaveLength(1);
  expect(gateway.output.stderr).toContain(message);
});

test("on SIGTERM the gateway finishes the running request, is not ready any more, and ends with 0", async () => {
  const peer = await silentPeer();
  const gateway = run(
    configOf({ encoders: peer.port, model: peer.port }, { log: {}, limits: { requestSeconds: 1 } }),
  );
  const url = urlIn(await gateway.listening());
  const running = fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(CHAT),
  });
  await until(() => peer.seen.opened === 1);
  const ended = gateway.kill("SIGTERM");
  await until(() => gateway.output.stdout.includes("stopping"));
  expect((await fetch(`${url}/readyz`)).status).toBe(503);
  expect((await running).status).toBe(504);
  expect(await ended).toBe(0);
  await peer.close();
});

test("the log has one line a request with its id, and neither texts nor keys", async () => {
  const port = await freePort();
  const gateway = run(
    configOf(
      { encoders: port, model: port },
      { log: { level: "trace" }, apiKeys: [{ name: "alice", sha256: sha256("sk-alice") }] },
    ),
  );
  const url = urlIn(await gateway.listening());
  const messages = [{ role: "user", content: "the launch code is 0000" }];
  for (const key of ["sk-alice", "sk-mallory"]) {
    await fetch(`${url}/v1/chat/completions?token=sk-query`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: `Bearer ${key}`,
        "x-request-id": `id-${key.slice(3)}`,
      },
      body: JSON.stringify({ ...CHAT, messages }),
    });
  }
  expect(await gateway.kill("SIGTERM")).toBe(0);
  const requests = logLines(gateway.output.stdout)
    .filter(({ msg }) => msg === "request")
    // A line is written after the response's last byte is sent, which may be after the next request has arrived.
    .toSorted((one, other) => (String(one.requestId) < String(other.requestId) ? -1 : 1));
  expect(requests).toMatchObject([
    {
      requestId: "id-alice",
      method: "POST",
      route: "/v1/chat/completions",
      status: 503,
      model: "smollm2",
      key: "alice",
    },
    { requestId: "id-mallory", status: 401, key: "" },
  ]);
  expect(gateway.output.stdout).not.toMatch(/launch code|sk-|Bearer/);
});

/** A client with one connection to a gateway, which is kept open. */
class Client {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  /** @returns The answer's text. @throws Error when the connection is closed before. */
  read(path: string): Promise<string> {
    return new Promise((resolve, reject) => {
      get(this.#url + path, { agent: this.#agent }, async (response) => {
        let text = "";
        for await (const chunk of response.setEncoding("utf8")) text += chunk;
        resolve(text);
      }).once("error", reject);
    });
  }

  /** Whether it has an idle connection. */
  get isOpen(): boolean {
    return Object.keys(this.#agent.freeSockets).length > 0;
  }

  leave(): void {
    this.#agent.destroy();
  }
}

test("a gateway for 3 connections closes the connection that is idle the longest for a fourth, counts and logs it", async () => {
  const peer = await silentPeer();
  const limits = { connections: 3, requestSeconds: 60 };
  const gateway = run(configOf({ encoders: peer.port, model: peer.port }, { limits, log: {} }));
  const url = new URL(urlIn(await gateway.listening()));
  const clients = Array.from({ length: 4 }, () => new Client(url.origin));
  const [first, second, third, fourth] = clients as [Client, Client, Client, Client];
  const busy = connect(Number(url.port), url.hostname).on("error", () => undefined);
  try {
    const body = JSON.stringify({ model: "all-MiniLM-L6-v2", input: "held" });
    busy.write(
      `POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await until(async () => /^gateway_places_taken 1$/m.test(await first.read("/metrics")));
    // The second is the last that was used.
    for (const client of [third, second]) expect(await client.read("/healthz")).toContain("ok");
    await until(() => !first.isOpen);
    expect(await fourth.read("/healthz")).toContain("ok");
    await until(() => !third.isOpen);
    expect(await second.read("/metrics")).toMatch(/^gateway_connections_dropped_total 2$/m);
    expect(busy.destroyed).toBe(false);
    const warnings = () => logLines(gateway.output.stdout).filter(({ level }) => level === 40);
    await until(() => warnings().length > 0);
    expect(warnings()).toMatchObject([
      {
        msg: "connection limit reached: idle connections are closed because 3 are open; raise limits.connections, or let clients reuse connections",
      },
    ]);
  } finally {
    for (const client of clients) client.leave();
    busy.destroy();
    await gateway.kill("SIGKILL");
    await peer.close();
  }
});

const CONNECTIONS = times(500, 6_000);
/** Memory of the gateway for each connection. */
const MOST_BYTES = 60 * 1024;
const tooFewFiles =
  openFilesLimit() < CONNECTIONS + 500
    ? "fewer open files allowed than the test needs: `ulimit -n 11000`"
    : undefined;

test(
  `a gateway with ${CONNECTIONS} idle connections stores and finds documents`,
  needs(tooFewFiles),
  async () => {
    const [databases, triton] = await Promise.all([startDatabases(), startFakeTriton()]);
    const gateway = run(retrievalConfig(triton, placesOf(databases), { log: {} }));
    const url = new URL(urlIn(await gateway.listening()));
    const sockets: Socket[] = [];
    /** A connection with one finished request. */
    const greeted = () =>
      new Promise<Socket>((resolve, reject) => {
        const socket = connect(Number(url.port), url.hostname);
        socket.once("error", reject);
        socket.once("data", () => resolve(socket));
        socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
      });
    const post = async (path: string, body: object) =>
      fetch(new URL(path, url), {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    try {
      const pid = gateway.child.pid ?? 0;
      const storeDocuments = async () => {
        for (let index = 0; index < 20; index++) {
          const stored = await post("/v1/documents", { id: `d-${index}`, text: `Document ${index}` });
          expect(stored.status).toBe(200);
        }
      };
      // The first documents load code, whose memory is not that of connections.
      await storeDocuments();
      const before = residentBytes(pid);
      while (sockets.length < CONNECTIONS) {
        sockets.push(...(await Promise.all(Array.from({ length: 250 }, greeted))));
      }
      await storeDocuments();
      const found = (await (await post("/v1/match", { text: "Document 7" })).json()) as {
        matches: { id: string }[];
      };
      expect(found.matches).toHaveLength(5);
      expect(residentBytes(pid) - before).toBeLessThan(CONNECTIONS * MOST_BYTES);
    } finally {
      for (const socket of sockets) socket.destroy();
      await gateway.kill("SIGKILL");
      await Promise.all([databases.dispose(), triton.close()]);
    }
  },
);
