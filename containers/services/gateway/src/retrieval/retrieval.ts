/** Everything behind /v1/documents, /v1/match and /v1/answer, put together. */
import type { FastifyBaseLogger } from "fastify";
import type { Registry } from "prom-client";
import type { Upstream } from "../catalogue.ts";
import { ConfigError, type GatewayConfig } from "../config.ts";
import { createImageContext, type ImageContext } from "../images/source.ts";
import { type DatabaseSecrets, type DatabasesConfig, readDatabaseSecrets } from "../retrieval-config.ts";
import type { DocumentEncoder } from "../triton/document-encoder.ts";
import type { DatabaseName } from "./database-errors.ts";
import { DocumentStore } from "./document-store.ts";
import { DocumentService } from "./documents.ts";
import { ImageStore } from "./image-store.ts";
import { KeyedLocks } from "./locks.ts";
import { Matcher } from "./match.ts";
import { RetrievalMetrics } from "./metrics.ts";
import { MongoConnection } from "./mongo.ts";
import { QdrantClient } from "./qdrant-client.ts";
import { Repair } from "./repair.ts";
import { Settlement, type Stores } from "./settlement.ts";
import { VectorStore } from "./vector-store.ts";

export interface Retrieval {
  readonly stores: Stores;
  readonly documents: DocumentService;
  readonly matcher: Matcher;
  readonly repair: Repair;
  readonly images: ImageContext;
  readonly metrics: RetrievalMetrics;
  readonly encoder: DocumentEncoder;
  readonly probes: Readonly<Record<DatabaseName, DatabaseProbe>>;
  /** The databases, for /readyz. */
  readonly upstreams: readonly Upstream[];
  /** Ends repair and closes all connections. */
  close(): Promise<void>;
}

/** Asks a database for a sign of life; throws where there is none. */
type DatabaseProbe = (signal: AbortSignal) => Promise<void>;

/** An image that no document shows is kept at least so many times as long as a request may take. */
const GRACE_REQUESTS = 2;

/** @returns undefined where the configuration has no databases. @throws ConfigError when they can't be opened as it says. */
export function createRetrieval(
  config: GatewayConfig,
  encoder: DocumentEncoder | undefined,
  registry: Registry,
  log: FastifyBaseLogger,
): Retrieval | undefined {
  const { databases } = config;
  if (databases === undefined || encoder === undefined) return undefined;
  const metrics = new RetrievalMetrics(registry);
  const { mongo, qdrant } = open(databases, metrics);
  const stores: Stores = {
    documents: new DocumentStore(mongo),
    images: new ImageStore(mongo),
    vectors: new VectorStore(qdrant, {
      collection: databases.vector.collection,
      dimensions: { text: encoder.textDimension, image: encoder.imageDimension },
    }),
  };
  const shared = {
    stores,
    settlement: new Settlement(stores, encoder),
    locks: new KeyedLocks(),
  };
  const repair = new Repair({
    ...shared,
    imageGraceSeconds: config.limits.requestSeconds * GRACE_REQUESTS,
    log,
    onResult: (result) => metrics.countRepairs(result),
  });
  const probes = {
    mongo: (signal: AbortSignal) => mongo.ping(signal),
    vector: (signal: AbortSignal) => qdrant.ping(signal),
  };
  const { maxBytes, maxPixels, maxSide, storedSide } = config.images;
  return {
    stores,
    documents: new DocumentService({ ...shared, onUnfinished: () => repair.nudge() }),
    matcher: new Matcher(stores, encoder),
    repair,
    images: createImageContext({
      hosts: config.imageHosts,
      limits: { bytes: maxBytes, pixels: maxPixels, sidePixels: maxSide, storedSidePixels: storedSide },
    }),
    metrics,
    encoder,
    probes,
    upstreams: Object.entries(probes).map(([name, probe]) => upstream(name, probe)),
    close: async () => {
      await repair.stop();
      await Promise.all([mongo.close(), qdrant.close()]);
    },
  };
}

function open(databases: DatabasesConfig, { observeDatabase: observe }: RetrievalMetrics) {
  let secrets: DatabaseSecrets;
  try {
    secrets = readDatabaseSecrets(databases, process.env);
  } catch (error) {
    throw new ConfigError((error as Error).message);
  }
  const { mongo, vector } = databases;
  try {
    return {
      mongo: new MongoConnection({ uri: secrets.mongoUri, database: mongo.database, observe }),
      qdrant: new QdrantClient({ origin: vector.url, apiKey: secrets.vectorApiKey, observe }),
    };
  } catch {
    // The driver's words may repeat the address with its password.
    throw new ConfigError(
      "The address of databases.mongo is no MongoDB connection string; write mongodb://HOST:PORT",
    );
  }
}

function upstream(name: string, probe: DatabaseProbe): Upstream {
  return {
    name,
    notReady: async () => {
      try {
        await probe(new AbortController().signal);
        return undefined;
      } catch (error) {
        const { code, message } = error as { readonly code?: string; readonly message: string };
        return `it does not answer (${code ?? message})`;
      }
    },
  };
}
