/** Where documents and their vectors are kept; gateway code is the same for all kinds. */
import { z } from "zod";
import { absolutePath, formattedText, port, publishedPort, secret } from "./common.ts";

/** `mock`: this project's own small servers. `container`: the real images. `external`: servers that are there already. */
export const DATABASES = ["mock", "container", "external"] as const;

export const vectorUrl = formattedText(
  /^https?:\/\/[^/?#@\s]+\/?$/,
  "must be an address of http or https with neither path nor password",
  "http://10.0.0.5:6333",
);

/** Of `databases: external` on this machine: addresses with passwords stay in files that only the gateway reads. */
const externalByFiles = z.strictObject({
  mongo: z.strictObject({
    /** File that holds a `mongodb://` or `mongodb+srv://` address and nothing else. */
    uriFile: absolutePath("/etc/engine-room/mongo-uri"),
  }),
  vector: z.strictObject({
    url: vectorUrl,
    /** File that holds the API key and nothing else. */
    apiKeyFile: absolutePath("/etc/engine-room/vector-key").optional(),
  }),
});

export const localDatabases = {
  databases: z.enum(DATABASES).default("mock"),
  /** Only with `databases: external`. */
  externalDatabases: externalByFiles.optional(),
  /** Ports of the mock databases. */
  databasePorts: z.strictObject({ mongo: port, mongoMetrics: port, vector: port }).prefault({}),
};

/** Of `databases: external` on a Docker host: addresses and keys are secrets of the stack file. */
export const externalBySecrets = z.strictObject({
  mongo: z.strictObject({
    /** A `mongodb://` or `mongodb+srv://` address. */
    uri: secret,
  }),
  vector: z.strictObject({ url: vectorUrl, apiKey: secret.optional() }),
});

export const dockerDatabases = {
  databases: z.enum(DATABASES).default("mock"),
  /** Only with `databases: external`. */
  externalDatabases: externalBySecrets.optional(),
  /** Ports of the host that the databases are published on. */
  databasePorts: z
    .strictObject({ mongo: publishedPort.optional(), vector: publishedPort.optional() })
    .prefault({}),
};
