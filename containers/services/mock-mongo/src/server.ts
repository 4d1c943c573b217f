/** The document database as a TCP server. */
import { createServer, type Server } from "node:net";
import { ByteBudget } from "@engine-room/service-process";
import type { Logger } from "pino";
import { Connection, type ConnectionLimits } from "./connection.ts";
import { Cursors } from "./cursors.ts";
import type { ServerMetrics } from "./metrics.ts";
import type { Store } from "./store.ts";
import { UnsentReplies } from "./unsent-replies.ts";
import { MAX_MESSAGE_BYTES } from "./wire.ts";

export interface ServerLimits extends ConnectionLimits {
  /** Connections at the same time; more are closed at once. */
  readonly connections: number;
  readonly openCursors: number;
  readonly cursorIdleSeconds: number;
  /** What cursors hold together between two batches. */
  readonly cursorBytes: number;
  /** Messages over 16 KiB that are received or run at the same time, in bytes; more wait. */
  readonly messageBytes: number;
  /** Replies that are not read, in bytes; over it the oldest ones lose their connection. */
  readonly unsentReplyBytes: number;
  /** Commands that run get so long to end when the server stops. */
  readonly stopSeconds: number;
}

export const DEFAULT_LIMITS: ServerLimits = {
  connections: 20_000,
  idleSeconds: 3600,
  messageSeconds: 30,
  replySeconds: 60,
  openCursors: 10_000,
  cursorIdleSeconds: 600,
  cursorBytes: 512 * 1024 * 1024,
  // Five of the largest.
  messageBytes: 5 * MAX_MESSAGE_BYTES,
  unsentReplyBytes: 256 * 1024 * 1024,
  stopSeconds: 10,
};

export interface MongoServer {
  readonly server: Server;
  /** Finishes the commands that run and closes all connections. */
  stop(): Promise<void>;
}

/** A server that does not listen yet. */
export function createMongoServer(
  store: Store,
  limits: ServerLimits,
  metrics: ServerMetrics,
  log: Logger,
): MongoServer {
  const cursors = new Cursors({
    openCursors: limits.openCursors,
    heldBytes: limits.cursorBytes,
    idleSeconds: limits.cursorIdleSeconds,
  });
  const unsent = new UnsentReplies(limits.unsentReplyBytes);
  const services = { store, cursors, metrics, log, unsent, room: new ByteBudget(limits.messageBytes) };
  const connections = new Map<Connection, () => void>();
  metrics.observe({
    connections: () => connections.size,
    cursors: () => cursors.size,
    unsentReplyBytes: () => unsent.bytes,
    store: () => store.totals(),
  });
  let lastId = 0;
  const server = createServer({ noDelay: true, keepAlive: true }, (socket) => {
    lastId += 1;
    const connection = new Connection(socket, lastId, services, limits);
    connections.set(connection, () => socket.destroy());
    socket.once("close", () => connections.delete(connection));
  });
  server.maxConnections = limits.connections;
  return {
    server,
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      const cutOff = setTimeout(() => {
        for (const destroy of connections.values()) destroy();
      }, limits.stopSeconds * 1000);
      await Promise.all([...connections.keys()].map((connection) => connection.finish()));
      await closed;
      clearTimeout(cutOff);
      cursors.close();
    },
  };
}
