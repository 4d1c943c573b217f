/** Context of every route, and fields that routes set on the request for the log and the metrics. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { FastifyBaseLogger, FastifyInstance } from "fastify";
import type { ZodTypeProvider } from "fastify-type-provider-zod";
import type { Catalogue } from "./catalogue.ts";
import type { GatewayConfig } from "./config.ts";
import type { ImageContext } from "./images/source.ts";
import type { ConcurrencyLimiter, Deadline, RequestMemory } from "./limits.ts";
import type { GatewayMetrics } from "./metrics.ts";
import type { Retrieval } from "./retrieval/retrieval.ts";

/** The parts of one gateway. */
export interface Gateway {
  readonly config: GatewayConfig;
  readonly catalogue: Catalogue;
  readonly metrics: GatewayMetrics;
  readonly limiter: ConcurrencyLimiter;
  readonly memory: RequestMemory;
  readonly images: ImageContext;
  /** Absent without databases. */
  readonly retrieval: Retrieval | undefined;
  /** Set when the gateway stops: running requests are finished, new requests refused. */
  isDraining: boolean;
  /** Requests whose answer is not complete, on all routes. */
  inFlight: number;
}

/** Fastify with routes typed by their zod schemas. */
export type GatewayApp = FastifyInstance<
  Server,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>;

declare module "fastify" {
  interface FastifyRequest {
    /** Id of the served model, once it is known to exist; empty before. */
    servedModel: string;
    /** Owner of the API key; empty without keys. */
    keyOwner: string;
    /** Ends the request at its time limit, or when its client disconnects. */
    deadline: Deadline;
    /** Gives its place back. Calling it again does nothing. */
    release: () => void;
    /** Counts bytes that are kept until the answer is made. @throws ApiError 503 when there is no room for them. */
    hold: (bytes: number) => void;
  }
}
