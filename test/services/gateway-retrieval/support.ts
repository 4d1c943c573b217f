/** What the tests of retrieval share: real database processes, a Triton of fakes, and gateways on top of them. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MongoClient } from "mongodb";
import sharp from "sharp";
import type { GatewayConfigInput } from "../../../containers/services/gateway/src/config.ts";
import { CHATML, closedPort, until } from "../gateway/support.ts";
import { type FakeTriton, IMAGE_DIMENSION, TEXT_DIMENSION } from "./fake-triton.ts";

const SERVICES = fileURLToPath(new URL("../../../containers/services/", import.meta.url));

/** A process that can be killed and started again on the same port and data. */
export interface DatabaseProcess {
  readonly port: number;
  start(): Promise<void>;
  /** SIGKILL, and waits for the end. */
  kill(): Promise<void>;
  /** Ends it and removes its data. */
  dispose(): Promise<void>;
}

async function databaseProcess(
  service: "mock-mongo" | "mock-vector",
  more: readonly string[],
  probe: (port: number) => Promise<unknown>,
): Promise<DatabaseProcess> {
  const data = mkdtempSync(join(tmpdir(), `${service}-`));
  const port = await closedPort();
  let child: ChildProcess | undefined;
  const main = join(SERVICES, service, "src/main.ts");
  const kill = async () => {
    const running = child;
    child = undefined;
    if (running === undefined || running.exitCode !== null) return;
    const ended = new Promise((resolve) => running.once("close", resolve));
    running.kill("SIGKILL");
    await ended;
  };
  return {
    port,
    start: async () => {
      child = spawn(
        process.execPath,
        ["--import", "tsx", main, "--data", data, "--port", String(port), "--log-level", "error", ...more],
        { stdio: ["ignore", "ignore", "inherit"] },
      );
      const running = child;
      await until(() => {
        if (running.exitCode !== null) throw new Error(`${service} ended with ${running.exitCode}`);
        return probe(port).then(Boolean, () => false);
      });
    },
    kill,
    dispose: async () => {
      await kill();
      rmSync(data, { recursive: true, force: true });
    },
  };
}

async function pingMongo(port: number): Promise<true> {
  const client = new MongoClient(`mongodb://127.0.0.1:${port}`, { serverSelectionTimeoutMS: 200 });
  try {
    await client.db("admin").command({ ping: 1 });
    return true;
  } finally {
    await client.close();
  }
}

export interface Databases {
  readonly mongo: DatabaseProcess;
  readonly vector: DatabaseProcess;
  dispose(): Promise<void>;
}

/** Both databases, running and empty. */
export async function startDatabases(): Promise<Databases> {
  const metricsPort = String(await closedPort());
  const mongo = await databaseProcess("mock-mongo", ["--metrics-port", metricsPort], pingMongo);
  const vector = await databaseProcess("mock-vector", [], async (port) => {
    const response = await fetch(`http://127.0.0.1:${port}/readyz`);
    return response.ok;
  });
  const dispose = async () => {
    await Promise.all([mongo.dispose(), vector.dispose()]);
  };
  try {
    await Promise.all([mongo.start(), vector.start()]);
  } catch (error) {
    await dispose();
    throw error;
  }
  return { mongo, vector, dispose };
}

/** Configuration of a gateway with both databases, the encoders, and one language model. */
export function retrievalConfig(
  triton: Pick<FakeTriton, "url">,
  ports: { readonly mongo: number; readonly vector: number },
  more: Partial<GatewayConfigInput> = {},
): GatewayConfigInput {
  return {
    port: 0,
    encoders: {
      http: triton.url,
      modelName: "words",
      dimension: TEXT_DIMENSION,
      imageDimension: IMAGE_DIMENSION,
      maxBatchSize: 8,
      imageMaxBatchSize: 4,
    },
    models: [{ name: "small", http: triton.url, chatTemplate: CHATML, stopWords: ["<|im_end|>"] }],
    databases: {
      mongo: { uri: `mongodb://127.0.0.1:${ports.mongo}/` },
      vector: { url: `http://127.0.0.1:${ports.vector}` },
    },
    log: { level: "silent" },
    ...more,
  };
}

/** A picture with two fields of colour, as data URL of a JPEG, PNG or WebP file. */
export async function picture(
  left: string,
  right: string,
  { size = 64, format = "png" as "png" | "jpeg" | "webp" } = {},
): Promise<Buffer> {
  const half = { width: Math.ceil(size / 2), height: size, channels: 3 as const };
  const overlay = await sharp({ create: { ...half, background: right } })
    .png()
    .toBuffer();
  return sharp({ create: { width: size, height: size, channels: 3, background: left } })
    .composite([{ input: overlay, left: Math.floor(size / 2), top: 0 }])
    .toFormat(format)
    .toBuffer();
}

export function dataUrl(bytes: Buffer, type = "image/png"): string {
  return `data:${type};base64,${bytes.toString("base64")}`;
}

/** What both databases hold, read without the gateway. */
export interface Contents {
  /** State and hash of each document in MongoDB. */
  readonly documents: ReadonlyMap<
    string,
    { readonly state: string; readonly contentHash: string; readonly text: string }
  >;
  /** Hash of each document in the vector database. */
  readonly points: ReadonlyMap<string, string>;
  readonly images: readonly string[];
}

export async function contentsOf(databases: Databases): Promise<Contents> {
  const client = new MongoClient(`mongodb://127.0.0.1:${databases.mongo.port}/`);
  try {
    const database = client.db("engine_room");
    const rows = await database.collection("documents").find({}).toArray();
    const images = await database.collection("images").find({}).toArray();
    return {
      documents: new Map(
        rows.map(({ _id, state, contentHash, text }) => [String(_id), { state, contentHash, text }]),
      ),
      points: await pointsOf(databases.vector.port),
      images: images.map(({ _id }) => String(_id)),
    };
  } finally {
    await client.close();
  }
}

async function pointsOf(port: number): Promise<Map<string, string>> {
  const response = await fetch(`http://127.0.0.1:${port}/collections/documents/points/scroll`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ limit: 10_000, with_payload: true }),
  });
  if (response.status === 404) return new Map();
  const { result } = (await response.json()) as {
    result: { points: { payload: { documentId: string; contentHash: string } }[] };
  };
  return new Map(result.points.map(({ payload }) => [payload.documentId, payload.contentHash]));
}

/** Whether every document is ready and has exactly its own vectors. */
export function agree({ documents, points }: Contents): boolean {
  return (
    documents.size === points.size &&
    [...documents].every(
      ([id, { state, contentHash }]) => state === "ready" && points.get(id) === contentHash,
    )
  );
}
