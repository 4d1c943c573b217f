/**
 * Ports of a host on which the containers of a stack are published, if its file does not say. The first model has
 * Triton's own, as in `docker run --net host`; MongoDB and Qdrant have theirs.
 */

/** Only processes of the host can connect here. */
export const LOOPBACK = "127.0.0.1";

/** Ports of one Triton server. */
type TritonPorts = {
  readonly http: number;
  readonly grpc: number;
  readonly metrics: number;
};

export const PUBLISHED_PORTS = {
  gateway: 8080,
  encoders: tritonPortsFrom(8500),
  mongo: 27_017,
  vector: 6333,
} as const;

const FIRST_MODEL_PORT = 8000;
const PORTS_BETWEEN_MODELS = 10;

/** @param index - Position of the model in the stack file, from 0. */
export function publishedModelPorts(index: number): TritonPorts {
  return tritonPortsFrom(FIRST_MODEL_PORT + PORTS_BETWEEN_MODELS * index);
}

function tritonPortsFrom(first: number): TritonPorts {
  return { http: first, grpc: first + 1, metrics: first + 2 };
}
