/**
 * A small vector database that Qdrant's official clients talk to unchanged, over REST:
 *
 *     main.ts --data DIRECTORY [--host 127.0.0.1] [--port 6333] [--log-level info]
 *
 * It has collections with one vector or with named ones, upsert (points or batch), delete (ids or filter), retrieve,
 * scroll, count, and query (by vector or by point, with filter, prefetches, and fusion by reciprocal ranks). The search
 * is exact: all vectors are in memory, and every one is looked at. Whatever else a request asks for gets a 4xx that
 * says so. There are no users: who reaches the port may do everything.
 *
 * A write is answered when it is on disk: DIRECTORY/vectors.lmdb, one LMDB file. kill -9 at any moment loses nothing that
 * was acknowledged, and the next start repairs nothing; it reads all points into memory before it listens. One process at
 * a time opens a directory. GET /metrics is for Prometheus, GET /healthz for whoever wants to know whether it lives. The
 * log is one JSON object a line; `requestId` in it is the header x-request-id.
 *
 * SIGTERM and SIGINT finish the requests that run, and end with 0. What keeps it from starting ends it with 1 and one
 * sentence on standard error.
 */
import { parseArgs } from "node:util";
import type { FastifyInstance } from "fastify";
import { claimDirectory } from "./data-directory.ts";
import { createVectorServer, DEFAULT_LIMITS, LOG_LEVELS, type ServerOptions } from "./server.ts";
import { STORE_FILE, Store } from "./store.ts";

const USAGE = `Usage: main.ts --data DIRECTORY [--host 127.0.0.1] [--port 6333] [--log-level ${LOG_LEVELS.join("|")}]`;
/** Requests that run get so long to end when the server stops. */
const STOP_MILLISECONDS = 10_000;

/** What went wrong before the server listened, in one sentence for people. */
class StartError extends Error {
  override readonly name = "StartError";
}

interface Options {
  readonly data: string;
  readonly host: string;
  readonly port: number;
  readonly logLevel: ServerOptions["logLevel"];
}

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  const store = await openStore(options.data);
  const app = await createVectorServer(store, { logLevel: options.logLevel, limits: DEFAULT_LIMITS });
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    // A second signal means that nobody wants to wait: the default action ends the process.
    process.once(signal, () => {
      app.log.info({ signal }, "stopping: running requests are finished first");
      void stop(app, store);
    });
  }
  await listen(app, options);
}

async function stop(app: FastifyInstance, store: Store): Promise<void> {
  try {
    setTimeout(() => app.server.closeAllConnections(), STOP_MILLISECONDS).unref();
    await app.close();
    await store.close();
    process.exit(0);
  } catch (error) {
    app.log.error({ err: error }, "stopping failed");
    process.exit(1);
  }
}

function readOptions(args: string[]): Options {
  const values = parseArguments(args);
  if (values.data === undefined) throw new StartError(`--data is missing. ${USAGE}`);
  if (!/^\d{1,5}$/.test(values.port) || Number(values.port) > 65_535) {
    throw new StartError(`--port is ${values.port}, and ports are 0 to 65535. ${USAGE}`);
  }
  const logLevel = LOG_LEVELS.find((level) => level === values["log-level"]);
  if (logLevel === undefined) throw new StartError(`--log-level is ${values["log-level"]}. ${USAGE}`);
  return { data: values.data, host: values.host, port: Number(values.port), logLevel };
}

function parseArguments(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        data: { type: "string" },
        host: { type: "string", default: "127.0.0.1" },
        port: { type: "string", default: "6333" },
        "log-level": { type: "string", default: "info" },
      },
    }).values;
  } catch (error) {
    throw new StartError(`${(error as Error).message} ${USAGE}`);
  }
}

async function openStore(directory: string): Promise<Store> {
  try {
    if (await claimDirectory(directory, STORE_FILE)) {
      const store = new Store(directory);
      await store.purge();
      return store;
    }
  } catch (error) {
    throw new StartError(
      `The data in ${directory} can't be opened: ${(error as Error).message}; choose another directory with --data.`,
    );
  }
  throw new StartError(
    `Another process uses the data in ${directory}; stop it, or choose another directory with --data.`,
  );
}

async function listen(app: FastifyInstance, { host, port }: Options): Promise<void> {
  try {
    await app.listen({ host, port, listenTextResolver: (address) => `vector listens on ${address}` });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new StartError(
      LISTEN_ERRORS[code ?? ""]?.(host, port) ?? `The server can't listen on ${host}:${port}: ${message}.`,
    );
  }
}

const LISTEN_ERRORS: Readonly<Record<string, (host: string, port: number) => string>> = {
  EADDRINUSE: (host, port) =>
    `Port ${port} of ${host} is taken by another process; choose another one with --port.`,
  EACCES: (host, port) =>
    `Port ${port} of ${host} needs rights that this user does not have; choose one above 1023 with --port.`,
  EADDRNOTAVAIL: (host) => `This machine has no address ${host}; choose another one with --host.`,
};

try {
  await main();
} catch (error) {
  console.error(error instanceof StartError ? error.message : error);
  process.exit(1);
}
