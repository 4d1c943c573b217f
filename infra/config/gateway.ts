/** The one door for clients; the same on every platform but for who reaches it. */
import { z } from "zod";
import { PUBLISHED_PORTS } from "../plan/catalogue/published-ports.ts";
import { formattedText, port, publishedPort, resourceName } from "./common.ts";

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
    /** Where its certificate comes from: a Kubernetes Secret, an issuer of cert-manager, or an ACM certificate. */
    tls: z
      .strictObject({
        secretName: resourceName.optional(),
        /** An Issuer of the stack's namespace. */
        issuer: resourceName.optional(),
        /** A ClusterIssuer. */
        clusterIssuer: resourceName.optional(),
        certificateArn: formattedText(
          /^arn:/,
          "must be the ARN of a certificate of ACM",
          "arn:aws:acm:us-east-1:111122223333:certificate/12345678-1234-1234-1234-123456789012",
        ).optional(),
      })
      .optional(),
    replicas: z.int().min(1).max(100).default(1),
  })
  .prefault({});
