/**
 * A small vector database that Qdrant's official clients talk to unchanged, over REST; see ../README.md.
 *
 *     main.ts --data DIRECTORY [--host 127.0.0.1] [--port 6333] [--log-level info]
 *
 * The log is one JSON object a line; `requestId` in it is the header x-request-id. SIGTERM and SIGINT finish the running
 * requests, and end with 0. A failed start ends with 1 and one sentence on standard error.
 */
import {
  listenError,
  openStore,
  readDatabaseOptions,
  runService,
  stopOnSignals,
} from "@engine-room/service-process";
import { Database, STORE_FILE } from "./database.ts";
import { DEFAULT_LIMITS } from "./limits.ts";
import { createVectorServer } from "./server.ts";

await runService(async () => {
  const { data, host, logLevel, ports } = readDatabaseOptions({ port: 6333 });
  const database = await openStore(data, STORE_FILE, Database);
  const app = await createVectorServer(database, logLevel, DEFAULT_LIMITS);
  stopOnSignals(app.log, "requests", async () => {
    // Requests that run get 10 s to end.
    setTimeout(() => app.server.closeAllConnections(), 10_000).unref();
    await app.close();
    await database.close();
  });
  const { port } = ports;
  try {
    await app.listen({ host, port, listenTextResolver: (address) => `vector listens on ${address}` });
  } catch (error) {
    throw listenError(error, "choose another port with --port, or another host with --host");
  }
});
