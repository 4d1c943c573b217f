/** Parts that the schemas of all platforms share: forms of values, images, gateway, databases. */
import { createHash } from "node:crypto";
import { z } from "zod";
import { PUBLISHED_PORTS } from "../plan/catalogue/published-ports.ts";
import { POLICY_LEVELS, POLICY_NAMES } from "../plan/catalogue/types.ts";

/** A mapping of keys that have defaults or may be absent, so that it may be absent itself. */
export const section = <Shape extends z.ZodRawShape>(shape: Shape) =>
  // The compiler does not see that no key of a generic shape is required.
  z.strictObject(shape).prefault({} as never);

/** Message for a text of another form: a line with the reason and a line with the fix. @param rule - Continues "It must be". */
export const formMessage = (rule: string, example: string) =>
  `It must be ${rule}.\nWrite it like ${example}.`;

/**
 * A text of one form. @param rule - Continues "It must be".
 *
 * @param explain - Message for values that are wrong in a way of their own; undefined: for others.
 */
export function formattedText(
  form: RegExp,
  rule: string,
  example: string,
  explain: (value: unknown) => string | undefined = () => undefined,
): z.ZodString {
  return z.string({ error: ({ input }) => explain(input) }).regex(form, {
    error: ({ input }) => explain(input) ?? formMessage(rule, example),
  });
}

/** A folder or file of a host. */
export const absolutePath = (example: string) =>
  formattedText(/^\/\S*$/, "an absolute path without spaces", example);

/** @param what - With its article. */
export const storePath = (what: string, example: string) =>
  formattedText(
    /^\/store(\/[\w.-]*[\w-])+$/,
    `${what} below /store, which is the engine store in every container`,
    example,
  );

/** Names end in paths, Triton model names, Kubernetes objects and host names: RFC 1123 labels, 40 characters at most. */
export const resourceName = (example: string) =>
  formattedText(
    /^[a-z]([a-z0-9-]*[a-z0-9])?$/,
    "lower-case letters, digits and hyphens, starting with a letter and not ending with a hyphen",
    example,
  ).max(40);

/** Name of a row that a stack file adds to the catalogue. */
export const catalogueName = (example: string) =>
  formattedText(
    /^[a-z0-9][a-z0-9.-]{0,62}$/,
    "named with at most 63 lower-case letters, digits, points and hyphens",
    example,
  );

export const revision = formattedText(
  /^[0-9a-f]{40}$/,
  "a commit, 40 lower-case hexadecimal digits",
  "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
);

const OCTET = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

/** An IPv4 address without a prefix length. */
export const ipv4Address = (rule: string, example: string) =>
  formattedText(new RegExp(`^${OCTET}(\\.${OCTET}){3}$`), rule, example);

/** A network of IPv4 with a prefix length of 16 to 28, as AWS allows for a VPC. */
export const ipv4Cidr = formattedText(
  new RegExp(`^${OCTET}(\\.${OCTET}){3}/(1[6-9]|2[0-8])$`),
  "a network of IPv4 with a length of 16 to 28",
  "10.64.0.0/16",
);

/** 0 picks a free port at the first `up` and keeps it. */
export const port = z.int().min(0).max(65535).default(0);

export const tritonPorts = section({ http: port, grpc: port, metrics: port });

/** Fixed port of the host; 0 is not accepted, because Docker would choose another port at every start. */
export const publishedPort = z.int().min(1).max(65535);

/** Defaults are those of infra/plan/catalogue/published-ports.ts. */
export const publishedTritonPorts = section({
  http: publishedPort.optional(),
  grpc: publishedPort.optional(),
  metrics: publishedPort.optional(),
});

/** A secret: `pulumi config set --secret` encrypts it in the stack file, and only the running program reads it. */
export const secret = z.union([z.string().min(1), z.strictObject({ secure: z.string().min(1) })]);

