/** The vector database with the official client. */
import { QdrantClient } from "@qdrant/js-client-rest";
import { type DatabaseKind, useDatabase, withDatabase } from "../databases.ts";
import { type ServiceProcess, startService, urlIn } from "../service-process.ts";

export interface RunningVector {
  readonly service: ServiceProcess;
  /** `http://127.0.0.1:PORT`. */
  readonly url: string;
}

export async function startVector(data: string, ...args: string[]): Promise<RunningVector> {
  const service = startService("mock-vector", ["--data", data, "--port", "0", ...args]);
  return { service, url: urlIn(await service.listening()) };
}

export function clientOf(url: string): QdrantClient {
  return new QdrantClient({ url, checkCompatibility: false, timeout: 60_000 });
}

const VECTOR: DatabaseKind<RunningVector, QdrantClient> = {
  name: "vector",
  start: startVector,
  connect: ({ url }) => clientOf(url),
  disconnect: async () => undefined,
};

/** Runs a test with its own server and client. */
export function withVector(
  run: (client: QdrantClient, vector: RunningVector) => Promise<void>,
): Promise<void> {
  return withDatabase(VECTOR, run);
}

/** One server and one client for all tests of a file. */
export function useVector(): {
  readonly vector: () => RunningVector;
  readonly client: () => QdrantClient;
  /** Creates a collection of only one test, with vectors `text` and `image`. @returns Its name. */
  readonly named: () => Promise<string>;
  /** Creates a collection with an unnamed vector. @returns Its name. */
  readonly unnamed: (distance?: "Dot" | "Euclid") => Promise<string>;
} {
  const { running, client, unused } = useDatabase(VECTOR);
  return {
    vector: running,
    client,
    async named() {
      const name = `named${unused()}`;
      const vectors = { text: { size: 3, distance: "Cosine" }, image: { size: 2, distance: "Dot" } } as const;
      await client().createCollection(name, { vectors });
      return name;
    },
    async unnamed(distance = "Euclid") {
      const name = `unnamed${unused()}`;
      await client().createCollection(name, { vectors: { size: 1, distance } });
      return name;
    },
  };
}

export function uuid(n: number): string {
  return `5c56c793-69f3-4fbf-87e6-${String(n).padStart(12, "0")}`;
}

export function idsOf(points: readonly { readonly id: unknown }[]): unknown[] {
  return points.map(({ id }) => id);
}

/** Status and sentence of a failing call's error. @throws Error when it succeeds. */
export async function errorOf(run: Promise<unknown>): Promise<{ status: unknown; message: string }> {
  try {
    await run;
  } catch (error) {
    const { status, data } = error as { status: number; data: { status: { error: string } } };
    return { status, message: String(data?.status?.error ?? error) };
  }
  throw new Error("it succeeded");
}

const HEAVY_DIMENSIONS = 256;
/** A search that takes some milliseconds in a `heavyCollection`. */
export const HEAVY_SEARCH = { query: new Array<number>(HEAVY_DIMENSIONS).fill(1), limit: 1 };

/** Creates a slow collection `c`: its distance is computed row by row. */
export async function heavyCollection(client: QdrantClient): Promise<void> {
  await client.createCollection("c", { vectors: { size: HEAVY_DIMENSIONS, distance: "Manhattan" } });
  for (let part = 0; part < 2; part++) {
    const points = Array.from({ length: 2000 }, (_, n) => ({
      id: part * 2000 + n,
      vector: new Array<number>(HEAVY_DIMENSIONS).fill(n),
    }));
    await client.upsert("c", { points });
  }
}
