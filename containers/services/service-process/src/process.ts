/** A service's process: its options, its start with errors, and its end. */
import { type ParseArgsConfig, parseArgs } from "node:util";

/** The reason of a failed start, for the operator. */
export class StartError extends Error {
  override readonly name: string = "StartError";
}

/**
 * Runs the body of a service's main.ts. An error ends the process with 1: a StartError prints only its message on
 * standard error, any other error its stack.
 *
 * @param start - Resolves when the service listens.
 */
export async function runService(start: () => Promise<void>): Promise<void> {
  try {
    await start();
  } catch (error) {
    console.error(error instanceof StartError ? error.message : error);
    process.exit(1);
  }
}

type OptionsConfig = NonNullable<ParseArgsConfig["options"]>;
type Values<T extends OptionsConfig> = ReturnType<typeof parseArgs<{ options: T }>>["values"];

/** Levels of a log, by Pino's names. */
const LOG_LEVELS = ["info", "warn", "error", "silent"] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * The options that the process was started with.
 *
 * @param options - As node:util has them.
 * @param usage - One sentence at the end of every error.
 * @throws StartError at an argument that is not among them.
 */
export function readOptions<const T extends OptionsConfig>(options: T, usage: string): Values<T> {
  try {
    return parseArgs({ args: process.argv.slice(2), options }).values;
  } catch (error) {
    throw new StartError(`${(error as Error).message} ${usage}`);
  }
}

/** @param option - Its name, as in `--port`. @returns 0 to 65535. @throws StartError */
export function readPort(option: string, text: string, usage: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535) {
    throw new StartError(`${option} is ${text}, and ports are 0 to 65535. ${usage}`);
  }
  return Number(text);
}

/** Options of a database. */
interface DatabaseOptions<Port extends string> {
  readonly data: string;
  readonly host: string;
  readonly logLevel: LogLevel;
  /** By option, without its dashes. */
  readonly ports: Readonly<Record<Port, number>>;
}

/**
 * The options of a database's process: `--data`, `--host`, `--log-level`, and one for each of its ports.
 *
 * @param ports - The default of each port, by its option without the dashes.
 * @throws StartError at an argument that is not among them, is wrong, or is missing.
 */
export function readDatabaseOptions<const Port extends string>(
  ports: Readonly<Record<Port, number>>,
): DatabaseOptions<Port> {
  const names = Object.keys(ports) as Port[];
  const portUsage = names.map((name) => `[--${name} ${ports[name]}]`).join(" ");
  const usage = `Usage: main.ts --data DIRECTORY [--host 127.0.0.1] ${portUsage} [--log-level ${LOG_LEVELS.join("|")}]`;
  const options = ["data", "host", "log-level", ...names].map((name) => [name, { type: "string" }] as const);
  const values = readOptions(Object.fromEntries(options), usage) as Readonly<
    Record<string, string | undefined>
  >;
  const { data, host = "127.0.0.1", "log-level": level = "info" } = values;
  if (data === undefined) throw new StartError(`--data is missing. ${usage}`);
  const logLevel = LOG_LEVELS.find((one) => one === level);
  if (logLevel === undefined) throw new StartError(`--log-level is ${level}. ${usage}`);
  const portOf = (name: Port) => readPort(`--${name}`, values[name] ?? String(ports[name]), usage);
  const read = Object.fromEntries(names.map((name) => [name, portOf(name)]));
  return { data, host, logLevel, ports: read as Record<Port, number> };
}

/** @param fix - How to choose another address. @returns Node's error of a server that can't listen, with the fix. */
export function listenError(error: unknown, fix: string): StartError {
  return new StartError(`The server can't listen: ${(error as Error).message}; ${fix}.`);
}

/** The part of a Pino log that is used here. */
interface Log {
  info(values: object, message: string): void;
  error(values: object, message: string): void;
}

/**
 * On SIGTERM and SIGINT stops a service, and ends the process: with 0, or with 1 when the stop fails. A second signal
 * of the same kind ends the process at once, by its default action.
 *
 * @param work - The work that is finished first, in the plural, for the log.
 * @param stop - Resolves when that is done and all is closed.
 */
export function stopOnSignals(log: Log, work: string, stop: () => Promise<void>): void {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, async () => {
      log.info({ signal }, `stopping: running ${work} are finished first`);
      try {
        await stop();
        process.exit(0);
      } catch (error) {
        log.error({ err: error }, "stopping failed");
        process.exit(1);
      }
    });
  }
}
