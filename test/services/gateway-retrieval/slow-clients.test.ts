/** Clients that send or read slowly or not at all, while the gateway serves other clients. */
import { connect, type Socket } from "node:net";
import { afterEach, beforeAll, expect, test } from "vitest";
import { type RunningGateway, startGateway } from "../gateway/support.ts";
import { until } from "../service-process.ts";
import { postDocuments, useDatabasesAndTriton } from "./support.ts";

const shared = useDatabasesAndTriton();
const DOCUMENTS = 50;
const TEXT_BYTES = 60_000;
const PLACES = 4;
const READERS = 6;
/** In a row on one connection: the system's own buffers hold some megabytes of their answers. */
const MATCHES = 12;
const MATCH = { text: "long", topK: DOCUMENTS, textCharacters: 20_000 };

let gateway: RunningGateway | undefined;
let readers: Socket[] = [];

async function start(limits: object): Promise<RunningGateway> {
  gateway = await startGateway(shared.config({ limits: { concurrentRequests: PLACES, ...limits } }));
  return gateway;
}

function request(path: string, body: object): string {
  const text = JSON.stringify(body);
  return `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
}

/** Sends requests for a megabyte each and for a stream, does not read, and waits until all responses are finished. */
async function askAndReadNothing({ url, gateway: { limiter } }: RunningGateway): Promise<void> {
  const stream = request("/v1/answer", { question: "long", stream: true });
  for (let index = 0; index < READERS; index++) {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.on("error", () => undefined).pause();
    socket.write(request("/v1/match", MATCH).repeat(MATCHES) + stream);
    readers.push(socket);
  }
  await until(() => limiter.waiting > 0);
  await until(() => limiter.taken === 0);
}

beforeAll(async () => {
  const { url, app } = await startGateway(shared.config());
  for (let first = 0; first < DOCUMENTS; first += 10) {
    const documents = Array.from({ length: 10 }, (_, index) => ({
      id: `long-${first + index}`,
      text: `long ${"x".repeat(TEXT_BYTES)}`,
    }));
    expect((await postDocuments(url, documents)).status).toBe(200);
  }
  await app.close();
});
afterEach(async () => {
  for (const socket of readers) socket.destroy();
  readers = [];
  await gateway?.app.close();
  gateway = undefined;
});

test("clients that do not read hold no place, and others are answered", async () => {
  const server = await start({});
  await askAndReadNothing(server);
  const { inFlight } = server.gateway;
  expect(inFlight).toBeGreaterThan(READERS * 2);
  expect((await server.post("/v1/match", MATCH)).status).toBe(200);
  expect(server.gateway.inFlight).toBe(inFlight);
});

test("unread responses have a memory limit, above which the clients that are behind the longest are disconnected", async () => {
  const memoryBytes = 16 * 1024 * 1024;
  const server = await start({ memoryBytes, bodyBytes: 1024 * 1024 });
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, server.gateway.memory.bytes);
  }, 1);
  await askAndReadNothing(server);
  clearInterval(watch);
  expect(most).toBeGreaterThan(memoryBytes / 2);
  expect(most).toBeLessThanOrEqual(memoryBytes);
  await until(() => server.gateway.inFlight < (READERS - 1) * MATCHES);
  expect(server.gateway.inFlight).toBeGreaterThan(0);
  const text = await (await server.post("/v1/match", MATCH)).text();
  expect(text.length).toBeGreaterThan(1_000_000);
});

test("uploads that stop in the middle are ended when memory is full, the oldest first", async () => {
  const MIB = 1024 * 1024;
  const server = await start({ memoryBytes: 4 * MIB, bodyBytes: MIB });
  const whole = request("/v1/documents", { id: "slow", text: "slow", metadata: { filler: "x".repeat(MIB) } });
  const answers = Array.from({ length: READERS }, () => "");
  for (let index = 0; index < READERS; index++) {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    socket
      .on("error", () => undefined)
      .on("data", (chunk) => {
        answers[index] += String(chunk);
      });
    socket.write(whole.slice(0, 900_000));
    readers.push(socket);
    await until(() => server.gateway.memory.bytes > 800_000 * Math.min(index + 1, 3));
  }
  // Memory has room for four; each of the last two replaced the oldest.
  await until(() => answers.slice(0, 2).every((text) => text.endsWith("}")));
  expect(answers.map((text) => text.slice(0, 12))).toEqual(["HTTP/1.1 503", "HTTP/1.1 503", "", "", "", ""]);
  expect(answers[0]).toContain('"code":"overloaded"');
  const large = { id: "large", text: `large ${"x".repeat(TEXT_BYTES)}` };
  expect(
    (
      await postDocuments(
        server.url,
        Array(10)
          .fill(large)
          .map((one, index) => ({ ...one, id: `large-${index}` })),
      )
    ).status,
  ).toBe(200);
  expect(answers[2]).toContain("503");
  expect(server.gateway.memory.bytes).toBeLessThanOrEqual(4 * MIB);
});

test("a text of a match is cut to the requested length, between characters", async () => {
  const server = await start({});
  const documents = [{ id: "emoji", text: "smile 😀😀😀" }];
  await postDocuments(server.url, documents);
  const match = async (body: object) => {
    const response = await server.post("/v1/match", { text: "smile 😀😀😀", topK: 1, ...body });
    return ((await response.json()) as { matches: object[] }).matches;
  };
  expect(await match({})).toMatchObject([{ text: "smile 😀😀😀", textTruncated: false }]);
  expect(await match({ textCharacters: 9 })).toMatchObject([{ text: "smile 😀", textTruncated: true }]);
  expect(await match({ textCharacters: 0 })).toMatchObject([{ text: "", textTruncated: true }]);
  const tooMuch = await server.post("/v1/match", { text: "smile", topK: 100, textCharacters: 60_000 });
  expect(await tooMuch.json()).toMatchObject({
    error: { param: "textCharacters", message: expect.stringContaining("1000000 or less") },
  });
});

test("a page of long documents ends early, and all pages together have every document", async () => {
  const server = await start({});
  const ids: string[] = [];
  let pages = 0;
  for (let after: string | null = ""; after !== null; pages++) {
    const query = after === "" ? "" : `&after=${after}`;
    const response = await fetch(`${server.url}/v1/documents?limit=500${query}`);
    const text = await response.text();
    expect(text.length).toBeLessThan(3 * 1024 * 1024);
    const page = JSON.parse(text) as { documents: { id: string }[]; next: string | null };
    ids.push(...page.documents.map(({ id }) => id));
    after = page.next;
  }
  expect(pages).toBeGreaterThan(1);
  expect(ids.filter((id) => id.startsWith("long-")).sort()).toEqual(
    Array.from({ length: DOCUMENTS }, (_, index) => `long-${index}`).sort(),
  );
});
