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
import { drain } from "./request-lifecycle.ts";
import { createServer } from "./server.ts";

const USAGE = "Usage: main.ts --config FILE.json [--port PORT]";

await runService(async () => {
  const config = readConfig();
  const server = await createServer(config);
  const { host, port } = config;
  const fix = 'choose another port with --port, or another "host" in the configuration';
  try {
    await server.app.listen({ host, port, listenTextResolver: (address) => `gateway listens on ${address}` });
  } catch (error) {
    throw listenError(error, fix);
  }
  stopOnSignals(server.app.log, "requests", () => drain(server));
});

function readConfig(): GatewayConfig {
  const { config: file, port } = readOptions({ config: { type: "string" }, port: { type: "string" } }, USAGE);
  if (file === undefined) throw new StartError(`--config is missing. ${USAGE}`);
  const config = loadConfig(file);
  return port === undefined ? config : { ...config, port: readPort("--port", port, USAGE) };
}
