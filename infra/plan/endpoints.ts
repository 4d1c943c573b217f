/** Addresses at which a stack serves. */

/** Clients of an endpoint: the internet, the virtual network, the cluster, or processes of the same host. */
export type Reach = "public" | "vpc" | "cluster" | "host";

export interface TritonEndpoints {
  /** Base URL of KServe v2 over HTTP. */
  readonly http: string;
  /** `host:port` of KServe v2 over gRPC. */
  readonly grpc: string;
  /** Prometheus page. */
  readonly metrics: string;
}

export interface ModelEndpoints extends TritonEndpoints {
  /** URL that takes one JSON request and gives one JSON answer. */
  readonly generate: string;
}

export interface Endpoints {
  readonly gateway: string;
  /** Clients of the gateway, which may be more than those of the other endpoints. */
  readonly gatewayReach: Reach;
  /** DNS name of the load balancer before the gateway, as the target of an own DNS record; null without load balancer. */
  readonly gatewayDnsName: string | null;
  /** `mongodb://` address without password; null if the address of an external database is kept in a secret. */
  readonly mongo: string | null;
  /** HTTP address of the vector database; null for a stack without it. */
  readonly vector: string | null;
  readonly encoders: TritonEndpoints | null;
  readonly models: Readonly<Record<string, ModelEndpoints>>;
  /** Clients of all other endpoints. */
  readonly reach: Reach;
}

/** `{ http, grpc, metrics }` of a Triton on one address. */
export function tritonEndpoints(
  host: string,
  ports: { http: number; grpc: number; metrics: number },
): TritonEndpoints {
  return {
    grpc: `${host}:${ports.grpc}`,
    http: `http://${host}:${ports.http}`,
    metrics: `http://${host}:${ports.metrics}/metrics`,
  };
}

/** A model as the outputs of a stack name it. */
export interface ServedModel {
  readonly name: string;
  readonly model: string;
  readonly release: string;
  /** Key of the TensorRT engine; null if the model runs without one. */
  readonly engineKey: string | null;
  readonly nodePool: string;
}
