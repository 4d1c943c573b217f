/** The gateway's process: `main.ts --config FILE.json [--port PORT]`. */
import {
  listenError,
  readOptions,
  readPort,
  runService,
  StartError,
  stopOnSignals,
} from "@engine-room/service-process";
import type { GatewayConfig } from "./config.ts";
import { loadConfig } from "./config-file.ts";
import { drain } from "./request-life.ts";
import { createServer } from "./server.ts";

const USAGE = "Usage: main.ts --config FILE.json [--port PORT]";

await runService(async () => {
  const config = readConfig();
  const server = await createServer(config);
  const { host, port } = config;
  try {
    await server.app.listen({ host, port, listenTextResolver: (address) => `gateway listens on ${address}` });
  } catch (error) {
    throw listenError(error, { host, port, what: "gateway", hostFix: 'correct "host" in the configuration' });
  }
  stopOnSignals(server.app.log, "requests", () => drain(server));
});

function readConfig(): GatewayConfig {
  const { config: file, port } = readOptions({ config: { type: "string" }, port: { type: "string" } }, USAGE);
  if (file === undefined) throw new StartError(`--config is missing. ${USAGE}`);
  const config = loadConfig(file);
  return port === undefined ? config : { ...config, port: readPort("--port", port, USAGE) };
}
