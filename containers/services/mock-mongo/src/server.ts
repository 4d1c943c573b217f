/** The document database as a TCP server, and its metrics. */

import { createServer as createHttpServer } from "node:http";
import { createServer, type Socket } from "node:net";
import { ByteBudget, ConnectionsByUse, HeldBytes } from "@engine-room/service-process";
import type { Document } from "bson";
import type { Logger } from "pino";
import { collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { commandName } from "./commands/command.ts";
import { commandLabel, failure, runCommand } from "./commands/index.ts";
import { Cursors } from "./cursors.ts";
import { HIGH_WATER_BYTES, type ServerLimits, SMALL_MESSAGE_BYTES } from "./limits.ts";
import type { Store } from "./store.ts";
import { encodeReply, MessageReader, parseMessage, type Request, WireError } from "./wire.ts";

/** Handshakes and heartbeats would drown the rest of the log. */
const QUIET = new Set(["hello", "ismaster", "isMaster", "ping", "endSessions"]);

/** Serves one client, one command after the other. Resolves when it disconnects. */
async function serve(socket: Socket, server: MongoServer): Promise<void> {
  const { limits, arriving, connections } = server;
  const reader = new MessageReader();
  let timer: NodeJS.Timeout | undefined;
  socket.setTimeout(limits.idleSeconds * 1000, () => socket.destroy());
  // A client's disconnect is not logged; its commands still run.
  socket.on("error", () => socket.destroy());
  try {
    // While a command runs nothing more is read, so that a client can't fill the memory with requests.
    for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
      reader.add(chunk);
      // A whole message does not wait for its client.
      arriving.set(socket, reader.bytes, undefined);
      for (let message = reader.take(); message !== undefined; message = reader.take()) {
        clearTimeout(timer);
        timer = undefined;
        connections.set(socket, false);
        const room = message.length > SMALL_MESSAGE_BYTES ? server.room : server.smallRoom;
        await room.take(message.length);
        arriving.set(socket, reader.bytes, undefined);
        try {
          const reply = await answer(socket, parseMessage(message), server);
          room.give(message.length);
          message = undefined;
          if (reply !== undefined) await send(socket, reply, server);
        } finally {
          if (message !== undefined) room.give(message.length);
        }
        if (!socket.destroyed) connections.set(socket, true);
        if (server.isStopping) return socket.destroySoon();
      }
      if (reader.bytes === 0) arriving.delete(socket);
      else if (!socket.destroyed) {
        const { messageSeconds: seconds, arrivingBytes: bytes } = limits;
        const abort = () => drop(socket, server, "a message was not complete in time", { seconds });
        timer ??= setTimeout(abort, seconds * 1000);
        const giveWay = () =>
          drop(socket, server, "a message was not complete when others needed room", { bytes });
        arriving.set(socket, reader.bytes, giveWay);
      }
    }
  } catch (error) {
    const reason = (error as Error).message;
    if (error instanceof WireError) drop(socket, server, "a message can't be read", { reason });
    else if (!socket.destroyed) drop(socket, server, "a command failed", { err: error });
  } finally {
    clearTimeout(timer);
    arriving.delete(socket);
    connections.delete(socket);
  }
}

function drop(socket: Socket, { log }: MongoServer, reason: string, values: object): void {
  log.warn({ remotePort: socket.remotePort, ...values }, `${reason}; the connection is closed`);
  socket.destroy();
}

/** The reply to a command; undefined when the client expects none. */
async function answer(socket: Socket, request: Request, server: MongoServer): Promise<Buffer | undefined> {
  const { commandSeconds, log } = server;
  const name = commandName(request.body);
  const end = commandSeconds.startTimer({ command: commandLabel(name) });
  let message: Buffer;
  let failed: Document | undefined;
  try {
    message = encodeReply(request, await runCommand(request, server));
  } catch (error) {
    failed = failure(error);
    message = encodeReply(request, failed);
  }
  const seconds = end({ ok: failed === undefined ? "1" : "0" });
  if (!QUIET.has(name)) {
    // The gateway sets `comment` to the id of its request.
    const { comment, $db, [name]: collection } = request.body;
    const values = {
      requestId: typeof comment === "string" ? comment.slice(0, 100) : undefined,
      command: name.slice(0, 100),
      database: String($db ?? "").slice(0, 100),
      collection: typeof collection === "string" ? collection.slice(0, 255) : undefined,
      milliseconds: Math.round(seconds * 1e5) / 100,
      code: failed?.code,
    };
    log[failed === undefined ? "info" : "warn"](values, "command");
  }
  return request.isSilent || socket.destroyed ? undefined : message;
}

