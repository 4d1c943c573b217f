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
import {
  LOG_LEVELS,
  type LogLevel,
  listenError,
  openStore,
  readLogLevel,
  readOptions,
  readPort,
  runService,
  StartError,
  stopOnSignals,
} from "@engine-room/service-process";
import { pino } from "pino";
import { createMetricsServer, ServerMetrics } from "./metrics.ts";
import { createMongoServer, DEFAULT_LIMITS } from "./server.ts";
import { STORE_FILE, Store } from "./store.ts";

const USAGE = `Usage: main.ts --data DIRECTORY [--host 127.0.0.1] [--port 27017] [--metrics-port 9216] [--log-level ${LOG_LEVELS.join("|")}]`;

interface Options {
  readonly data: string;
  readonly host: string;
  readonly port: number;
  readonly metricsPort: number;
  readonly logLevel: LogLevel;
}

await runService(async () => {
  const { data, host, ...options } = optionsOfProcess();
  const log = pino({ level: options.logLevel, base: { service: "mongo" } });
  const store = await openStore(data, STORE_FILE, Store);
  const metrics = new ServerMetrics();
  const mongo = createMongoServer(store, DEFAULT_LIMITS, metrics, log);
  const metricsServer = createMetricsServer(metrics);
  stopOnSignals(log, "commands", async () => {
    metricsServer.close();
    await mongo.stop();
    await store.close();
  });
  const port = await listen(mongo.server, host, options.port, "--port");
  const metricsPort = await listen(metricsServer, host, options.metricsPort, "--metrics-port");
  log.info({ port, metricsPort }, `mongo listens on mongodb://${host}:${port}`);
});

function optionsOfProcess(): Options {
  const values = readOptions(
    {
      data: { type: "string" },
      host: { type: "string", default: "127.0.0.1" },
      port: { type: "string", default: "27017" },
      "metrics-port": { type: "string", default: "9216" },
      "log-level": { type: "string", default: "info" },
    },
    USAGE,
  );
  if (values.data === undefined) throw new StartError(`--data is missing. ${USAGE}`);
  return {
    data: values.data,
    host: values.host,
    logLevel: readLogLevel(values["log-level"], USAGE),
    port: readPort("--port", values.port, USAGE),
    metricsPort: readPort("--metrics-port", values["metrics-port"], USAGE),
  };
}

/** @returns The port that was taken. */
function listen(server: Server, host: string, port: number, portOption: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(listenError(error, { host, port, portOption })));
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port));
  });
}
