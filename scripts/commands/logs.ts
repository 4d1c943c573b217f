import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { UsageError, UserError, unknownName } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import type { ServiceProgram } from "../platforms/operations.ts";
import { requireKnownStack } from "../stack/stack-paths.ts";
import { styled } from "../terminal-text.ts";
import { defineCommand } from "./command.ts";

export const command = defineCommand({
  argument: { name: "[service]", text: "as `npx engine-room status` names it (default: all)" },
  options: {
    "-n, --lines <n>": { text: "how many of the last lines of each service", default: "100" },
    "-f, --follow": "print new lines until Ctrl-C",
    "--json": "the lines as the services wrote them; the gateway and both databases write JSON",
  },
  notes: ["A line has time (UTC), service, level and message; lines of several services are sorted by time."],
  asksCluster: true,
  async run({ stack, positionals: [service], values: { lines, follow = false, json } }) {
    if (!/^[1-9]\d{0,6}$/.test(lines))
      throw new UsageError(`--lines must be a number from 1 to 9999999; it is ${lines}.`);
    const operations = await operationsOf(stack);
    const readers = await operations.logs({ lines, follow });
    if (readers.size === 0) {
      requireKnownStack(stack);
      throw new UserError(
        `The stack ${stack.name} has no ${operations.logged}; \`npx engine-room ${operations.upCommand} --stack ${stack.name}\` brings it up.`,
      );
    }
    const names = service === undefined ? [...readers.keys()] : [service];
    const width = Math.max(...names.map(({ length }) => length));
    const kept: { readonly time: string; readonly text: string }[] = [];
    const exitCodes = names.map((name) => {
      const reader = readers.get(name);
      if (reader === undefined) throw unknownName("service", name, [...readers.keys()]);
      // A line without a time belongs to the line before it.
      let time = "";
      return readLines(reader, (line) => {
        const entry = logEntry(line);
        time = entry.time || time;
        const text = json === true ? line : entryText({ ...entry, time }, name.padEnd(width));
        if (names.length > 1 && !follow) kept.push({ time, text });
        else process.stdout.write(`${text}\n`);
      });
    });
    const isOk = (await Promise.all(exitCodes)).every((code) => code === 0 || code === null);
    const sorted = kept.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
    process.stdout.write(sorted.map(({ text }) => `${text}\n`).join(""));
    return isOk ? 0 : 1;
  },
});

function readLines(
  { argv: [program, ...args], environment }: ServiceProgram,
  take: (line: string) => void,
): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, ...environment };
    const child = spawn(program, args, { stdio: ["inherit", "pipe", "pipe"], env });
    for (const input of [child.stdout, child.stderr]) createInterface({ input }).on("line", take);
    child.on("error", reject);
    child.on("close", resolve);
  });
}

interface LogEntry {
  /** ISO 8601 in UTC; empty if the line has no time. */
  readonly time: string;
  readonly level: "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "";
  readonly message: string;
}

/** By the gateway's and the databases' numbers, and by Triton's letters. */
const LEVELS: Readonly<Record<string, LogEntry["level"]>> = {
  ...{ 10: "trace", 20: "debug", 30: "info", 40: "warn", 50: "error", 60: "fatal" },
  ...{ I: "info", W: "warn", E: "error", F: "fatal" },
};

/** `2026-01-02T03:04:05Z I 123 server.cc:12] "text"`; older releases have the day and no year: `I0102 03:04:05.678901 123 …`. */
const TRITON_LINE = /^(?:(\S+Z) ([IWEF])|([IWEF])\d{4} \S+) \d+ (\S+)\] "?(.*?)"?$/;

/** Parses a line of a service. Pure. */
export function logEntry(line: string): LogEntry {
  // kubectl puts the pod before each line.
  const [, pod = "", rest = ""] = /^(\[pod\/\S+\] )?(.*)$/s.exec(line) ?? [];
  const [, time = "", level, oldLevel = "", place, text = ""] = TRITON_LINE.exec(rest) ?? [];
  if (place !== undefined)
    return {
      time: time.replace(/\.\d+/, ""),
      level: LEVELS[level ?? oldLevel] ?? "",
      message: `${pod}${text} (${place})`,
    };
  const json = parsedObject(rest);
  if (typeof json.time !== "number") return { time: "", level: "", message: line };
  return {
    time: `${new Date(json.time).toISOString().slice(0, 19)}Z`,
    level: LEVELS[String(json.level)] ?? "",
    message: `${pod}${jsonMessage(json)}`,
  };
}

/** Returns an empty object for other lines. */
function parsedObject(line: string): Readonly<Record<string, unknown>> {
  try {
    return line.startsWith("{") ? JSON.parse(line) : {};
  } catch {
    return {};
  }
}

/** A request as `GET /healthz 200 36 ms`; all other fields behind the message. */
function jsonMessage(json: Readonly<Record<string, unknown>>): string {
  const { level: _l, time: _t, service: _s, requestId: _r, msg, method, route, status, ...others } = json;
  const { durationMs, milliseconds, ...fields } = others;
  const took = durationMs ?? milliseconds;
  const words = [
    ...(method !== undefined && route !== undefined ? [method, route, status] : [msg]),
    ...(typeof took === "number" ? [`${took < 10 ? took.toFixed(1) : took.toFixed(0)} ms`] : []),
    ...Object.entries(fields)
      .filter(([, value]) => value !== "")
      .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`),
  ];
  return words.filter((word) => word !== undefined).join(" ");
}

function entryText({ time, level, message }: LogEntry, service: string): string {
  const style = {
    trace: "skipped",
    debug: "skipped",
    info: null,
    warn: "warning",
    error: "failed",
    fatal: "failed",
    "": null,
  } as const;
  const meaning = style[level];
  const shown = level.padEnd(5);
  return `${time.padEnd(20)}  ${service}  ${meaning === null ? shown : styled(meaning, shown)}  ${message}`;
}
