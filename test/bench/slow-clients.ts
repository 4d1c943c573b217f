/** A gateway with clients that hold connections: latency of other clients, and memory. */
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { embeddingsSender, measure } from "../../scripts/bench/load.ts";
import { tell } from "../harness/progress.ts";

const READERS = 1000;
const WRITERS = 1000;
const IDLE = 5000;
/** Other clients, which send all the time. */
const SENDERS = 4;
const SECONDS = 15;
const WARM_UP_SECONDS = 3;
/** Connections that are opened at a time. */
const OPENED_AT_ONCE = 100;
/** Size of an upload that does not complete before the benchmark ends. */
const UPLOAD_BYTES = 1_000_000;
const TRICKLE_MILLISECONDS = 1000;
const DOCUMENTS = 50;
const TEXT_BYTES = 60_000;
const MATCH = { text: "slow", topK: DOCUMENTS, textCharacters: 20_000 };

export interface SlowClientsCell {
  readonly clients: string;
  readonly requests: number;
  readonly failed: number;
  readonly p99Milliseconds: number;
  /** p99 divided by that of the same run without slow clients. */
  readonly ratio: number;
  /** Connections of the slow clients that were open at the end. */
  readonly open: number;
  /** Maximum of the gateway's process in this part. */
  readonly residentBytes: number;
}

/**
 * Measures embeddings of other clients without slow clients, with each kind of them, and with all kinds together. Stores 50
 * documents of 60 kB and deletes them again.
 */
export async function measureSlowClients(
  gateway: string,
  headers: Record<string, string>,
): Promise<SlowClientsCell[]> {
  const ids = Array.from({ length: DOCUMENTS }, (_, index) => `slow-${index}`);
  const documents = ids.map((id) => ({ id, text: `slow ${id} ${"x".repeat(TEXT_BYTES)}` }));
  const kinds = { readers: slowReaders, writers: slowWriters, idle: idleConnections };
  const cells: SlowClientsCell[] = [];
  const others = embeddingsSender(gateway, headers);
  try {
    await post(gateway, { documents }, headers);
    await measure(others, SENDERS, WARM_UP_SECONDS);
    const parts: [string, Open[]][] = [
      ["none", []],
      [`${READERS} slow readers`, [kinds.readers]],
      [`${WRITERS} slow writers`, [kinds.writers]],
      [`${IDLE} idle connections`, [kinds.idle]],
      ["all of them", Object.values(kinds)],
    ];
    for (const [clients, opens] of parts) {
      const sockets = (await Promise.all(opens.map((open) => open(new URL(gateway), headers)))).flat();
      const memory = watchMemory(gateway);
      try {
        const { requests, failed, p99Milliseconds } = await measure(others, SENDERS, SECONDS);
        const open = sockets.filter(({ destroyed }) => !destroyed).length;
        const ratio = p99Milliseconds / (cells[0]?.p99Milliseconds ?? p99Milliseconds);
        tell(`beside ${clients}: p99 ${p99Milliseconds.toFixed(1)} ms`);
        cells.push({ clients, requests, failed, p99Milliseconds, ratio, open, residentBytes: memory.most() });
      } finally {
        memory.stop();
        for (const socket of sockets) socket.destroy();
      }
      await sleep(TRICKLE_MILLISECONDS);
    }
  } finally {
    for (const id of ids) await fetch(`${gateway}/v1/documents/${id}`, { method: "DELETE", headers });
  }
  return cells;
}

type Open = (gateway: URL, headers: Record<string, string>) => Promise<Socket[]>;

/** Clients that request a megabyte and do not read it. Resolves when the gateway has finished all responses. */
const slowReaders: Open = async (gateway, headers) => {
  const sockets = await openSockets(gateway, READERS, (socket) => {
    socket.pause().write(request("/v1/match", MATCH, headers));
  });
  const places = /^gateway_places_taken 0\n[\s\S]*^gateway_queue_length 0$/m;
  while (!places.test(await metrics(gateway.origin))) await sleep(TRICKLE_MILLISECONDS);
  return sockets;
};

/** Clients that send some bytes of an upload each second. */
const slowWriters: Open = (gateway, headers) => {
  const head = request("/v1/documents", { id: "x" }, headers).split("\r\n\r\n")[0];
  const upload = head?.replace(/content-length: \d+/, `content-length: ${UPLOAD_BYTES}`);
  return openSockets(gateway, WRITERS, (socket) => {
    socket.resume().write(`${upload}\r\n\r\n{`);
    const timer = setInterval(() => socket.write(" ".repeat(16)), TRICKLE_MILLISECONDS);
    socket.once("close", () => clearInterval(timer));
  });
};

/** Connections that stay open after one response. */
const idleConnections: Open = (gateway) =>
  openSockets(gateway, IDLE, (socket) => socket.resume().write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"));

async function openSockets(gateway: URL, count: number, begin: (socket: Socket) => void): Promise<Socket[]> {
  const sockets: Socket[] = [];
  const opened = () =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(Number(gateway.port), gateway.hostname);
      sockets.push(socket);
      socket.once("error", reject).once("connect", () => {
        // The gateway may close it from now on.
        socket.off("error", reject).on("error", () => socket.destroy());
        begin(socket);
        resolve();
      });
    });
  while (sockets.length < count) await Promise.all(Array.from({ length: OPENED_AT_ONCE }, opened));
  return sockets;
}

function request(path: string, body: object, headers: Record<string, string>): string {
  const text = JSON.stringify(body);
  const all = {
    host: "x",
    "content-type": "application/json",
    "content-length": `${text.length}`,
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return [`POST ${path} HTTP/1.1`, ...lines, "", text].join("\r\n");
}

async function post(gateway: string, body: object, headers: Record<string, string>): Promise<void> {
  const options = { method: "POST", headers: { "content-type": "application/json", ...headers } };
  const response = await fetch(`${gateway}/v1/documents`, { ...options, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`POST /v1/documents: HTTP ${response.status}: ${await response.text()}`);
}

async function metrics(gateway: string): Promise<string> {
  return (await fetch(`${gateway}/metrics`)).text();
}

function watchMemory(gateway: string) {
  let most = 0;
  const look = async () => {
    const [, bytes = "0"] = /^process_resident_memory_bytes (\d+)$/m.exec(await metrics(gateway)) ?? [];
    most = Math.max(most, Number(bytes));
  };
  const timer = setInterval(() => void look().catch(() => undefined), TRICKLE_MILLISECONDS);
  return { most: () => most, stop: () => clearInterval(timer) };
}

/** A line for each part. */
export function slowClientsText(cells: readonly SlowClientsCell[]): string {
  const rows = cells.map(({ clients, requests, failed, p99Milliseconds, ratio, open, residentBytes }) =>
    [
      clients.padEnd(24),
      `${requests}`.padStart(8),
      `${failed}`.padStart(6),
      p99Milliseconds.toFixed(1).padStart(7),
      ratio.toFixed(2).padStart(6),
      `${open}`.padStart(6),
      (residentBytes / 2 ** 20).toFixed(0).padStart(6),
    ].join("  "),
  );
  const head = `${"others wait beside".padEnd(24)}  requests  failed   p99 ms  ratio    open     MiB`;
  return [head, ...rows].join("\n");
}
