/** The gateway's process: `main.ts --config FILE.json [--port PORT]`. */
import { parseArgs } from "node:util";
import { ConfigError, type GatewayConfig, loadConfig } from "./config.ts";
import { drain } from "./drain.ts";
import { createServer, type GatewayServer } from "./server.ts";

const USAGE = "Usage: main.ts --config FILE.json [--port PORT]";

/** What went wrong before the gateway listened, in one sentence for people. */
class StartError extends Error {
  override readonly name = "StartError";
}

async function main(): Promise<void> {
  const config = readConfig(process.argv.slice(2));
  const server = await createServer(config);
  await listen(server, config);
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop(server, signal));
}

function readConfig(args: string[]): GatewayConfig {
  const { config: file, port } = parseArguments(args);
  if (file === undefined) throw new StartError(`--config is missing. ${USAGE}`);
  const config = loadConfig(file);
  if (port === undefined) return config;
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535)
    throw new StartError(`--port is ${port}, and ports are 0 to 65535. ${USAGE}`);
  return { ...config, port: Number(port) };
}

function parseArguments(args: string[]): { readonly config?: string; readonly port?: string } {
  try {
    return parseArgs({ args, options: { config: { type: "string" }, port: { type: "string" } } }).values;
  } catch (error) {
    throw new StartError(`${(error as Error).message} ${USAGE}`);
  }
}

async function listen({ app }: GatewayServer, { host, port }: GatewayConfig): Promise<void> {
  try {
    await app.listen({ host, port, listenTextResolver: (address) => `gateway listens on ${address}` });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new StartError(
      LISTEN_ERRORS[code ?? ""]?.(host, port) ?? `The gateway can't listen on ${host}:${port}: ${message}.`,
    );
  }
}

const LISTEN_ERRORS: Readonly<Record<string, (host: string, port: number) => string>> = {
  EADDRINUSE: (host, port) =>
    `Port ${port} of ${host} is taken by another process; choose another one with --port.`,
  EACCES: (host, port) =>
    `Port ${port} of ${host} needs rights that this user does not have; choose one above 1023 with --port.`,
  EADDRNOTAVAIL: (host) => `This machine has no address ${host}; correct "host" in the configuration.`,
};

function stop(server: GatewayServer, signal: NodeJS.Signals): void {
  server.app.log.info({ signal }, "stopping: running requests are finished first");
  // A second signal means that nobody wants to wait: the default action ends the process.
  drain(server).then(
    () => process.exit(0),
    (error: unknown) => {
      server.app.log.error({ err: error }, "stopping failed");
      process.exit(1);
    },
  );
}

try {
  await main();
} catch (error) {
  const isForPeople = error instanceof ConfigError || error instanceof StartError;
  console.error(isForPeople ? error.message : error);
  process.exit(1);
}
