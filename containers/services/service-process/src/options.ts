/** Options of a service's command line. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { StartError } from "./start.ts";

type OptionsConfig = NonNullable<ParseArgsConfig["options"]>;
type Values<T extends OptionsConfig> = ReturnType<typeof parseArgs<{ options: T }>>["values"];

/** Levels of a log, by Pino's names. */
export const LOG_LEVELS = ["info", "warn", "error", "silent"] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * The options that the process was started with.
 *
 * @param options - As node:util has them.
 * @param usage - One sentence, which ends every complaint.
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

/** @param text - Of `--log-level`. @throws StartError */
export function readLogLevel(text: string, usage: string): LogLevel {
  const found = LOG_LEVELS.find((level) => level === text);
  if (found === undefined) throw new StartError(`--log-level is ${text}. ${usage}`);
  return found;
}
