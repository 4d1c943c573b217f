/** Addresses of what a stack serves. */

/** Who can connect to an endpoint: the world, the virtual network, the cluster, or processes of the same host. */
export type Reach = "public" | "vpc" | "cluster" | "host";

export interface TritonEndpoints {
  /** Base URL of KServe v2 over HTTP. */
  readonly http: string;
  /** `host:port` of KServe v2 over gRPC. */
  readonly grpc: string;
  /** Prometheus page. */
  readonly metrics: string;
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
