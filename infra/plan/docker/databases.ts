/** Where the documents of a stack on a Docker host are kept. */
import type { CpuStackConfig, GpuStackConfig } from "../../config/config.ts";
import { PUBLISHED_PORTS } from "../catalogue/published-ports.ts";
import type { SecretName } from "./types.ts";

type DockerConfig = Extract<CpuStackConfig | GpuStackConfig, { platform: "docker" }>;

export type DockerDatabasesPlan =
  | {
      /** `mock`: this project's own small servers. `container`: MongoDB and Qdrant themselves. */
      readonly kind: "mock" | "container";
      /** Of the host. */
      readonly ports: { readonly mongo: number; readonly vector: number };
    }
  | {
      readonly kind: "external";
      /** Files are of the gateway's container. */
      readonly mongo: { readonly uriFile: string };
      readonly vector: { readonly url: string; readonly apiKeyFile?: string | undefined };
    };

/** Where a container finds each secret that it is given; in memory with Docker's own secrets, a file of the container here. */
export const SECRET_FILES: Readonly<Record<SecretName, string>> = {
  hubToken: "/run/secrets/hub-token",
  mongoUri: "/run/secrets/mongo-uri",
  vectorApiKey: "/run/secrets/vector-api-key",
};

export function dockerDatabases({
  databases,
  externalDatabases,
  databasePorts,
}: DockerConfig): DockerDatabasesPlan {
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
