/** GET /status, against servers that are ready, starting, silent and away. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { imageProfile, requestProfile } from "@engine-room/triton-requests";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { GatewayConfigInput } from "../../../containers/services/gateway/src/config.ts";
import {
  CHATML,
  closedPort,
  type RunningGateway,
  type SilentPeer,
  sha256,
  silentPeer,
  startGateway,
} from "../gateway/support.ts";
import { type Databases, startDatabases } from "../gateway-retrieval/support.ts";

/** A Triton of which some models are ready. */
let triton: Server;
let tritonUrl: string;
let readyModels: ReadonlySet<string> = new Set();
let probed: string[] = [];
let silent: SilentPeer;
let databases: Databases;
let gateway: RunningGateway;

beforeAll(async () => {
  triton = createServer((request, response) => {
    const [, model = ""] = /^\/v2\/models\/([^/]+)\/ready$/.exec(request.url ?? "") ?? [];
    probed.push(model);
    response.writeHead(readyModels.has(model) ? 200 : 400).end();
  });
  await new Promise<void>((resolve) => triton.listen(0, "127.0.0.1", resolve));
  tritonUrl = `http://127.0.0.1:${(triton.address() as AddressInfo).port}`;
  [silent, databases] = await Promise.all([silentPeer(), startDatabases()]);
});
afterAll(async () => {
  await Promise.all([silent?.close(), databases?.dispose()]);
  triton.closeAllConnections();
  await new Promise((resolve) => triton.close(resolve));
});
afterEach(() => gateway.app.close());

interface Row {
  readonly name: string;
  readonly latencyMilliseconds: number | null;
}

async function statusOf(config: GatewayConfigInput): Promise<Row[]> {
  probed = [];
  gateway = await startGateway({ log: { level: "silent" }, ...config });
  return read();
}

async function read(): Promise<Row[]> {
  const response = await fetch(`${gateway.url}/status`);
  expect(response.status).toBe(200);
  expect(response.headers.get("cache-control")).toBe("no-store");
  return (await response.json()) as Row[];
}

const encoders = () => ({
  http: tritonUrl,
  modelName: "all-MiniLM-L6-v2",
  dimension: 384,
  imageDimension: 512,
  maxBatchSize: 8,
});
const milliseconds = expect.any(Number);

it("names what each service is, and takes its time", async () => {
  const vision = requestProfile("multimodal", {
    image: imageProfile("mllama", "multimodal", { maxImages: 1, tokensPerImage: 0 }),
  });
  readyModels = new Set([
    "text_encoder",
    "vision_encoder",
    "ensemble",
    "tensorrt_llm_bls",
    vision.tritonModel,
    vision.streamingModel,
  ]);
  const rows = await statusOf({
    encoders: encoders(),
    models: [
      { name: "smollm2", http: tritonUrl, chatTemplate: CHATML },
      { name: "base", http: tritonUrl, tritonModel: "tensorrt_llm_bls" },
      { name: "llava", http: tritonUrl, profile: vision },
    ],
    databases: {
      mongo: { uri: `mongodb://127.0.0.1:${databases.mongo.port}/` },
      vector: { url: `http://127.0.0.1:${databases.vector.port}` },
    },
  });
  const ready = { state: "ready", latencyMilliseconds: milliseconds };
  expect(rows).toEqual([
    { name: "text_encoder", kind: "text-encoder", detail: "all-MiniLM-L6-v2: text to 384 numbers", ...ready },
    { name: "vision_encoder", kind: "image-encoder", detail: "image to 512 numbers", ...ready },
    { name: "smollm2", kind: "language-model", detail: "chats, 2048 tokens with its answer", ...ready },
    {
      name: "base",
      kind: "completion-model",
      detail: "completes text, 2048 tokens with its answer",
      ...ready,
    },
    {
      name: "llava",
      kind: "vision-language-model",
      detail: "chats about text and images, 2048 tokens with its answer",
      ...ready,
    },
    { name: "mongo", kind: "document-database", detail: "documents and pictures", ...ready },
    { name: "vector", kind: "vector-database", detail: "vectors of texts and pictures", ...ready },
  ]);
});

it("tells starting from away, and waits for nobody longer than a second", async () => {
  readyModels = new Set(["text_encoder"]);
  const gone = await closedPort();
  const rows = await statusOf({
    encoders: encoders(),
    models: [
      { name: "silent", http: `http://127.0.0.1:${silent.port}`, chatTemplate: CHATML },
      { name: "gone", http: `http://127.0.0.1:${gone}`, chatTemplate: CHATML },
    ],
    databases: {
      mongo: { uri: `mongodb://127.0.0.1:${silent.port}/` },
      vector: { url: `http://127.0.0.1:${gone}` },
    },
  });
  expect(rows).toMatchObject([
    { name: "text_encoder", state: "ready", latencyMilliseconds: milliseconds },
    {
      name: "vision_encoder",
      state: "starting",
      latencyMilliseconds: null,
      detail: "Triton answers, and its model vision_encoder is not ready",
    },
    { name: "silent", state: "away", latencyMilliseconds: null, detail: "no answer within 1000 ms" },
    { name: "gone", state: "away", latencyMilliseconds: null, detail: "can't be reached (ECONNREFUSED)" },
    { name: "mongo", state: "away", latencyMilliseconds: null, detail: "no answer within 1000 ms" },
    {
      name: "vector",
      state: "away",
      latencyMilliseconds: null,
      detail: expect.stringContaining("ECONNREFUSED"),
    },
  ]);
});

it("asks a service once for many watchers, and once more when the result is old", async () => {
  readyModels = new Set(["text_encoder", "vision_encoder"]);
  await statusOf({ encoders: encoders() });
  await Promise.all(Array.from({ length: 50 }, read));
  expect(probed.toSorted()).toEqual(["text_encoder", "vision_encoder"]);
  readyModels = new Set();
  await expect
    .poll(async () => (await read()).map((row) => row.latencyMilliseconds), { timeout: 10_000 })
    .toEqual([null, null]);
});

it("needs no key, and shows none of the addresses behind the gateway", async () => {
  const rows = await statusOf({
    encoders: encoders(),
    apiKeys: [{ name: "alice", sha256: sha256("sk-alice") }],
  });
  expect(rows).toHaveLength(2);
  expect(JSON.stringify(rows)).not.toMatch(/127\.0\.0\.1|http:/);
});
