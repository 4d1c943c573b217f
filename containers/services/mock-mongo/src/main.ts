/**
 * A small document database that MongoDB's official drivers talk to unchanged:
 *
 *     main.ts --data DIRECTORY [--host 127.0.0.1] [--port 27017] [--metrics-port 9216] [--log-level info]
 *
 * Supported and refused commands are in ../README.md.
 *
 * SIGTERM and SIGINT finish the running commands, and end with 0. A failed start ends with 1 and one sentence on
 * standard error.
 */
import type { AddressInfo, Server } from "node:net";
import {
  listenError,
  openStore,
  readDatabaseOptions,
  runService,
  stopOnSignals,
} from "@engine-room/service-process";
import { pino } from "pino";
import { DEFAULT_LIMITS } from "./limits.ts";
import { MongoServer } from "./server.ts";
import { STORE_FILE, Store } from "./store.ts";

await runService(async () => {
  const { data, host, logLevel, ports } = readDatabaseOptions({ port: 27017, "metrics-port": 9216 });
  const log = pino({ level: logLevel, base: { service: "mongo" } });
  const store = await openStore(data, STORE_FILE, Store);
  await store.purge();
  const mongo = new MongoServer(store, DEFAULT_LIMITS, log);
  stopOnSignals(log, "commands", async () => {
    await mongo.stop();
    await store.close();
  });
  const port = await listen(mongo.server, host, ports.port, "--port");
  const metricsPort = await listen(mongo.metricsServer, host, ports["metrics-port"], "--metrics-port");
  log.info({ port, metricsPort }, `mongo listens on mongodb://${host}:${port}`);
});

/** @returns The port that was taken. */
function listen(server: Server, host: string, port: number, portOption: string): Promise<number> {
  const fix = `choose another port with ${portOption}, or another host with --host`;
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(listenError(error, fix)));
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port));
  });
}
