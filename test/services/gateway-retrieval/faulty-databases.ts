/** Databases behind proxies that lose what a test names, and gateways that repair what comes of it. */
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { type RunningGateway, startGateway } from "../gateway/support.ts";
import { type DatabasesAndTriton, useDatabasesAndTriton } from "./databases-and-triton.ts";
import { type FaultProxy, mongoProxy, vectorProxy } from "./fault-proxies.ts";
import { retrievalConfig } from "./support.ts";

interface FaultyDatabases extends DatabasesAndTriton {
  readonly mongo: () => FaultProxy;
  readonly vector: () => FaultProxy;
  /** Of the proxies, which are those of `config` as well. */
  readonly ports: () => { readonly mongo: number; readonly vector: number };
  /** Lets both proxies pass everything. */
  readonly heal: () => void;
}

/** Both databases, each behind a proxy, for all tests of a file. */
export function useFaultyDatabases(): FaultyDatabases {
  const { databases, triton } = useDatabasesAndTriton();
  let mongo: FaultProxy;
  let vector: FaultProxy;
  beforeAll(async () => {
    [mongo, vector] = await Promise.all([
      mongoProxy(databases().mongo.port),
      vectorProxy(databases().vector.port),
    ]);
  });
  afterAll(async () => {
    await Promise.all([mongo?.close(), vector?.close()]);
  });
  const ports = () => ({ mongo: mongo.port, vector: vector.port });
  return {
    databases,
    triton,
    mongo: () => mongo,
    vector: () => vector,
    ports,
    config: (more) => retrievalConfig(triton(), ports(), more),
    heal: () => {
      mongo.fate = () => "pass";
      vector.fate = () => "pass";
    },
  };
}

interface RepairingGateway {
  readonly gateway: () => RunningGateway;
  /** POST /v1/documents. */
  readonly write: (body: unknown) => Promise<Response>;
  readonly remove: (id: string) => Promise<Response>;
  readonly read: (id: string) => Promise<Response>;
  /** Ids of the documents that a text finds, best first. */
  readonly found: (text: string) => Promise<string[]>;
  readonly sweep: () => ReturnType<Repair["sweep"]>;
}

type Repair = NonNullable<RunningGateway["gateway"]["retrieval"]>["repair"];

/** A gateway for each test, with nothing to repair when it begins; after it, the databases are healed. */
export function useRepairingGateway({ config, heal }: FaultyDatabases): RepairingGateway {
  let gateway: RunningGateway;
  const sweep = async () => {
    const { retrieval } = gateway.gateway;
    if (retrieval === undefined) throw new Error("the test's configuration has databases");
    return retrieval.repair.sweep(true);
  };
  beforeEach(async () => {
    gateway = await startGateway(config());
    await sweep();
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
    sweep,
  };
}
