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
import { createVectorServer, DEFAULT_LIMITS } from "./server.ts";
import { STORE_FILE, Store } from "./store.ts";

const USAGE = `Usage: main.ts --data DIRECTORY [--host 127.0.0.1] [--port 6333] [--log-level ${LOG_LEVELS.join("|")}]`;
/** Requests that run get so long to end when the server stops. */
const STOP_MILLISECONDS = 10_000;

interface Options {
  readonly data: string;
  readonly host: string;
  readonly port: number;
  readonly logLevel: LogLevel;
}

await runService(async () => {
  const { data, host, port, logLevel } = optionsOfProcess();
  const store = await openStore(data, STORE_FILE, Store);
  const app = await createVectorServer(store, { logLevel, limits: DEFAULT_LIMITS });
  stopOnSignals(app.log, "requests", async () => {
    setTimeout(() => app.server.closeAllConnections(), STOP_MILLISECONDS).unref();
    await app.close();
    await store.close();
  });
  try {
    await app.listen({ host, port, listenTextResolver: (address) => `vector listens on ${address}` });
  } catch (error) {
    throw listenError(error, { host, port });
  }
});

function optionsOfProcess(): Options {
  const values = readOptions(
    {
      data: { type: "string" },
      host: { type: "string", default: "127.0.0.1" },
      port: { type: "string", default: "6333" },
      "log-level": { type: "string", default: "info" },
    },
    USAGE,
  );
  if (values.data === undefined) throw new StartError(`--data is missing. ${USAGE}`);
  return {
    data: values.data,
    host: values.host,
    port: readPort("--port", values.port, USAGE),
    logLevel: readLogLevel(values["log-level"], USAGE),
  };
}
