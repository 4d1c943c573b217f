/** Everything behind /v1/documents, /v1/match and /v1/answer, put together. */
import { StartError } from "@engine-room/service-process";
import type { FastifyBaseLogger } from "fastify";
import type { Registry } from "prom-client";
import type { GatewayConfig } from "../config.ts";
import { readDatabaseSecrets } from "../config-file.ts";
import type { ImageContext } from "../images/source.ts";
import { type RetrievalMetrics, retrievalMetrics } from "../metrics.ts";
import type { DocumentEncoder } from "../triton/document-encoder.ts";
import { DocumentStore } from "./document-store.ts";
import { Indexer } from "./indexer.ts";
import { VectorStore } from "./vector-store.ts";

export interface Retrieval {
  /** The documents, in MongoDB. */
  readonly documents: DocumentStore;
  /** Their vectors, in Qdrant. */
  readonly vectors: VectorStore;
  readonly indexer: Indexer;
  readonly images: ImageContext;
  readonly metrics: RetrievalMetrics;
  readonly encoder: DocumentEncoder;
  /** Ends reindexing and closes all connections. */
  close(): Promise<void>;
}

/** @returns undefined without databases. @throws StartError when they can't be opened. */
export function createRetrieval(
  { databases }: GatewayConfig,
  encoder: DocumentEncoder | undefined,
  images: ImageContext,
  registry: Registry,
  log: FastifyBaseLogger,
): Retrieval | undefined {
  if (databases === undefined || encoder === undefined) return undefined;
  const { mongoUri, vectorApiKey } = readDatabaseSecrets(databases);
  const metrics = retrievalMetrics(registry);
  const documents = openDocuments(mongoUri, databases.mongo.database, metrics);
  const vectors = new VectorStore(databases.vector, vectorApiKey, encoder, metrics, () => indexer.retry());
  const indexer = new Indexer({ documents, vectors, encoder, metrics, log });
  return {
    documents,
    vectors,
    indexer,
    images,
    metrics,
    encoder,
    close: async () => {
      await indexer.stop();
      await Promise.all([documents.close(), vectors.close()]);
    },
  };
}

function openDocuments(uri: string, database: string, metrics: RetrievalMetrics): DocumentStore {
  try {
    return new DocumentStore(uri, database, metrics);
  } catch {
    // The driver's words may repeat the address with its password.
    throw new StartError(
      "The address of databases.mongo is not a MongoDB connection string; write mongodb://HOST:PORT",
    );
  }
}
