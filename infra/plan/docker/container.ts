/** What the containers of a stack have in common: names, labels, and values of what most of them leave as it is. */
import { LOOPBACK } from "../catalogue/published-ports.ts";
import { nodeCheck } from "../database-servers.ts";
import { TRITON_PORTS, type TritonPorts } from "../repository/launch.ts";
import type { ContainerRole, DockerContainer, DockerHealth, DockerPort } from "./types.ts";

/** What a container must say of itself. */
type RequiredOptions = Pick<
  DockerContainer,
  "role" | "image" | "networkAlias" | "lifecycle" | "stopTimeoutSeconds"
>;

/** A container of a stack; what is not given is Docker's own, or nothing. */
export function container(
  stack: string,
  options: RequiredOptions & Partial<Omit<DockerContainer, "name" | "labels">>,
  key: string | null = null,
): DockerContainer {
  return {
    name: objectName(stack, options.networkAlias),
    model: null,
    entrypoint: null,
    command: [],
    environment: {},
    files: {},
    secretFiles: {},
    mounts: [],
    gpus: null,
    ipc: "private",
    shmBytes: null,
    ulimits: {},
    ports: [],
    health: null,
    timeoutSeconds: null,
    user: null,
    readOnlyRoot: false,
    tmpfsBytes: {},
    memoryMiB: null,
    after: [],
    ...options,
    labels: labels(stack, { role: options.role, model: options.model ?? null, key }),
  };
}

/** Name on the host, where several stacks may be. */
export function objectName(stack: string, name: string): string {
  return `${stack}-${name}`;
}

interface Labelled {
  readonly role?: ContainerRole | "image" | "network" | "volume";
  readonly model?: string | null;
  /** Content address of what a task makes. */
  readonly key?: string | null;
}

/** Labels of anything that a stack has on a host, sorted: `docker ps --filter label=engine-room.stack=NAME` finds it. */
export function labels(stack: string, { role, model, key }: Labelled = {}): Record<string, string> {
  return {
    ...(typeof key === "string" ? { "engine-room.key": key } : {}),
    ...(typeof model === "string" ? { "engine-room.model": model } : {}),
    ...(role === undefined ? {} : { "engine-room.role": role }),
    "engine-room.stack": stack,
  };
}

/** Every Triton listens on its own ports in its container. */
export function tritonPorts(published: TritonPorts): readonly DockerPort[] {
  return (["http", "grpc", "metrics"] as const).map((name) => ({
    containerPort: TRITON_PORTS[name],
    hostPort: published[name],
    hostAddress: LOOPBACK,
  }));
}

/** Address of a Triton for other containers. */
export function tritonAddress(networkAlias: string): string {
  return `http://${networkAlias}:${TRITON_PORTS.http}`;
}

/** A check that takes long is a server that hangs; three in a row are no accident. */
const HEALTH_TIMES = { intervalSeconds: 10, timeoutSeconds: 5, retries: 3 } as const;

/** @param startPeriodSeconds - How long the service may take until it answers. */
export function health(test: readonly string[], startPeriodSeconds: number): DockerHealth {
  return { test, ...HEALTH_TIMES, startPeriodSeconds };
}

/** Ready when all models are; every image with a Triton has this Python. */
export function tritonHealth(startPeriodSeconds: number): DockerHealth {
  const url = `http://127.0.0.1:${TRITON_PORTS.http}/v2/health/ready`;
  const program = `import urllib.request; urllib.request.urlopen("${url}", timeout=4)`;
  return health(["python3", "-c", program], startPeriodSeconds);
}

/** Asks an address of the container itself. */
export function nodeHealth(url: string, startPeriodSeconds: number): DockerHealth {
  return health(nodeCheck(url), startPeriodSeconds);
}