/** How Triton joins requests to an encoder. */
export const batching = {
  /** Most requests that Triton joins into one run of an encoder. */
  maxBatchSize: z.int().min(1).max(256).default(32),
  /** How long a request may wait for others to join its batch; 0 joins those that came during the last run. */
  maxQueueDelayMicroseconds: z.int().min(0).max(1_000_000).default(0),
};

/** Number of servers behind one name. */
export const replicas = z.int().min(1).max(64).default(1);

/**
 * Least number of servers; `replicas` is the most then, and an autoscaler sets the number. With 0 the model has no server
 * while it gets no requests. Absent: always `replicas`.
 */
export const minReplicas = z.int().min(0).max(64).optional();

/** Least number of encoders, which never sleep; `replicas` is the most then. Absent: always `replicas`. */
export const minEncoderReplicas = z.int().min(1).max(64).optional();

/** A base by tag or digest; begin it with your own registry, so that Docker asks no other. */
const base = formattedText(
  /^[a-z0-9][a-z0-9._-]*(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$/,
  "an image as `docker pull` takes it",
  "mirror.example.org/library/debian:12-slim",
).optional();

/** Images that this project builds: their registry and base images. */
export const cpuImages = z.strictObject({
  /** Where `npx engine-room images` pushes them; absent: each host builds its own. */
  registry: formattedText(
    /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*$/,
    "a registry, with a path if it requires one and without scheme",
    "ghcr.io/example/engine-room",
  ).optional(),
  /** Base images that replace those of the Dockerfiles: from a mirror, or your own. */
  bases: section({ services: base, "cpu-models": base }),
});

/** Images that this project builds: their registry and base images; `image.base` is the base of the engines' image. */
export const gpuImages = cpuImages.extend({ bases: section({ services: base, encoders: base }) });

export const policies = section({
  /** Most that the stack may cost by the hour at its planned number of machines, in US dollars; absent: no cap. */
  hourlyUsdCap: z.number().min(0).max(100_000).optional(),
  /** Level of a rule, if it is not the default of docs/policies.md. */
  levels: z.partialRecord(z.enum(POLICY_NAMES), z.enum(POLICY_LEVELS)).default({}),
});

/** Least number of gateways; `replicas` is the most then. Absent: always `replicas`. */
export const minGateways = z.int().min(1).max(100).optional();

/**
 * Hash of a key; encrypted if it was set with `--secret`. Only the Pulumi CLI decrypts it: elsewhere a hash of the encrypted text
 * replaces it, which matches no key and changes with that text.
 */
export const keyHash = z.union([
  formattedText(
    /^[0-9a-f]{64}$/,
    "64 lower-case hexadecimal digits",
    "the line that `npx engine-room key` prints",
  ),
  z
    .strictObject({ secure: z.string().min(1) })
    .transform(({ secure }) => createHash("sha256").update(secure).digest("hex")),
]);

const gatewayParts = {
  /** Keys of clients, as SHA-256 hashes (`npx engine-room key`); an empty list: the gateway answers any client that reaches its address. */
  apiKeys: z
    .array(
      z.strictObject({
        /** Name of the key, which logs and metrics carry. */
        name: resourceName("website"),
        /** SHA-256 of the key. */
        // Only the hash, so that the stack file has no secret: `npx engine-room key` generates both.
        sha256: keyHash,
      }),
    )
    .default([]),
  /** Per key, or per client address without keys; 0 means no limit. */
  requestsPerMinute: z.int().min(0).max(1_000_000).default(0),
  /** Hosts from which images may be fetched: `example.org`, `*.example.org`, `example.org:8443`. An empty list: addresses of images are refused. */
  imageHosts: z.array(z.string().min(1).max(253)).max(100).default([]),
  limits: section({
    /** Largest request body. */
    bodyMiB: z.int().min(1).max(256).default(10),
    /** Longest time that a request may take. */
    requestSeconds: z.int().min(1).max(3600).default(300),
    // The gateway's own bounds.
    /** Requests that are answered at the same time. */
    concurrentRequests: z.int().min(1).max(65_536).default(256),
    /** Requests that wait for a place; more are refused with status 503. */
    queuedRequests: z.int().min(0).max(65_536).default(1024),
  }),
};

export const localGateway = section({ port, ...gatewayParts });

/** Reached from the Docker host only, or at `host.address`. It has no TLS, so `exposure` can't be `public`. */
export const dockerGateway = section({
  port: publishedPort.default(PUBLISHED_PORTS.gateway),
  ...gatewayParts,
  /** `host`: only clients on the Docker host. `internal`: clients that reach `host.address`. */
  exposure: z.enum(["host", "internal"]).default("host"),
});

export const remoteGateway = z.strictObject({
  /** Port on which clients reach the gateway. */
  port: z.int().min(1).max(65535).default(8080),
  ...gatewayParts,
  /** `host`: this machine only. `internal`: the network of the cluster or machine. `public`: everyone. */
  exposure: z.enum(["host", "internal", "public"]).optional(),
  /** Name by which clients reach it; needed for TLS. */
  hostname: formattedText(
    // RFC 1123: what an Ingress and a certificate take.
    /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/,
    "only a name: lower-case letters, digits, hyphens and points, no https:// and no port",
    "models.example.org",
  ).optional(),
  /** Where its certificate comes from: a Kubernetes Secret, or an issuer of cert-manager. */
  tls: z
    .strictObject({
      /** Secret of type `kubernetes.io/tls` in the namespace; with an issuer, where it writes the certificate. */
      secretName: resourceName("models-tls").optional(),
      /** An Issuer of the stack's namespace. */
      issuer: resourceName("letsencrypt").optional(),
      /** A ClusterIssuer. */
      clusterIssuer: resourceName("letsencrypt").optional(),
    })
    .optional(),
  /** Number of gateways. */
  replicas: z.int().min(1).max(100).default(1),
});

/** `mock`: this project's own small servers. `container`: the real images. `external`: existing servers. */
export const databaseChoice = z.enum(["mock", "container", "external"]).default("mock");

/** Address of a server. */
export const httpUrl = (example: string) =>
  formattedText(
    /^https?:\/\/[^/?#@\s]+\/?$/,
    "an address of http or https with neither path nor password",
    example,
  );

/** Address of a server that speaks HTTP. */
export const vectorUrl = httpUrl("http://10.0.0.5:6333");

export const localDatabases = {
  databases: databaseChoice,
  /** Only with `databases: external`. */
  externalDatabases: z
    .strictObject({
      /** A MongoDB server. */
      mongo: z.strictObject({
        // Addresses with passwords stay in files that only the gateway reads.
        /** File that holds a `mongodb://` or `mongodb+srv://` address and nothing else. */
        uriFile: absolutePath("/etc/engine-room/mongo-uri"),
      }),
      /** A Qdrant server. */
      vector: z.strictObject({
        url: vectorUrl,
        /** File that holds the API key and nothing else. */
        apiKeyFile: absolutePath("/etc/engine-room/vector-key").optional(),
      }),
    })
    .optional(),
  /** Ports of the mock databases. */
  databasePorts: section({ mongo: port, mongoMetrics: port, vector: port }),
};

/** For `databases: external` on a Docker host: addresses and keys are secrets of the stack file. */
export const externalBySecrets = z.strictObject({
  /** A MongoDB server. */
  mongo: z.strictObject({
    /** A `mongodb://` or `mongodb+srv://` address. */
    uri: secret,
  }),
  /** A Qdrant server. */
  vector: z.strictObject({
    url: vectorUrl,
    /** API key of the server; absent: the server requires no key. */
    apiKey: secret.optional(),
  }),
});

export const dockerDatabases = {
  databases: databaseChoice,
  /** Only with `databases: external`. */
  externalDatabases: externalBySecrets.optional(),
  /** Ports of the host that the databases are published on. */
  databasePorts: section({ mongo: publishedPort.optional(), vector: publishedPort.optional() }),
};
