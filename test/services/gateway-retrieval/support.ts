/** What the tests of retrieval share: real database processes, a Triton of fakes, and gateways on top of them. */
import { MongoClient } from "mongodb";
import sharp from "sharp";
import { expect, vi } from "vitest";
import type { GatewayConfigInput } from "../../../containers/services/gateway/src/config.ts";
import { CHATML, closedPort } from "../gateway/support.ts";
import type { CompiledService } from "../mock-mongo/compiled.ts";
import {
  type PreparedService,
  prepareService,
  type ServiceProcess,
  startService,
  temporaryFolder,
} from "../mock-mongo/service-process.ts";
import { type FakeTriton, IMAGE_DIMENSION, TEXT_DIMENSION } from "./fake-triton.ts";

/** A service that can be killed and started again with the same arguments. */
export interface RestartableService {
  /** @returns The line of its log that says where it listens. @throws Error when it ends before. */
  start(): Promise<Readonly<Record<string, unknown>>>;
  /** Has the process of the next start load its modules meanwhile; of the service as it is compiled, where that is given. */
  prepare(compiled?: Pick<CompiledService, "main" | "server">): void;
  /** SIGKILL, and waits for the end. */
  kill(): Promise<void>;
  /** Ends it, and what was prepared. */
  dispose(): Promise<void>;
}

/** @param service - Folder below containers/services. */
export function restartableService(service: string, args: readonly string[]): RestartableService {
  const main = `containers/services/${service}/src/main.ts`;
  const server = `containers/services/${service}/src/server.ts`;
  const prepared: PreparedService[] = [];
  let running: ServiceProcess | undefined;
  const kill = async () => {
    await running?.kill("SIGKILL");
  };
  return {
    start: () => {
      running = prepared.shift()?.start() ?? startService(main, args);
      return running.listening();
    },
    prepare: (sources = { main, server }) => {
      prepared.push(prepareService(sources.main, args, [sources.server]));
    },
    kill,
    dispose: async () => {
      for (const one of prepared) one.discard();
      await kill();
    },
  };
}

/** A database with a port and data of its own; they stay when it is killed, and its data goes when it is disposed of. */
export interface DatabaseProcess extends RestartableService {
  readonly port: number;
}

async function databaseProcess(service: string, more: readonly string[] = []): Promise<DatabaseProcess> {
  const folder = temporaryFolder(service);
  const port = await closedPort();
  const database = restartableService(service, ["--data", folder.path, "--port", String(port), ...more]);
  return {
    ...database,
    port,
    dispose: async () => {
      await database.dispose();
      folder.remove();
    },
  };
}

export interface Databases {
  readonly mongo: DatabaseProcess;
  readonly vector: DatabaseProcess;
  dispose(): Promise<void>;
}

/** Both databases, running and empty. */
export async function startDatabases(): Promise<Databases> {
  const mongo = await databaseProcess("mock-mongo", ["--metrics-port", "0"]);
  const vector = await databaseProcess("mock-vector");
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
  /** Documents in MongoDB. */
  readonly documents: ReadonlyMap<
    string,
    {
      readonly state: string;
      readonly contentHash: string;
      readonly text: string;
      /** SHA-256 of its image. */
      readonly image: string | undefined;
    }
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
        rows.map(({ _id, state, contentHash, text, image }) => [
          String(_id),
          { state, contentHash, text, image: image?.sha256 },
        ]),
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

/** Waits until both databases agree. @throws Error with what they hold when they do not within half a minute. */
export function agreed(databases: Databases): Promise<Contents> {
  const check = async () => {
    const contents = await contentsOf(databases);
    expect(contents, "both databases agree").toSatisfy(agree);
    return contents;
  };
  return vi.waitFor(check, { timeout: 30_000, interval: 10 });
}
