/** What stands around the models: the gateway and its databases. */
import { canonicalJson } from "../canonical-json.ts";
import { LOOPBACK } from "../catalogue/published-ports.ts";
import { SPEC_FILES } from "../container-specs.ts";
import type { DockerCpuPlan } from "../cpu-stack.ts";
import { gatewayConfig } from "../gateway-config.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import { container, health, nodeHealth, tritonAddress } from "./container.ts";
import { type DockerDatabasesPlan, SECRET_FILES } from "./databases.ts";
import { ENCODERS } from "./tritons.ts";
import type { DockerContainer, DockerMount, DockerPort } from "./types.ts";
import { databaseVolumeUses, volumeName } from "./volumes.ts";

type DockerPlan = DockerCpuPlan | DockerGpuPlan;

/** Listened on in the containers, whatever they are published on. */
const CONTAINER_PORTS = { gateway: 8080, mongo: 27_017, mongoMetrics: 9216, vector: 6333 } as const;

/** Running answers are finished first; who has not ended by then is cut off. */
const STOP_SECONDS = 30;
const START_SECONDS = 30;

/** `/tmp` of a container that can write nowhere else: sockets and the like. */
const SCRATCH_TMPFS = { "/tmp": 64 * 2 ** 20 } as const;

/** Data that were acknowledged are on disk; the end only has to be in order. */
const DATABASE_STOP_SECONDS = 30;

/** A large volume is looked through before the port is open. */
const DATABASE_START_SECONDS = 120;

/** MongoDB takes half of the machine's memory by default, which the models need. */
const MONGO_CACHE_GB = 1;

/** The gateway, with its configuration in a file. */
export function gateway(
  stack: string,
  plan: DockerPlan,
  databases: readonly DockerContainer[],
): DockerContainer {
  const port = CONTAINER_PORTS.gateway;
  const config = {
    host: "0.0.0.0",
    port,
    ...gatewayConfig(plan, {
      ...(plan.encoders === null ? {} : { encoders: tritonAddress(ENCODERS) }),
      models: plan.models.map(({ name }) => tritonAddress(name)),
      mongo: `mongodb://mongo:${CONTAINER_PORTS.mongo}`,
      vector: `http://vector:${CONTAINER_PORTS.vector}`,
    }),
  };
  return container(stack, {
    role: "gateway",
    image: "services",
    networkAlias: "gateway",
    command: ["gateway", "--config", SPEC_FILES.gateway],
    files: { [SPEC_FILES.gateway]: canonicalJson(config) },
    secretFiles: databaseSecrets(databasesOf(plan)),
    ports: [{ containerPort: port, hostPort: plan.gateway.port, hostAddress: plan.host.gatewayAddress }],
    health: nodeHealth(`http://127.0.0.1:${port}/healthz`, START_SECONDS),
    lifecycle: "service",
    stopTimeoutSeconds: STOP_SECONDS,
    after: databases.map(({ name }) => name),
  });
}

/** null: the stack has no encoders, and documents are found by their vectors. */
export function databasesOf(plan: DockerPlan): DockerDatabasesPlan | null {
  return plan.tier === "cpu" ? plan.databases : plan.host.databases;
}

/** Databases of the stack's own; none where they run elsewhere. */
export function databaseContainers(stack: string, plan: DockerPlan): readonly DockerContainer[] {
  const databases = databasesOf(plan);
  if (databases === null || databases.kind === "external") return [];
  const { kind, ports } = databases;
  const { mongo, vector } = databaseVolumeUses(kind);
  const volumes = { mongo: volumeName(stack, mongo), vector: volumeName(stack, vector) };
  const published = {
    mongo: publishedPort(CONTAINER_PORTS.mongo, ports.mongo),
    vector: publishedPort(CONTAINER_PORTS.vector, ports.vector),
  };
  return (["mongo", "vector"] as const).map((role) =>
    container(stack, {
      ...DATABASES[kind][role](volumes[role]),
      role,
      networkAlias: role,
      ports: [published[role]],
      lifecycle: "service",
      stopTimeoutSeconds: DATABASE_STOP_SECONDS,
      readOnlyRoot: true,
      tmpfsBytes: SCRATCH_TMPFS,
    }),
  );
}

type DatabaseOptions = Pick<DockerContainer, "image" | "command" | "mounts" | "health"> &
  Partial<Pick<DockerContainer, "user" | "environment">>;

/** Each kind of each database, by the volume that keeps its data. */
const DATABASES: Readonly<
  Record<"mock" | "container", Readonly<Record<"mongo" | "vector", (volume: string) => DatabaseOptions>>>
> = {
  mock: {
    mongo: (volume) => mock("mock-mongo", volume, CONTAINER_PORTS.mongoMetrics),
    vector: (volume) => mock("mock-vector", volume, CONTAINER_PORTS.vector),
  },
  container: {
    mongo: (volume) => ({
      image: "mongo",
      command: ["mongod", "--bind_ip_all", "--wiredTigerCacheSizeGB", String(MONGO_CACHE_GB)],
      mounts: [dataMount(volume, "/data/db")],
      // The image starts as root, and gives its data to this user; Docker gives a new volume the folder's owner.
      user: "mongodb",
      health: health(
        ["mongosh", "--quiet", "--eval", "quit(db.adminCommand({ ping: 1 }).ok === 1 ? 0 : 1)"],
        DATABASE_START_SECONDS,
      ),
    }),
    vector: (volume) => ({
      image: "qdrant",
      command: [],
      mounts: [dataMount(volume, "/qdrant/storage")],
      // By default both are written beside the program, and a root that can't be written ends it
      // (https://github.com/qdrant/qdrant/blob/master/src/startup.rs).
      environment: {
        QDRANT_INIT_FILE_PATH: "/qdrant/storage/.qdrant-initialized",
        QDRANT__STORAGE__SNAPSHOTS_PATH: "/qdrant/storage/snapshots",
        QDRANT__TELEMETRY_DISABLED: "true",
      },
      // The image has no client of HTTP, but bash.
      health: health(["bash", "-c", QDRANT_IS_READY], DATABASE_START_SECONDS),
    }),
  },
};

const QDRANT_IS_READY = [
  `exec 3<>/dev/tcp/127.0.0.1/${CONTAINER_PORTS.vector}`,
  "printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3",
  "read -r answer <&3",
  '[[ "$answer" == *" 200 "* ]]',
].join(" && ");

/** A mock has its health on a port that it serves anyway. */
function mock(program: string, volume: string, healthPort: number): DatabaseOptions {
  return {
    image: "services",
    command: [program, "--data", "/data", "--host", "0.0.0.0"],
    mounts: [dataMount(volume, "/data")],
    health: nodeHealth(`http://127.0.0.1:${healthPort}/healthz`, DATABASE_START_SECONDS),
  };
}

function dataMount(volume: string, path: string): DockerMount {
  return { source: { volume }, path, readOnly: false };
}

function publishedPort(containerPort: number, hostPort: number): DockerPort {
  return { containerPort, hostPort, hostAddress: LOOPBACK };
}

/** Addresses and keys of databases elsewhere. */
function databaseSecrets(databases: DockerDatabasesPlan | null): DockerContainer["secretFiles"] {
  if (databases?.kind !== "external") return {};
  return {
    [SECRET_FILES.mongoUri]: "mongoUri",
    ...(databases.vector.apiKeyFile === undefined ? {} : { [SECRET_FILES.vectorApiKey]: "vectorApiKey" }),
  };
}
