/** The gateway, and the databases behind it; the same on every platform but for who reaches them. */
import { z } from "zod";
import { PUBLISHED_PORTS } from "../plan/catalogue/published-ports.ts";
import { absolutePath, formattedText, port, publishedPort, resourceName, secret } from "./common.ts";

/** Least number of gateways; `replicas` is the most then. Absent: `replicas` of them, always. */
export const minGateways = z.int().min(1).max(100).optional();

/** Only the hash of an API key is configured, so there is no secret to keep: `npm run key` makes both. */
const apiKey = z.strictObject({
  name: resourceName,
  sha256: formattedText(
    /^[0-9a-f]{64}$/,
    "must be 64 lower-case hexadecimal digits",
    "the line that `npm run key` prints",
  ),
});

/** RFC 1123: what an Ingress and a certificate take. */
const hostName = formattedText(
  /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/,
  "must be a name alone: lower-case letters, digits, hyphens and points, no https:// and no port",
  "models.example.org",
);

const gatewayParts = {
  /** None: the gateway answers everybody who reaches its address. */
  apiKeys: z.array(apiKey).default([]),
  /** Per key, or per client address without keys; 0 is no limit. */
  requestsPerMinute: z.int().min(0).max(1_000_000).default(0),
  /** Hosts from which images may be fetched: `example.org`, `*.example.org`, `example.org:8443`. None: URLs are refused. */
  imageHosts: z.array(z.string().min(1).max(253)).max(100).default([]),
  limits: z
    .strictObject({
      bodyMiB: z.int().min(1).max(256).default(10),
      requestSeconds: z.int().min(1).max(3600).default(300),
      // The gateway's own bounds.
      concurrentRequests: z.int().min(1).max(65_536).default(256),
      queuedRequests: z.int().min(0).max(65_536).default(1024),
    })
    .prefault({}),
};

export const localGateway = z.strictObject({ port, ...gatewayParts }).prefault({});

/**
 * On a Docker host: that host alone, or whoever reaches `host.address`. Nothing there ends TLS, so there is no `public`.
 */
export const dockerGateway = z
  .strictObject({
    port: publishedPort.default(PUBLISHED_PORTS.gateway),
    ...gatewayParts,
    exposure: z.enum(["host", "internal"]).default("host"),
  })
  .prefault({});

/** `host`: this machine only. `internal`: the network of the cluster or machine. `public`: everybody. */
const EXPOSURES = ["host", "internal", "public"] as const;

export const remoteGateway = z
  .strictObject({
    port: z.int().min(1).max(65535).default(8080),
    ...gatewayParts,
    exposure: z.enum(EXPOSURES).optional(),
    /** Name by which clients reach it; needed for TLS. */
    hostname: hostName.optional(),
    /** Where its certificate comes from: a Kubernetes Secret, or an issuer of cert-manager. */
    tls: z
      .strictObject({
        secretName: resourceName.optional(),
        /** An Issuer of the stack's namespace. */
        issuer: resourceName.optional(),
        /** A ClusterIssuer. */
        clusterIssuer: resourceName.optional(),
      })
      .optional(),
    replicas: z.int().min(1).max(100).default(1),
  })
  .prefault({});

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
