/** TCP ports of processes: requested ports, ports that a process had before, and free ports for the rest. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile, readlink } from "node:fs/promises";
import { createServer } from "node:net";
import { fromRoot, hasCode } from "./files.ts";
import type { Ports, ProcessInputs } from "./inputs.ts";
import { claimedPorts } from "./process-files.ts";

const FIRST_PORT = 20_000;
// Where the kernel's range for outgoing connections starts by default.
const DEFAULT_EPHEMERAL_START = 32_768;

interface PortChoice {
  readonly ports: Ports;
  /** A sentence that names the holder, for each requested port that is taken. */
  readonly taken: Readonly<Record<string, string>>;
}

/**
 * Chooses a port for each name of `requestedPorts`. Nothing is reserved: the caller records the ports before the next process asks.
 *
 * @param previous - Earlier ports of the process: kept if no other port is requested.
 * @param running - Whether the process may listen on them: they count as free then.
 */
export async function choosePorts(
  inputs: ProcessInputs,
  previous: Ports,
  { running }: { readonly running: boolean },
): Promise<PortChoice> {
  const { stackDirectory, name, requestedPorts } = inputs;
  const ports: Record<string, number> = {};
  const taken: Record<string, string> = {};
  const holders = await claimedPorts(stackDirectory, name);
  const own = running ? Object.values(previous) : [];
  const isUsable = async (port: number) => !holders.has(port) && (own.includes(port) || (await isFree(port)));
  // Free ports last: a requested port is not given to another name.
  const entries = Object.entries(requestedPorts).toSorted(
    ([, a], [, b]) => Number(a === 0) - Number(b === 0),
  );
  for (const [portName, asked] of entries) {
    const old = previous[portName];
    let port = asked;
    if (asked === 0)
      port = old !== undefined && (await isUsable(old)) ? old : await freePort(inputs, portName, isUsable);
    else if (!(await isUsable(asked))) {
      const holder = holders.get(asked) ?? (await portHolder(asked));
      taken[portName] =
        `${name}: the ${portName} port ${asked} is taken by ${holder}; stop it or choose another port (0 chooses a free port).`;
    }
    ports[portName] = port;
    holders.set(port, `${name}, as ${portName}`);
  }
  return { ports, taken };
}

/**
 * The search starts at a port derived from the stack and the names, so that a process which is created again gets its old port and two
 * stacks seldom collide. It stays below the ports of outgoing connections: one of those could take the port of a process that is being
 * restarted.
 */
async function freePort(
  { stackDirectory, name }: ProcessInputs,
  portName: string,
  isUsable: (port: number) => Promise<boolean>,
): Promise<number> {
  const range = await readFile("/proc/sys/net/ipv4/ip_local_port_range", "utf8").catch(() => "");
  const ephemeralStart = Number.parseInt(range, 10);
  const count = (ephemeralStart > FIRST_PORT + 1000 ? ephemeralStart : DEFAULT_EPHEMERAL_START) - FIRST_PORT;
  const key = `${fromRoot(stackDirectory)}\0${name}\0${portName}`;
  const start = createHash("sha256").update(key).digest().readUInt32BE() % count;
  for (let step = 0; step < count; step++) {
    const port = FIRST_PORT + ((start + step) % count);
    if (await isUsable(port)) return port;
  }
  throw new Error(`${name}: no TCP port from ${FIRST_PORT} to ${FIRST_PORT + count - 1} is free.`);
}

/** True if a server can listen on 127.0.0.1. */
export async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen({ host: "127.0.0.1", port, exclusive: true });
  try {
    await once(server, "listening");
  } catch (error) {
    if (hasCode(error, "EADDRINUSE")) return false;
    if (hasCode(error, "EACCES")) throw new Error(`Port ${port} is only for root; choose one above 1023.`);
    throw error;
  }
  await once(server.close(), "close");
  return true;
}

/** Returns the listener: as in `python3 (pid 4711)`, or the user's number if /proc shows the caller only that. */
export async function portHolder(port: number): Promise<string> {
  const tables = ["/proc/net/tcp", "/proc/net/tcp6"].map((table) => readFile(table, "utf8").catch(() => ""));
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  // proc_pid_net(5), state 0A is LISTEN: `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …`
  const sockets = (await Promise.all(tables))
    .flatMap((table) => table.split("\n").map((line) => line.trim().split(/\s+/)))
    .filter(([, local, , state]) => state === "0A" && local?.endsWith(suffix));
  const links = new Set(sockets.map((fields) => `socket:[${fields[9]}]`));
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
    for (const descriptor of descriptors)
      if (links.has(await readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => ""))) {
        const program = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "a process");
        return `${program.trim()} (pid ${pid})`;
      }
  }
  return sockets[0] === undefined ? "another process" : `a process of user ${sockets[0][7]}`;
}
