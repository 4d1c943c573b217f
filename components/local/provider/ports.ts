/** TCP ports of processes: those that were asked for, those that a process had before, free ones for the rest. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { fromRoot, hasCode } from "./files.ts";
import { portHolder } from "./port-holder.ts";

const FIRST_PORT = 20_000;
// Where the kernel's range for outgoing connections starts by default.
const DEFAULT_EPHEMERAL_START = 32_768;

interface PortRequest {
  readonly stackDirectory: string;
  /** Of the process. */
  readonly name: string;
  /** 0 for any free one. */
  readonly requested: Readonly<Record<string, number>>;
  /** What the process has or had: kept where nothing else was asked for. */
  readonly previous: Readonly<Record<string, number>>;
  /** Ports that other processes of the project have been given, with their names, running or not. */
  readonly claimed: ReadonlyMap<number, string>;
}

/**
 * A port for each name. The process must not run: its own ports count as taken otherwise. Throws one sentence where a
 * requested port is taken. Nothing is reserved: the caller records the answer before the next one asks.
 */
export async function choosePorts(request: PortRequest): Promise<Record<string, number>> {
  const chosen: Record<string, number> = {};
  const taken = new Map(request.claimed);
  const take = (portName: string, port: number) => {
    chosen[portName] = port;
    taken.set(port, `${request.name}, as ${portName}`);
  };
  const entries = Object.entries(request.requested);
  for (const [portName, port] of entries.filter(([, port]) => port !== 0)) {
    await assertFree(request.name, portName, port, taken);
    take(portName, port);
  }
  for (const [portName] of entries.filter(([, port]) => port === 0)) {
    const previous = request.previous[portName];
    const kept = previous !== undefined && !taken.has(previous) && (await isFree(previous));
    take(portName, kept ? previous : await freePort(request, portName, taken));
  }
  return chosen;
}

/** Throws one sentence that names the holder. */
export async function assertFree(
  processName: string,
  portName: string,
  port: number,
  claimed: ReadonlyMap<number, string>,
): Promise<void> {
  const owner = claimed.get(port);
  const holder =
    owner ?? ((await isFree(port)) ? undefined : ((await portHolder(port)) ?? "another process"));
  if (holder !== undefined)
    throw new Error(
      `${processName}: the ${portName} port ${port} is taken by ${holder}; end that or choose another port (0 takes a free one).`,
    );
}

/**
 * The search starts at a place that hangs on the stack and the names, so that a process which is made anew gets its
 * old port again and two stacks seldom want the same. It stays below the ports of outgoing connections: one of those
 * could take the port of a process that is being restarted.
 */
async function freePort(
  request: PortRequest,
  portName: string,
  taken: ReadonlyMap<number, string>,
): Promise<number> {
  const count = (await ephemeralStart()) - FIRST_PORT;
  const key = `${fromRoot(request.stackDirectory)}\0${request.name}\0${portName}`;
  const start = createHash("sha256").update(key).digest().readUInt32BE() % count;
  for (let step = 0; step < count; step++) {
    const port = FIRST_PORT + ((start + step) % count);
    if (!taken.has(port) && (await isFree(port))) return port;
  }
  throw new Error(`${request.name}: no TCP port from ${FIRST_PORT} to ${FIRST_PORT + count - 1} is free.`);
}

async function ephemeralStart(): Promise<number> {
  const text = await readFile("/proc/sys/net/ipv4/ip_local_port_range", "utf8").catch(() => "");
  const start = Number.parseInt(text, 10);
  return start > FIRST_PORT + 1000 ? start : DEFAULT_EPHEMERAL_START;
}

/** True where a server can listen on 127.0.0.1. */
async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host: "127.0.0.1", port, exclusive: true }, resolve);
    });
  } catch (error) {
    if (hasCode(error, "EADDRINUSE")) return false;
    if (hasCode(error, "EACCES")) throw new Error(`Port ${port} is only for root; choose one above 1023.`);
    throw error;
  }
  await new Promise((resolve) => server.close(resolve));
  return true;
}
