/** Who reaches a gateway that other machines reach, and whether what they send can be read on the way. */
export type RemotePlatform = "kubernetes" | "aws";

/** What the rules look at; the schemas of both platforms have it, and so have both tiers. */
export interface RemoteGateway {
  readonly exposure?: string | undefined;
  readonly apiKeys: readonly unknown[];
  readonly hostname?: string | undefined;
  /** Where the certificate comes from: one of its keys. */
  readonly tls?: Readonly<Record<string, unknown>> | undefined;
}

/** Of a gateway: a problem of its stack file. */
interface GatewayRemark {
  readonly path: string;
  readonly reason: string;
  readonly fix: string;
}

export function publicHasKeys({ exposure, apiKeys }: RemoteGateway): readonly GatewayRemark[] {
  if (exposure !== "public" || apiKeys.length > 0) return [];
  return [
    {
      path: "gateway.apiKeys",
      reason: "With exposure: public and no key, everybody on the internet can use the models.",
      fix: "Make a key with `npm run key` and add the lines that it prints, or write exposure: internal.",
    },
  ];
}

export function publicHasTls(
  { exposure, tls }: RemoteGateway,
  platform: RemotePlatform,
): readonly GatewayRemark[] {
  if (exposure !== "public" || tls !== undefined) return [];
  return [
    {
      path: "gateway.tls",
      reason: "With exposure: public and no certificate, keys and prompts cross the internet in clear.",
      fix: `Set ${platform === "aws" ? "" : "one of "}${tlsKeys(platform)} and gateway.hostname, or write exposure: internal.`,
    },
  ];
}

export function tlsHasHostname({ tls, hostname }: RemoteGateway): readonly GatewayRemark[] {
  if (tls === undefined || hostname !== undefined) return [];
  return [
    {
      path: "gateway.hostname",
      reason: "A certificate is for a name, and none is given.",
      fix: "Set the name by which clients reach the gateway.",
    },
  ];
}

export function tlsHasOneCertificate(
  { tls }: RemoteGateway,
  platform: RemotePlatform,
): readonly GatewayRemark[] {
  if (tls === undefined) return [];
  const given = Object.entries(tls).flatMap(([key, value]) => (value === undefined ? [] : [key]));
  if (given.includes("certificateArn") && platform !== "aws") {
    return [
      {
        path: "gateway.tls.certificateArn",
        reason: `Certificates of ACM exist on AWS only, and the platform is ${platform}.`,
        fix: `Use ${tlsKeys(platform)}.`,
      },
    ];
  }
  if (given.length === 1) return [];
  return [
    {
      path: "gateway.tls",
      reason:
        given.length === 0
          ? "It does not say where the certificate comes from."
          : `${given.join(" and ")} each name a certificate, and only one is used.`,
      fix: `Set one of ${tlsKeys(platform)}.`,
    },
  ];
}

/** Keys that name a certificate, as a list for people. */
function tlsKeys(platform: RemotePlatform): string {
  const keys = platform === "aws" ? ["certificateArn"] : ["secretName", "issuer", "clusterIssuer"];
  return keys.map((key) => `gateway.tls.${key}`).join(", ");
}
