/** Helpers of the tests of retrieval: real database processes, a fake Triton, and gateways that use them. */
import { rmSync } from "node:fs";
import { type Db, MongoClient } from "mongodb";
import sharp from "sharp";
import { afterAll, beforeAll, beforeEach, expect, vi } from "vitest";
import type { GatewayConfigInput } from "../../../containers/services/gateway/src/config.ts";
import { freePort } from "../../harness/ports.ts";
import { CHATML, type RunningGateway, sha256, startGateway } from "../gateway/support.ts";
import { type ServiceProcess, startService, temporaryFolder } from "../service-process.ts";
import { type FakeTriton, IMAGE_DIMENSION, startFakeTriton, TEXT_DIMENSION } from "./fake-triton.ts";

/** A service that can be killed and started again with the same arguments. */
export interface RestartableService {
  /** @returns The line of its log with its address. @throws Error when it ends before. */
  start(): Promise<Readonly<Record<string, unknown>>>;
  /** Sends SIGKILL, and waits for the end. */
  kill(): Promise<void>;
  /** The process that was started last. @throws Error before the first start. */
  current(): ServiceProcess;
}

/** @param service - Folder below containers/services. */
export function restartableService(service: string, args: readonly string[]): RestartableService {
  let running: ServiceProcess | undefined;
  return {
    start: () => {
      running = startService(service, args);
      return running.listening();
    },
    kill: async () => {
      await running?.kill("SIGKILL");
    },
    current: () => {
      if (running === undefined) throw new Error(`${service} was not started`);
      return running;
    },
  };
}

/** A database with its own port and data, which a kill keeps; `dispose` deletes the data. */
export interface DatabaseProcess extends RestartableService {
  readonly port: number;
  /** Kills it, deletes its data, and starts it again. */
  empty(): Promise<void>;
  dispose(): Promise<void>;
}

async function databaseProcess(
  service: string,
  disk: string | undefined,
  more: readonly string[] = [],
): Promise<DatabaseProcess> {
  const folder = temporaryFolder(service, disk);
  const port = await freePort();
  const database = restartableService(service, ["--data", folder.path, "--port", String(port), ...more]);
  return {
    ...database,
    port,
    empty: async () => {
      await database.kill();
      rmSync(folder.path, { recursive: true });
      await database.start();
    },
    dispose: async () => {
      await database.kill();
      folder.remove();
    },
  };
}

export interface Databases {
  readonly mongo: DatabaseProcess;
  readonly vector: DatabaseProcess;
  /** Name of the database in MongoDB and of the collection in Qdrant: tests with different areas share the processes. */
  readonly area: string;
  dispose(): Promise<void>;
}

/** Starts both databases, empty. @param disk - Folder for their data; by default the folder for temporary files. */
export async function startDatabases(disk?: string): Promise<Databases> {
  const mongo = await databaseProcess("mock-mongo", disk, ["--metrics-port", "0"]);
  const vector = await databaseProcess("mock-vector", disk);
  const dispose = async () => {
    await Promise.all([mongo.dispose(), vector.dispose()]);
  };
  try {
    await Promise.all([mongo.start(), vector.start()]);
  } catch (error) {
    await dispose();
    throw error;
  }
  return { mongo, vector, area: "documents", dispose };
}

export interface Places {
  readonly mongo: number;
  readonly vector: number;
  readonly area: string;
}

/** Ports of the databases, and their area. */
export function placesOf({ mongo, vector, area }: Databases): Places {
  return { mongo: mongo.port, vector: vector.port, area };
}

