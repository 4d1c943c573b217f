/** The machine whose Docker engine runs a stack: its addresses and ports, engine store and databases. */
import type { CpuStackConfig, GpuStackConfig } from "../../config/config.ts";
import { LOOPBACK, PUBLISHED_PORTS, publishedModelPorts } from "../catalogue/published-ports.ts";
import type { TritonPorts } from "../repository/launch.ts";
import type { BaseChoice } from "./images.ts";

type DockerCpuConfig = Extract<CpuStackConfig, { platform: "docker" }>;
type DockerGpuConfig = Extract<GpuStackConfig, { platform: "docker" }>;

/** On both tiers. */
interface DockerHost {
  /** URI of its Docker engine: `unix:///var/run/docker.sock`, `ssh://ubuntu@gpu.example.org`. */
  readonly uri: string;
  /** Address of the host that the gateway is bound to; everything else is on loopback. */
  readonly gatewayAddress: string;
  /** Where images are pushed to and pulled from; null: the host builds what no lock file has. */
  readonly registry: string | null;
  /** Bases of this project's images in place of the usual bases. */
  readonly imageBases: BaseChoice["bases"];
}

/** Where the token of the model hub is; never the token. */
type HubToken =
  | { readonly kind: "secret" }
  /** A file of the host. */
  | { readonly kind: "file"; readonly path: string };

export interface DockerGpuHost extends DockerHost {
  /** Folder of the host that keeps weights and engines; null: a volume of the stack's own. */
  readonly storePath: string | null;
  /** null if no model needs a token. */
  readonly hubToken: HubToken | null;
  /** Ports of each model's Triton, in the order of the stack file. */
  readonly modelPorts: readonly TritonPorts[];
  readonly encoderPorts: TritonPorts | null;
  /** null for a stack without encoders, since documents are found by their vectors. */
  readonly databases: DockerDatabasesPlan | null;
}

export function dockerHost({ host, images, gateway }: DockerCpuConfig | DockerGpuConfig): DockerHost {
  return {
    uri: host.uri,
    gatewayAddress: gateway.exposure === "internal" ? host.address : LOOPBACK,
    registry: images.registry ?? null,
    imageBases: images.bases,
  };
}

export function dockerGpuHost(config: DockerGpuConfig): DockerGpuHost {
  const { models, encoders, engineStore, hub } = config;
  return {
    ...dockerHost(config),
    storePath: engineStore.path ?? null,
    hubToken: hubToken(hub),
    modelPorts: models.map(({ ports }, index) => publishedPorts(ports, publishedModelPorts(index))),
    encoderPorts: encoders === false ? null : publishedPorts(encoders.ports, PUBLISHED_PORTS.encoders),
    databases: encoders === false ? null : dockerDatabases(config),
  };
}

function hubToken({ token, tokenFile }: DockerGpuConfig["hub"]): HubToken | null {
  if (tokenFile !== undefined) return { kind: "file", path: tokenFile };
  return token === undefined ? null : { kind: "secret" };
}

/** A stack file's own ports of a Triton, else the defaults. */
export function publishedPorts(
  own: { readonly [K in keyof TritonPorts]?: number | undefined },
  byDefault: TritonPorts,
): TritonPorts {
  return {
    http: own.http ?? byDefault.http,
    grpc: own.grpc ?? byDefault.grpc,
    metrics: own.metrics ?? byDefault.metrics,
  };
}

export type DockerDatabasesPlan =
  | {
      /** `mock`: this project's own small servers. `container`: MongoDB and Qdrant themselves. */
      readonly kind: "mock" | "container";
      /** Ports on the host. */
      readonly ports: { readonly mongo: number; readonly vector: number };
    }
  | {
      readonly kind: "external";
      /** Files are of the gateway's container. */
      readonly mongo: { readonly uriFile: string };
      readonly vector: { readonly url: string; readonly apiKeyFile?: string | undefined };
    };

/**
 * Secrets of a stack, by the path of the stack file that holds each. No plan has their values: a container names them, and
 * the platform writes them into its files.
 */
export const SECRET_PATHS = {
  hubToken: "hub.token",
  mongoUri: "externalDatabases.mongo.uri",
  vectorApiKey: "externalDatabases.vector.apiKey",
} as const;
export type SecretName = keyof typeof SECRET_PATHS;

/** Names of Secrets in a cluster, of secrets in Compose, and of their files. */
export const SECRET_NAMES: Readonly<Record<SecretName, string>> = {
  hubToken: "hub-token",
  mongoUri: "mongo-uri",
  vectorApiKey: "vector-api-key",
};

/** File of a container for each secret that it is given; in memory with Docker's own secrets, a file of the container here. */
export const SECRET_FILES: Readonly<Record<SecretName, string>> = {
  hubToken: `/run/secrets/${SECRET_NAMES.hubToken}`,
  mongoUri: `/run/secrets/${SECRET_NAMES.mongoUri}`,
  vectorApiKey: `/run/secrets/${SECRET_NAMES.vectorApiKey}`,
};

export function dockerDatabases({
  databases,
  externalDatabases,
  databasePorts,
}: DockerCpuConfig | DockerGpuConfig): DockerDatabasesPlan {
  // The configuration's own checks refuse `external` without addresses.
  if (databases === "external" && externalDatabases !== undefined) {
    const { url, apiKey } = externalDatabases.vector;
    return {
      kind: "external",
      mongo: { uriFile: SECRET_FILES.mongoUri },
      vector: { url, ...(apiKey === undefined ? {} : { apiKeyFile: SECRET_FILES.vectorApiKey }) },
    };
  }
  return {
    kind: databases === "container" ? "container" : "mock",
    ports: {
      mongo: databasePorts.mongo ?? PUBLISHED_PORTS.mongo,
      vector: databasePorts.vector ?? PUBLISHED_PORTS.vector,
    },
  };
}
