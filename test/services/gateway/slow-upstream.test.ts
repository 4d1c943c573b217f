/** Requests whose upstream, or whose client, stays silent, like a machine that hangs. */
import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { drain } from "../../../containers/services/gateway/src/request-lifecycle.ts";
import { until } from "../service-process.ts";
import {
  CHAT,
  configOf,
  errorOf,
  type RunningGateway,
  type SilentPeer,
  silentPeer,
  startGateway,
} from "./support.ts";

let peer: SilentPeer;
let gateway: RunningGateway | undefined;

async function start(limits: object): Promise<RunningGateway> {
  gateway = await startGateway(configOf({ encoders: peer.port, model: peer.port }, { limits }));
  return gateway;
}

beforeEach(async () => {
  peer = await silentPeer();
});
afterEach(async () => {
  await gateway?.app.close();
  gateway = undefined;
  await peer.close();
});

test("a request to a silent upstream ends as 504 after its time limit, and its connection is closed", async () => {
  const { post } = await start({ requestSeconds: 0.3 });
  for (const body of [CHAT, { ...CHAT, stream: true }]) {
    const response = await post("/v1/chat/completions", body);
    expect(response.status).toBe(504);
    expect(await response.json()).toMatchObject({
      error: { type: "timeout_error", code: "timeout", message: expect.stringContaining("0.3 s") },
    });
  }
  expect((await post("/v1/embeddings", { model: "all-MiniLM-L6-v2", input: "a" })).status).toBe(504);
  await until(() => peer.seen.closed >= 3);
});

test("a request to a silent upstream ends when its client leaves", async () => {
  const { url, gateway: parts } = await start({});
  const client = new AbortController();
  const answer = fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...CHAT, stream: true }),
    signal: client.signal,
  });
  await until(() => peer.seen.opened === 1);
  client.abort();
  await expect(answer).rejects.toThrow();
  await until(() => peer.seen.closed === 1 && parts.limiter.taken === 0);
  const text = await parts.metrics.registry.metrics();
  expect(text).toMatch(
    /^gateway_http_requests_total\{route="\/v1\/chat\/completions",model="smollm2",status="499"\} 1$/m,
  );
});

test("requests to a silent upstream hold their places, and a full queue refuses the next request with Retry-After", async () => {
  const { post, gateway: parts } = await start({
    requestSeconds: 0.8,
    concurrentRequests: 1,
    queuedRequests: 1,
  });
  const running = post("/v1/chat/completions", CHAT);
  await until(() => parts.limiter.taken === 1);
  const queued = post("/v1/chat/completions", CHAT);
  await until(() => parts.limiter.waiting === 1);
  const refused = await post("/v1/chat/completions", CHAT);
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("1");
  expect(await refused.json()).toMatchObject({ error: { code: "overloaded" } });
  expect((await running).status).toBe(504);
  expect((await queued).status).toBe(504);
  expect([parts.limiter.taken, parts.limiter.waiting]).toEqual([0, 0]);
});

test("while requests to a silent upstream fill the memory, others are refused and probes are answered", async () => {
  const { url, post, gateway: parts } = await start({ memoryBytes: 256 * 1024, bodyBytes: 64 * 1024 });
  const large = { model: "all-MiniLM-L6-v2", input: "x".repeat(60_000) };
  const left = new AbortController();
  const held = [1, 2].map(() =>
    fetch(`${url}/v1/embeddings`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(large),
      signal: left.signal,
    }),
  );
  await until(() => parts.limiter.taken === 2);
  const refused = await post("/v1/embeddings", large);
  expect(refused.status).toBe(503);
  expect(await refused.json()).toMatchObject({ error: { code: "overloaded" } });
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect((await fetch(`${url}/metrics`)).status).toBe(200);
  left.abort();
  await Promise.allSettled(held);
  await until(() => parts.memory.bytes === 0);
});

test("a wrong request is refused at once while a silent upstream holds all places", async () => {
  const { post, gateway: parts } = await start({
    requestSeconds: 0.8,
    concurrentRequests: 1,
    queuedRequests: 0,
  });
  const running = post("/v1/chat/completions", CHAT);
  await until(() => parts.limiter.taken === 1);
  expect((await post("/v1/chat/completions", { ...CHAT, temperature: 9 })).status).toBe(400);
  expect((await running).status).toBe(504);
});

test("a gateway that stops finishes running requests, refuses new requests, and then closes its port", async () => {
  const server = await start({ requestSeconds: 0.8 });
  const running = server.post("/v1/chat/completions", CHAT);
  await until(() => server.gateway.limiter.taken === 1);
  const stopped = drain(server);
  const ready = await fetch(`${server.url}/readyz`);
  expect(ready.status).toBe(503);
  expect(await errorOf(ready)).toMatchObject({ code: "not_ready", message: "The gateway is being stopped." });
  const refused = await server.post("/v1/chat/completions", CHAT);
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("1");
  expect(refused.headers.get("connection")).toBe("close");
  // The running request reached its own time limit before the gateway's.
  expect((await running).status).toBe(504);
  await stopped;
  await expect(fetch(`${server.url}/healthz`)).rejects.toThrow();
});

/** Sends several requests in a row, and does not read their responses. */
async function flood({ url }: RunningGateway, count: number, request: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.on("error", () => undefined).pause();
  socket.write(request.repeat(count));
  await new Promise((resolve) => socket.once("connect", resolve));
  return socket;
}

test("a client that does not read its answers is disconnected after the time limit", async () => {
  const server = await start({ readSeconds: 0.5 });
  const { gateway: parts } = server;
  const socket = await flood(server, 400, "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n");
  await until(() => parts.inFlight > 0);
  await until(() => parts.inFlight === 0);
  await drain(server);
  socket.destroy();
});

test("a client that sends requests in a row and leaves holds no place", async () => {
  const server = await start({ concurrentRequests: 8 });
  const { gateway: parts } = server;
  const body = JSON.stringify(CHAT);
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`;
  const socket = await flood(server, 20, `${head}\r\n\r\n${body}`);
  await until(() => parts.limiter.taken === 8 && parts.limiter.waiting === 12);
  socket.destroy();
  await until(() => parts.limiter.taken === 0 && parts.limiter.waiting === 0 && parts.inFlight === 0);
  await until(() => peer.seen.closed === peer.seen.opened);
});
