/** Who reaches a gateway that other machines reach, and whether what they send can be read on the way. */
import type { GpuStackConfig } from "./config/config.ts";
import type { Remark } from "./plan/checks/finding.ts";

type RemoteConfig = Exclude<GpuStackConfig, { platform: "docker" }>;
export type RemotePlatform = RemoteConfig["platform"];
export type RemoteGateway = Pick<RemoteConfig["gateway"], "apiKeys" | "exposure" | "hostname" | "tls">;

export function publicHasKeys({ exposure, apiKeys }: RemoteGateway): readonly Remark[] {
  if (exposure !== "public" || apiKeys.length > 0) return [];
  return [
    {
      path: "gateway.apiKeys",
      reason: "With exposure: public and no key, everybody on the internet can use the models.",
      fix: "Make a key with `npm run key` and add the lines that it prints, or write exposure: internal.",
    },
  ];
}

export function publicHasTls({ exposure, tls }: RemoteGateway, platform: RemotePlatform): readonly Remark[] {
  if (exposure !== "public" || tls !== undefined) return [];
  return [
    {
      path: "gateway.tls",
      reason: "With exposure: public and no certificate, keys and prompts cross the internet in clear.",
      fix: `Set one of ${tlsKeys(platform)} and gateway.hostname, or write exposure: internal.`,
    },
  ];
}

export function tlsHasHostname({ tls, hostname }: RemoteGateway): readonly Remark[] {
  if (tls === undefined || hostname !== undefined) return [];
  return [
    {
      path: "gateway.hostname",
      reason: "A certificate is for a name, and none is given.",
      fix: "Set the name by which clients reach the gateway.",
    },
  ];
}

export function tlsHasOneCertificate({ tls }: RemoteGateway, platform: RemotePlatform): readonly Remark[] {
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
  const keys = platform === "aws" ? ["certificateArn", "secretName", "issuer"] : ["secretName", "issuer"];
  return keys.map((key) => `gateway.tls.${key}`).join(", ");
}
