import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { UsageError, UserError, unknownName } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import type { LogReader } from "../platforms/operations.ts";
import { requireKnownStack } from "../stack/stack-paths.ts";
import { styled } from "../terminal-text.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  argument: { name: "[service]", text: "as `npx engine-room status` names it (default: all)" },
  options: {
    "-n, --lines <n>": { text: "how many of the last lines of each service", default: "100" },
    "-f, --follow": "print new lines until Ctrl-C",
    "--json": "the lines as the services wrote them; the gateway and both databases write JSON",
  },
  notes: ["A line has time (UTC), service, level and message; lines of several services are sorted by time."],
  asksCluster: true,
  async run({ stack, positionals: [service], values }) {
    const { lines, follow = false } = values;
    if (!/^[1-9]\d{0,6}$/.test(lines))
      throw new UsageError(`--lines must be a number from 1 to 9999999; it is ${lines}.`);
    const operations = await operationsOf(stack);
    const readers = await operations.logs();
    if (readers.size === 0) {
      requireKnownStack(stack);
      throw new UserError(`The stack ${stack.name} has no ${operations.logged}.`);
    }
    const names = service === undefined ? [...readers.keys()] : [service];
    const width = Math.max(...names.map(({ length }) => length));
    const isSorted = names.length > 1 && !follow;
    const kept: { readonly time: string; readonly text: string }[] = [];
    const exitCodes = names.map((name) => {
      const reader = readers.get(name)?.({ lines, follow });
      if (reader === undefined) throw unknownName("service", name, [...readers.keys()]);
      // A line without a time belongs to the line before it.
      let last = "";
      return readLines(reader, (line) => {
        const entry = logEntry(line);
        last = entry.time || last;
        const text = values.json === true ? line : entryText({ ...entry, time: last }, name.padEnd(width));
        if (isSorted) kept.push({ time: last, text });
        else process.stdout.write(`${text}\n`);
      });
    });
    const isRead = (await Promise.all(exitCodes)).every((code) => code === 0 || code === null);
    const sorted = kept.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
    process.stdout.write(sorted.map(({ text }) => `${text}\n`).join(""));
    return isRead ? EXIT.ok : EXIT.failed;
  },
});

function readLines(
  { argv: [program, ...args], environment }: LogReader,
  take: (line: string) => void,
): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      stdio: ["inherit", "pipe", "pipe"],
      env: { ...process.env, ...environment },
    });
    for (const input of [child.stdout, child.stderr]) createInterface({ input }).on("line", take);
    child.on("error", reject);
    child.on("close", resolve);
  });
}

type Level = "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "";

export interface LogEntry {
  /** ISO 8601 in UTC; empty where the line has none. */
  readonly time: string;
  readonly level: Level;
  readonly message: string;
}

/** The gateway's and the databases' numbers. */
const LEVELS: Readonly<Record<number, Level>> = {
  10: "trace",
  20: "debug",
  30: "info",
  40: "warn",
  50: "error",
  60: "fatal",
};

const TRITON_LEVELS: Readonly<Record<string, Level>> = { I: "info", W: "warn", E: "error", F: "fatal" };

/** `2026-01-02T03:04:05Z I 123 server.cc:12] "text"`; older releases have the day and no year: `I0102 03:04:05.678901 123 …`. */
const TRITON_LINE = /^(?:(\S+Z) ([IWEF])|([IWEF])\d{4} \S+) \d+ (\S+)\] (.*)$/;

/** What kubectl puts before each line. */
const POD = /^\[pod\/\S+\] /;

/** What a line of a service says. Pure. */
export function logEntry(line: string): LogEntry {
  const [pod] = POD.exec(line) ?? [];
  if (pod !== undefined) {
    const entry = logEntry(line.slice(pod.length));
    return { ...entry, message: `${pod}${entry.message}` };
  }
  const [, time = "", level, oldLevel = "", place, text = ""] = TRITON_LINE.exec(line) ?? [];
  if (place !== undefined)
    return {
      time: time.replace(/\.\d+/, ""),
      level: TRITON_LEVELS[level ?? oldLevel] ?? "",
      message: `${text.replace(/^"(.*)"$/, "$1")} (${place})`,
    };
  const json = parsedObject(line);
  if (json === undefined || typeof json.time !== "number") return { time: "", level: "", message: line };
  return {
    time: `${new Date(json.time).toISOString().slice(0, 19)}Z`,
    level: LEVELS[Number(json.level)] ?? "",
    message: jsonMessage(json),
  };
}

function parsedObject(line: string): Readonly<Record<string, unknown>> | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    return JSON.parse(line) as Readonly<Record<string, unknown>>;
  } catch {
    return undefined;
  }
}

/** A request as `GET /healthz 200 36 ms`; all other fields behind the message. */
function jsonMessage(json: Readonly<Record<string, unknown>>): string {
  const { level: _l, time: _t, service: _s, requestId: _r, msg, method, route, status, ...others } = json;
  const { durationMs, milliseconds, ...fields } = others;
  const took = durationMs ?? milliseconds;
  const isRequest = method !== undefined && route !== undefined;
  const words = [
    ...(isRequest ? [method, route, status] : [msg]),
    ...(typeof took === "number" ? [`${took < 10 ? took.toFixed(1) : took.toFixed(0)} ms`] : []),
    ...Object.entries(fields)
      .filter(([, value]) => value !== "")
      .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`),
  ];
  return words.filter((word) => word !== undefined).join(" ");
}

const LEVEL_STYLES = {
  trace: "skipped",
  debug: "skipped",
  warn: "warning",
  error: "failed",
  fatal: "failed",
};

function entryText({ time, level, message }: LogEntry, service: string): string {
  const style = (LEVEL_STYLES as Partial<Record<Level, "skipped" | "warning" | "failed">>)[level];
  const shown = level.padEnd(5);
  return `${time.padEnd(20)}  ${service}  ${style === undefined ? shown : styled(style, shown)}  ${message}`;
}
