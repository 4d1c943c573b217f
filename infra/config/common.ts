/** Parts that the schemas of all platforms share. */
import { z } from "zod";
import { POLICY_LEVELS, POLICY_NAMES } from "../plan/catalogue/types.ts";

/** Message for a text of another form: a line with the reason and a line with the fix. @param rule - Continues "It". */
export const formMessage = (rule: string, example: string) => `It ${rule}.\nWrite it like ${example}.`;

/**
 * A text of one form. @param rule - Continues "It".
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
  formattedText(/^\/\S*$/, "must be an absolute path without spaces", example);

/** Names end in paths, Triton model names, Kubernetes objects and host names: RFC 1123 labels, 40 characters at most. */
export const resourceName = formattedText(
  /^[a-z]([a-z0-9-]*[a-z0-9])?$/,
  "must be lower-case letters, digits and hyphens, starting with a letter and not ending with a hyphen",
  "llama-2-7b",
).max(40);

const OCTET = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

/** An IPv4 address alone. */
export const ipv4Address = (rule: string, example: string) =>
  formattedText(new RegExp(`^${OCTET}(\\.${OCTET}){3}$`), rule, example);

/** A network of IPv4, with a length that AWS has for a VPC. */
export const ipv4Cidr = formattedText(
  new RegExp(`^${OCTET}(\\.${OCTET}){3}/(1[6-9]|2[0-8])$`),
  "must be a network of IPv4 with a length of 16 to 28",
  "10.64.0.0/16",
);

/** 0 picks a free port at the first `up` and keeps it. */
export const port = z.int().min(0).max(65535).default(0);

export const tritonPorts = z.strictObject({ http: port, grpc: port, metrics: port }).prefault({});

/** A port of a host that a container is published on; Docker would take another one at every start for 0. */
export const publishedPort = z.int().min(1).max(65535);

/** What is absent is chosen by infra/plan/catalogue/published-ports.ts. */
export const publishedTritonPorts = z
  .strictObject({
    http: publishedPort.optional(),
    grpc: publishedPort.optional(),
    metrics: publishedPort.optional(),
  })
  .prefault({});

/** A value that the stack file keeps encrypted; in clear only where the Pulumi runtime hands it over. */
export const secret = z.union([z.string().min(1), z.strictObject({ secure: z.string().min(1) })]);

/** Every key that is a {@link secret} on some platform. */
export const SECRET_PATHS: readonly string[] = [
  "hub.token",
  "externalDatabases.mongo.uri",
  "externalDatabases.vector.apiKey",
];

/** How Triton joins requests to an encoder. */
export const batching = {
  /** Most requests that Triton joins into one run of an encoder. */
  maxBatchSize: z.int().min(1).max(256).default(32),
  /** How long a request may wait for others to join its batch; 0 joins those that came during the last run. */
  maxQueueDelayMicroseconds: z.int().min(0).max(1_000_000).default(0),
};

/**
 * Least number of servers; `replicas` is the most then, and an autoscaler owns the number between. With 0 the model has no
 * server while nobody asks for it. Absent: `replicas` of them, always.
 */
export const minReplicas = z.int().min(0).max(64).optional();

/** Least number of encoders, which never sleep; `replicas` is the most then. Absent: `replicas` of them, always. */
export const minEncoderReplicas = z.int().min(1).max(64).optional();

/** A base by tag or digest; a registry of one's own comes first, so that Docker asks no other. */
const imageReference = formattedText(
  /^[a-z0-9][a-z0-9._-]*(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$/,
  "must be an image as `docker pull` takes it",
  "mirror.example.org/library/debian:12-slim",
);

const base = imageReference.optional();

/** The images that this project builds. */
export const cpuImages = z
  .strictObject({
    /** Where `npm run images` pushes them; absent: each host builds its own. */
    registry: formattedText(
      /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*$/,
      "must be a registry, with a path where it wants one and without scheme",
      "ghcr.io/example/engine-room",
    ).optional(),
    /** What they are built on instead of their Dockerfiles' bases: the same ones from a mirror, or ones of one's own. */
    bases: z.strictObject({ services: base, "cpu-models": base }).prefault({}),
  })
  .prefault({});

/** `image` of the stack file is the base of trtllm. */
export const gpuImages = cpuImages
  .unwrap()
  .extend({ bases: z.strictObject({ services: base, encoders: base }).prefault({}) })
  .prefault({});

export const policies = z
  .strictObject({
    /** Most that the stack may cost by the hour at its planned number of machines, in US dollars; absent: no cap. */
    hourlyUsdCap: z.number().min(0).max(100_000).optional(),
    /** Level of a rule, where it is not the default of docs/policies.md. */
    levels: z.partialRecord(z.enum(POLICY_NAMES), z.enum(POLICY_LEVELS)).default({}),
  })
  .prefault({});
