/** What stands around the models: the gateway and its databases. */
import { canonicalJson } from "../canonical-json.ts";
import { LOOPBACK } from "../catalogue/published-ports.ts";
import { SPEC_FILES } from "../container-specs.ts";
import type { DockerCpuPlan } from "../cpu-stack.ts";
import {
  DATABASE_PORTS,
  DATABASE_SERVERS,
  DATABASE_START_SECONDS,
  DATABASE_STOP_SECONDS,
  type DatabaseServer,
} from "../database-servers.ts";
import { gatewayConfig } from "../gateway-config.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import { container, health, nodeHealth, tritonAddress } from "./container.ts";
import { type DockerDatabasesPlan, SECRET_FILES } from "./databases.ts";
import { ENCODERS } from "./tritons.ts";
import type { DockerContainer, DockerMount, DockerPort } from "./types.ts";
import { databaseVolumeUses, volumeName } from "./volumes.ts";

type DockerPlan = DockerCpuPlan | DockerGpuPlan;

/** Listened on in the containers, whatever they are published on. */
const CONTAINER_PORTS = { gateway: 8080, ...DATABASE_PORTS } as const;

/** Running answers are finished first; who has not ended by then is cut off. */
const STOP_SECONDS = 30;
const START_SECONDS = 30;

/** `/tmp` of a container that can write nowhere else: sockets and the like. */
const SCRATCH_TMPFS = { "/tmp": 64 * 2 ** 20 } as const;

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
      ...databaseOptions(DATABASE_SERVERS[kind][role], volumes[role]),
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

function databaseOptions(
  { image, command, environment, dataPath, user, check }: DatabaseServer,
  volume: string,
): Pick<DockerContainer, "image" | "command" | "environment" | "mounts" | "user" | "health"> {
  return {
    image,
    command,
    environment,
    mounts: [dataMount(volume, dataPath)],
    user,
    health: health(check, DATABASE_START_SECONDS),
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