/** Configuration of a gateway with both databases, the encoders, and one language model. */
export function retrievalConfig(
  triton: Pick<FakeTriton, "url">,
  { mongo, vector, area }: Places,
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
    },
    models: [{ name: "small", http: triton.url, chatTemplate: CHATML, stopWords: ["<|im_end|>"] }],
    databases: {
      // By default, the driver checks an unavailable server every half second.
      mongo: { uri: `mongodb://127.0.0.1:${mongo}/?minHeartbeatFrequencyMS=20`, database: area },
      vector: { url: `http://127.0.0.1:${vector}`, collection: area },
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

/** Content of both databases, read without the gateway. */
export interface Contents {
  /** Documents in MongoDB. */
  readonly documents: ReadonlyMap<
    string,
    {
      readonly contentHash: string;
      readonly text: string;
      /** SHA-256 of its image, in the row and of its bytes. */
      readonly image: { readonly said: string; readonly held: string } | undefined;
    }
  >;
  /** Hash of each document in the vector database. */
  readonly points: ReadonlyMap<string, string>;
}

export async function contentsOf(databases: Databases): Promise<Contents> {
  const rows = await inMongo(databases, (database) => database.collection("documents").find({}).toArray());
  return {
    documents: new Map(
      rows.map(({ _id, contentHash, text, image }) => [
        String(_id),
        {
          contentHash,
          text,
          image: image ? { said: image.sha256, held: sha256(image.bytes?.value() ?? "") } : undefined,
        },
      ]),
    ),
    points: await pointsOf(databases),
  };
}

/** Runs some work in MongoDB without the gateway. */
export async function inMongo<T>({ mongo, area }: Databases, work: (database: Db) => Promise<T>): Promise<T> {
  const client = new MongoClient(`mongodb://127.0.0.1:${mongo.port}/`);
  try {
    return await work(client.db(area));
  } finally {
    await client.close();
  }
}

async function pointsOf({ vector, area }: Databases): Promise<Map<string, string>> {
  const response = await fetch(`http://127.0.0.1:${vector.port}/collections/${area}/points/scroll`, {
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

/** Whether every document is complete and has exactly its own vectors. */
export function agree({ documents, points }: Contents): boolean {
  return (
    documents.size === points.size &&
    [...documents].every(
      ([id, { contentHash, image }]) => points.get(id) === contentHash && image?.said === image?.held,
    )
  );
}

/** Waits until both databases agree. @throws Error with their content when they do not within half a minute. */
export function agreed(databases: Databases): Promise<Contents> {
  const check = async () => {
    const contents = await contentsOf(databases);
    expect(contents, "both databases agree").toSatisfy(agree);
    return contents;
  };
  return vi.waitFor(check, { timeout: 30_000, interval: 50 });
}

export interface DatabasesAndTriton {
  readonly databases: () => Databases;
  /** It has had no request when a test begins. */
  readonly triton: () => FakeTriton;
  /** Configuration of a gateway on both. */
  readonly config: (more?: Partial<GatewayConfigInput>) => GatewayConfigInput;
  /** The same, with other databases in the same processes. */
  readonly inArea: (area: string) => DatabasesAndTriton;
}

/** Both databases, empty, and a fake Triton, for all tests of a file. */
export function useDatabasesAndTriton(): DatabasesAndTriton {
  let databases: Databases;
  let triton: FakeTriton;
  beforeAll(async () => {
    [databases, triton] = await Promise.all([startDatabases(), startFakeTriton()]);
  });
  afterAll(async () => {
    await Promise.all([databases?.dispose(), triton?.close()]);
  });
  beforeEach(() => {
    triton.encoderCalls.length = 0;
    triton.generations.length = 0;
  });
  const inArea = (area: string): DatabasesAndTriton => ({
    databases: () => ({ ...databases, area }),
    triton: () => triton,
    config: (more) => retrievalConfig(triton, placesOf({ ...databases, area }), more),
    inArea,
  });
  return inArea("documents");
}

/** A gateway on them, for all tests of a group. */
export function useGateway(parts: DatabasesAndTriton): () => RunningGateway {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(parts.config());
    // Waits for the reindexing of the start, which might embed documents of a test.
    await gateway.post("/v1/reindex", {});
  });
  afterAll(async () => {
    await gateway?.app.close();
  });
  return () => gateway;
}

export interface SentDocument {
  readonly id: string;
  readonly text: string;
  /** As data URL. */
  readonly image?: string;
}

export function postDocuments(url: string, documents: readonly SentDocument[]): Promise<Response> {
  return fetch(`${url}/v1/documents`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ documents }),
  });
}

/** Status of each document of a request. @throws Error when the whole request is refused. */
export async function statusesOf(answer: Promise<Response>): Promise<string[]> {
  const response = await answer;
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
  const { documents } = (await response.json()) as { documents: { status: string }[] };
  return documents.map(({ status }) => status);
}