/** Resolves when the client has read it, or is gone; a client that does not read loses its connection. */
async function send(socket: Socket, reply: Buffer, server: MongoServer): Promise<void> {
  const { unsent, limits } = server;
  let isRead = true;
  const sent = new Promise<unknown>((resolve) => {
    isRead = socket.write(reply, resolve);
  });
  if (isRead) return;
  const dropThis = () => drop(socket, server, "a reply is not read", { bytes: reply.length });
  const timer = setTimeout(dropThis, limits.replySeconds * 1000);
  unsent.set(socket, reply.length, dropThis);
  await sent;
  unsent.delete(socket);
  clearTimeout(timer);
}

/** The server of clients, and that of `GET /metrics` and `GET /healthz`; they don't listen yet. */
export class MongoServer {
  readonly store: Store;
  readonly limits: ServerLimits;
  readonly log: Logger;
  readonly registry = new Registry();
  readonly commandSeconds = new Histogram({
    name: "mongo_command_duration_seconds",
    help: "From a command's arrival to its reply; ok is 0 for errors.",
    labelNames: ["command", "ok"],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers: [this.registry],
  });
  readonly cursors: Cursors;
  /** Messages that are incomplete, or wait for room. */
  readonly arriving: HeldBytes<Socket>;
  /** For messages while their commands run. */
  readonly room: ByteBudget;
  /** The same for small messages, which don't wait for others. */
  readonly smallRoom: ByteBudget;
  /** Replies that clients don't read. */
  readonly unsent: HeldBytes<Socket>;
  /** A connection is idle when its commands are answered. */
  readonly connections: ConnectionsByUse<Socket>;
  isStopping = false;

  readonly server = createServer(
    { noDelay: true, keepAlive: true, highWaterMark: HIGH_WATER_BYTES },
    (socket) => {
      this.connections.set(socket, true);
      if (!socket.destroyed) void serve(socket, this);
    },
  );

  readonly metricsServer = createHttpServer(
    { requestTimeout: 10_000, headersTimeout: 5_000 },
    async ({ method, url }, response) => {
      const path = method === "GET" ? url?.split("?")[0] : undefined;
      if (path === "/healthz") {
        response.writeHead(200, { "content-type": "application/json" }).end('{"status":"ok"}');
      } else if (path === "/metrics") {
        const body = await this.registry.metrics();
        response.writeHead(200, { "content-type": this.registry.contentType }).end(body);
      } else response.writeHead(404).end();
    },
  );

  constructor(store: Store, limits: ServerLimits, log: Logger) {
    this.store = store;
    this.limits = limits;
    this.log = log;
    this.cursors = new Cursors(limits);
    this.arriving = new HeldBytes(limits.arrivingBytes);
    this.room = new ByteBudget(limits.messageBytes);
    this.smallRoom = new ByteBudget(limits.smallMessageBytes);
    this.unsent = new HeldBytes(limits.unsentReplyBytes);
    this.connections = new ConnectionsByUse(limits.connections);
    this.metricsServer.maxConnections = 100;
    collectDefaultMetrics({ register: this.registry });
    for (const [name, help, read] of [
      ["connections", "Open connections.", () => this.connections.size],
      ["open_cursors", "Cursors that clients may fetch more from.", () => this.cursors.size],
      ["unsent_reply_bytes", "Replies that clients don't read.", () => this.unsent.taken],
      ["documents", "Documents of all collections.", () => store.totals().documents],
      ["store_bytes", "Size of the file that holds them.", () => store.totals().bytes],
    ] as const) {
      const gauge: Gauge = new Gauge({
        name: `mongo_${name}`,
        help,
        registers: [this.registry],
        collect: () => gauge.set(read()),
      });
    }
  }

  /** Finishes running commands and closes all connections. */
  async stop(): Promise<void> {
    this.metricsServer.close();
    const closed = new Promise((resolve) => this.server.close(resolve));
    const abort = setTimeout(() => {
      for (const socket of this.connections.list()) socket.destroy();
    }, this.limits.stopSeconds * 1000);
    this.isStopping = true;
    for (const socket of this.connections.list(true)) socket.destroySoon();
    await closed;
    clearTimeout(abort);
    this.cursors.close();
  }
}
