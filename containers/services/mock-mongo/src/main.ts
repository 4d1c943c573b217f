/**
 * A small document database that MongoDB's official drivers talk to unchanged:
 *
 *     main.ts --data DIRECTORY [--host 127.0.0.1] [--port 27017] [--metrics-port 9216] [--log-level info]
 *
 * It speaks the wire protocol of MongoDB 7.0 as a standalone server and knows insert, update, delete, find, getMore,
 * killCursors, count, aggregate ($match, $sort, $skip, $limit, $project, $group, $count), create, drop, dropDatabase,
 * listCollections, listDatabases, createIndexes, listIndexes, dropIndexes, hello, ping, buildInfo and endSessions; any
 * other command gets MongoDB's own error 59, and an option that would change a result and is not there an error as well.
 * Documents are stored as the bytes that the client sent. Indexes keep values unique and make nothing faster; only a
 * filter that names `_id`s reads no other documents. There are no users, no transactions and no replication: who reaches
 * the port may do everything.
 *
 * A write is acknowledged when it is on disk: DIRECTORY/documents.lmdb, one LMDB file. kill -9 at any moment loses
 * nothing that was acknowledged, and the next start repairs nothing. One process at a time opens a directory.
 * GET /metrics (Prometheus) and GET /healthz are on the metrics port. The log is one JSON object a line; `requestId` in it
 * is a command's `comment`.
 *
 * SIGTERM and SIGINT finish the commands that run, and end with 0. What keeps it from starting ends it with 1 and one
 * sentence on standard error.
 */
import type { AddressInfo, Server } from "node:net";
import { parseArgs } from "node:util";
import { type Logger, pino } from "pino";
import { claimDirectory } from "./data-directory.ts";
import { createMetricsServer, ServerMetrics } from "./metrics.ts";
import { createMongoServer, DEFAULT_LIMITS, type MongoServer } from "./server.ts";
import { STORE_FILE, Store } from "./store.ts";

const LOG_LEVELS = ["info", "warn", "error", "silent"] as const;
const USAGE = `Usage: main.ts --data DIRECTORY [--host 127.0.0.1] [--port 27017] [--metrics-port 9216] [--log-level ${LOG_LEVELS.join("|")}]`;

/** What went wrong before the server listened, in one sentence for people. */
class StartError extends Error {
  override readonly name = "StartError";
}

interface Options {
  readonly data: string;
  readonly host: string;
  readonly port: number;
  readonly metricsPort: number;
  readonly logLevel: (typeof LOG_LEVELS)[number];
}

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  const log = pino({ level: options.logLevel, base: { service: "mongo" } });
  const store = await openStore(options.data);
  const metrics = new ServerMetrics();
  const mongo = createMongoServer(store, DEFAULT_LIMITS, metrics, log);
  const metricsServer = createMetricsServer(metrics);
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    // A second signal means that nobody wants to wait: the default action ends the process.
    process.once(signal, () => {
      log.info({ signal }, "stopping: running commands are finished first");
      metricsServer.close();
      void stop(mongo, store, log);
    });
  }
  const port = await listen(mongo.server, options.host, options.port, "--port");
  const metricsPort = await listen(metricsServer, options.host, options.metricsPort, "--metrics-port");
  log.info({ port, metricsPort }, `mongo listens on mongodb://${options.host}:${port}`);
}

async function stop(mongo: MongoServer, store: Store, log: Logger): Promise<void> {
  try {
    await mongo.stop();
    await store.close();
    process.exit(0);
  } catch (error) {
    log.error({ err: error }, "stopping failed");
    process.exit(1);
  }
}

function readOptions(args: string[]): Options {
  const values = parseArguments(args);
  if (values.data === undefined) throw new StartError(`--data is missing. ${USAGE}`);
  const logLevel = LOG_LEVELS.find((level) => level === values["log-level"]);
  if (logLevel === undefined) throw new StartError(`--log-level is ${values["log-level"]}. ${USAGE}`);
  return {
    data: values.data,
    host: values.host,
    port: readPort("port", values.port),
    metricsPort: readPort("metrics-port", values["metrics-port"]),
    logLevel,
  };
}

function parseArguments(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        data: { type: "string" },
        host: { type: "string", default: "127.0.0.1" },
        port: { type: "string", default: "27017" },
        "metrics-port": { type: "string", default: "9216" },
        "log-level": { type: "string", default: "info" },
      },
    }).values;
  } catch (error) {
    throw new StartError(`${(error as Error).message} ${USAGE}`);
  }
}

function readPort(option: string, text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535) {
    throw new StartError(`--${option} is ${text}, and ports are 0 to 65535. ${USAGE}`);
  }
  return Number(text);
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

/** @returns The port that was taken. */
function listen(server: Server, host: string, port: number, option: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(new StartError(describe(error))));
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port));
  });

  function describe({ code, message }: NodeJS.ErrnoException): string {
    if (code === "EADDRINUSE")
      return `Port ${port} of ${host} is taken by another process; choose another one with ${option}.`;
    if (code === "EACCES")
      return `Port ${port} of ${host} needs rights that this user does not have; choose one above 1023 with ${option}.`;
    if (code === "EADDRNOTAVAIL")
      return `This machine has no address ${host}; choose another one with --host.`;
    return `The server can't listen on ${host}:${port}: ${message}.`;
  }
}

try {
  await main();
} catch (error) {
  console.error(error instanceof StartError ? error.message : error);
  process.exit(1);
}
