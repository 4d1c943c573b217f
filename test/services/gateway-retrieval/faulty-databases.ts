/** Databases behind proxies that lose chosen requests, and gateways that repair the result. */
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { type RunningGateway, startGateway } from "../gateway/support.ts";
import { type DatabasesAndTriton, type Places, retrievalConfig, useDatabasesAndTriton } from "./support.ts";

/**
 * - `pass`: as if there were no proxy.
 * - `lose`: the connection breaks before the database sees the request.
 * - `refuse`: a vector database answers as one whose memory or disk is full.
 * - `loseAnswer`: the database executes the request, and the connection breaks before its response.
 */
export type Fate = "pass" | "lose" | "loseAnswer" | "refuse";

export interface FaultProxy {
  readonly port: number;
  /** Decides about each request; `name` is a MongoDB command, or method and path below the collection of a Qdrant request. */
  fate: (name: string, request: Buffer) => Fate | Promise<Fate>;
  close(): Promise<void>;
}

/** A proxy for Qdrant's REST. */
export async function vectorProxy(port: number): Promise<FaultProxy> {
  const server = createHttpServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const path = (request.url ?? "").replace(/^\/collections\/[^/]+/, "").split("?")[0];
    const head = Buffer.from(JSON.stringify(request.headers));
    const fate = await proxy.fate(`${request.method} ${path}`, Buffer.concat([head, body]));
    if (fate === "lose") return request.socket.destroy();
    if (fate === "refuse") {
      const error = "Service internal error: Out of memory";
      return response.writeHead(500).end(JSON.stringify({ status: { error }, time: 0 }));
    }
    try {
      const answer = await fetch(`http://127.0.0.1:${port}${request.url}`, {
        method: request.method ?? "GET",
        headers: { "content-type": "application/json" },
        ...(body.length > 0 && { body: new Uint8Array(body) }),
      });
      const text = await answer.text();
      if (fate === "loseAnswer") return request.socket.destroy();
      return response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
    } catch {
      return request.socket.destroy();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy: FaultProxy = {
    port: (server.address() as AddressInfo).port,
    fate: () => "pass",
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}

/** A proxy for MongoDB's wire protocol. */
export async function mongoProxy(port: number): Promise<FaultProxy> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", end).on("close", () => {
        sockets.delete(socket);
        end();
      });
    }
    let isCut = false;
    upstream.on("data", (data) => (isCut ? end() : client.write(data)));
    let turn = Promise.resolve();
    const forward = async (message: Buffer) => {
      const fate = await proxy.fate(commandOf(message), message);
      if (fate === "lose") return end();
      isCut = fate === "loseAnswer";
      upstream.write(message);
    };
    eachMessage(client, (message) => {
      turn = turn.then(() => forward(message));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy: FaultProxy = {
    port: (server.address() as AddressInfo).port,
    fate: () => "pass",
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}

/** A message begins with its length; the first bytes of several may come in one chunk. */
function eachMessage(socket: Socket, onMessage: (message: Buffer) => void): void {
  let buffered = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    buffered = Buffer.concat([buffered, chunk]);
    while (buffered.length >= 4 && buffered.length >= buffered.readInt32LE(0)) {
      const length = buffered.readInt32LE(0);
      onMessage(buffered.subarray(0, length));
      buffered = buffered.subarray(length);
    }
  });
}

const OP_MSG = 2013;
/** Header of 16 bytes, flags, kind of section, length of the document, type of its first element. */
const FIRST_KEY = 16 + 4 + 1 + 4 + 1;

function commandOf(message: Buffer): string {
  if (message.readInt32LE(12) !== OP_MSG) return "hello";
  return message.toString("latin1", FIRST_KEY, message.indexOf(0, FIRST_KEY));
}

/** Lets one request fail, once; `seen` is true once it came. */
export function failOnce(
  proxy: FaultProxy,
  name: string,
  fate: Fate,
  before: () => Promise<void> = async () => undefined,
): { readonly seen: boolean } {
  const state = { seen: false };
  proxy.fate = async (one) => {
    if (state.seen || one !== name) return "pass";
    state.seen = true;
    await before();
    return fate;
  };
  return state;
}

/** Lets every such request fail until the proxy passes all again: some clients retry after a broken connection. */
export function failAlways(proxy: FaultProxy, name: string, fate: Fate): { readonly seen: boolean } {
  const state = { seen: false };
  proxy.fate = (one) => {
    if (one !== name) return "pass";
    state.seen = true;
    return fate;
  };
  return state;
}

export interface FaultyDatabases extends DatabasesAndTriton {
  readonly mongo: () => FaultProxy;
  readonly vector: () => FaultProxy;
  /** Places of the proxies, which `config` has as well. */
  readonly places: () => Places;
  /** Lets both proxies pass everything. */
  readonly heal: () => void;
  readonly inArea: (area: string) => FaultyDatabases;
}

/** Both databases, each behind a proxy, for all tests of a file. */
export function useFaultyDatabases(): FaultyDatabases {
  const direct = useDatabasesAndTriton();
  let mongo: FaultProxy;
  let vector: FaultProxy;
  beforeAll(async () => {
    [mongo, vector] = await Promise.all([
      mongoProxy(direct.databases().mongo.port),
      vectorProxy(direct.databases().vector.port),
    ]);
  });
  afterAll(async () => {
    await Promise.all([mongo?.close(), vector?.close()]);
  });
  const inArea = (area: string): FaultyDatabases => {
    const places = () => ({ mongo: mongo.port, vector: vector.port, area });
    return {
      ...direct.inArea(area),
      mongo: () => mongo,
      vector: () => vector,
      places,
      config: (more) => retrievalConfig(direct.triton(), places(), more),
      heal: () => {
        mongo.fate = () => "pass";
        vector.fate = () => "pass";
      },
      inArea,
    };
  };
  return inArea("documents");
}

interface MendingGateway {
  readonly gateway: () => RunningGateway;
  /** POST /v1/documents. */
  readonly write: (body: unknown) => Promise<Response>;
  readonly remove: (id: string) => Promise<Response>;
  readonly read: (id: string) => Promise<Response>;
  /** Ids of the documents that a text finds, best first. */
  readonly found: (text: string) => Promise<string[]>;
  /** POST /v1/reindex. @throws Error with the response's text when it fails. */
  readonly reindex: () => Promise<Record<"documents" | "indexed" | "removed" | "refused", number>>;
}

/** A gateway for each test, on databases that agree when it begins; after it, the databases are healed. */
export function useMendingGateway({ config, heal }: FaultyDatabases): MendingGateway {
  let gateway: RunningGateway;
  const reindex = async () => {
    const response = await fetch(`${gateway.url}/v1/reindex`, { method: "POST" });
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()) as Awaited<ReturnType<MendingGateway["reindex"]>>;
  };
  beforeEach(async () => {
    gateway = await startGateway(config());
    await reindex();
  });
  afterEach(async () => {
    heal();
    await gateway.app.close();
  });
  return {
    gateway: () => gateway,
    write: (body) => gateway.post("/v1/documents", body),
    remove: (id) => fetch(`${gateway.url}/v1/documents/${id}`, { method: "DELETE" }),
    read: (id) => fetch(`${gateway.url}/v1/documents/${id}`),
    async found(text) {
      const response = await gateway.post("/v1/match", { text, topK: 100 });
      const { matches } = (await response.json()) as { matches: { id: string }[] };
      return matches.map(({ id }) => id);
    },
    reindex,
  };
}
