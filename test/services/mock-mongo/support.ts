/** The document database with the official driver. */
import { serialize } from "bson";
import { type Collection, type Document, MongoClient } from "mongodb";
import { type DatabaseKind, useDatabase, withDatabase } from "../databases.ts";
import { type ServiceProcess, startService } from "../service-process.ts";

export interface RunningMongo {
  readonly service: ServiceProcess;
  readonly port: number;
  readonly metricsPort: number;
}

export async function startMongo(data: string, ...args: string[]): Promise<RunningMongo> {
  const service = startService("mock-mongo", ["--data", data, "--port", "0", "--metrics-port", "0", ...args]);
  const { port, metricsPort } = (await service.listening()) as { port: number; metricsPort: number };
  return { service, port, metricsPort };
}

/** A client with a short timeout and without retries. */
export function clientOf(port: number, options: object = {}): MongoClient {
  return new MongoClient(`mongodb://127.0.0.1:${port}/`, {
    serverSelectionTimeoutMS: 10_000,
    retryWrites: false,
    retryReads: false,
    ...options,
  });
}

const MONGO: DatabaseKind<RunningMongo, MongoClient> = {
  name: "mongo",
  start: startMongo,
  connect: ({ port }) => clientOf(port),
  disconnect: (client) => client.close(),
};

/** Runs a test with its own server and client. */
export function withMongo(
  run: (client: MongoClient, mongo: RunningMongo) => Promise<void>,
  ...args: string[]
): Promise<void> {
  return withDatabase(MONGO, run, ...args);
}

/** One server and one client for all tests of a file. */
export function useMongo(): {
  readonly mongo: () => RunningMongo;
  readonly client: () => MongoClient;
  /** Collection of only one test. */
  readonly fresh: () => Collection<Document>;
} {
  const { running, client, unused } = useDatabase(MONGO);
  return {
    mongo: running,
    client,
    fresh: () => client().db("test").collection<Document>(`c${unused()}`),
  };
}

/** Code and name of a failing command's error. @throws Error when it succeeds. */
export async function errorOf(
  run: Promise<unknown>,
): Promise<{ code: unknown; codeName: unknown; message: string }> {
  try {
    await run;
  } catch (error) {
    const { code, codeName, message } = error as Document & Error;
    return { code, codeName, message };
  }
  throw new Error("it succeeded");
}

/** An OP_MSG with a command that no driver would send. */
export function message(body: Document): Buffer {
  const bson = serialize(body);
  const head = Buffer.alloc(21);
  head.writeInt32LE(21 + bson.length, 0);
  head.writeInt32LE(2013, 12);
  return Buffer.concat([head, bson]);
}
