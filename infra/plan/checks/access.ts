/** The gateway, its databases and the token of the model hub: who reaches what, with which credentials. None is ever shown. */
import type { GpuStackConfig } from "../../config/config.ts";
import { secretCommand } from "../../problems.ts";
import { type Check, type CheckedFile, eachModel, type Finding } from "./check.ts";
import { repeatedNames } from "./words.ts";

export const accessChecks = {
  gatedModelHasToken: eachModel(({ engine: { row, weights, model }, path }, { config }) => {
    const { source } = row;
    if (weights.kind !== "hub" || !source.gated || weights.repository !== source.repository) return [];
    if (tokenKeys(config).length > 0) return [];
    return {
      path: `${path}.model`,
      reason: `${source.repository} (${source.license}) gives its files only to accounts that accepted its licence, and the stack names no token.`,
      fix: `Accept the licence at https://huggingface.co/${source.repository}, and set ${tokenAdvice(config)}${source.modelScope === undefined ? "" : `; or download ${model} with \`weights: { from: modelscope }\``}.`,
    };
  }),

  oneToken: ({ config }) => {
    const keys = tokenKeys(config).map((key) => `hub.${key}`);
    const [, second] = keys;
    if (second === undefined) return [];
    return {
      path: second,
      reason: `${keys.join(" and ")} both name a token, and only one can be used.`,
      fix: "Keep one of them.",
    };
  },

  // The Pulumi runtime passes in plain text what was encrypted, and shows no warnings.
  tokenIsEncrypted: ({ config }) =>
    typeof config.hub.token === "string" && {
      severity: "warning",
      path: "hub.token",
      reason: "The token is stored in plain text: anyone with the stack file, or its history, has the token.",
      fix: `Make another token, and set ${tokenAdvice(config)}.`,
    },
} satisfies Record<string, Check>;

/** Keys of `hub` that give a token. */
function tokenKeys({ hub }: GpuStackConfig): readonly string[] {
  return Object.entries(hub).flatMap(([key, value]) => (value === undefined ? [] : [key]));
}

function tokenAdvice(config: GpuStackConfig): string {
  const references = {
    docker: "hub.tokenFile",
    kubernetes: "hub.tokenSecret",
    aws: "hub.tokenSecretArn",
  };
  const creation =
    config.platform === "aws"
      ? ` (\`aws secretsmanager create-secret --region ${config.region} --name hub-token --secret-string file://TOKEN-FILE\` prints the ARN)`
      : "";
  return `${references[config.platform]}${creation}, or hub.token with ${secretCommand("hub.token")}`;
}

type RemotePlatform = "kubernetes" | "aws";

/** Keys of a gateway that the checks read; the schemas of both platforms and tiers have them. */
interface RemoteGateway {
  readonly exposure?: string | undefined;
  readonly apiKeys: readonly unknown[];
  readonly hostname?: string | undefined;
  /** Source of the certificate, by one of its keys. */
  readonly tls?: Readonly<Record<string, unknown>> | undefined;
}

/** A gateway of this machine or of a Docker host has no exposure: public, and no TLS. */
function gatewayCheck(
  check: (gateway: RemoteGateway, platform: RemotePlatform) => Finding | false,
): Check<CheckedFile> {
  return ({ config }) =>
    (config.platform === "kubernetes" || config.platform === "aws") && check(config.gateway, config.platform);
}

export const gatewayChecks = {
  publicHasKeys: gatewayCheck(
    ({ exposure, apiKeys }) =>
      exposure === "public" &&
      apiKeys.length === 0 && {
        path: "gateway.apiKeys",
        reason: "With exposure: public and no key, everybody on the internet can use the models.",
        fix: "Make a key with `npm run key` and add the lines that it prints, or write exposure: internal.",
      },
  ),

  publicHasTls: gatewayCheck(
    ({ exposure, tls }, platform) =>
      exposure === "public" &&
      tls === undefined && {
        path: "gateway.tls",
        reason: "With exposure: public and no certificate, keys and prompts cross the internet in clear.",
        fix: `Set ${platform === "aws" ? "" : "one of "}${tlsKeys(platform)} and gateway.hostname, or write exposure: internal.`,
      },
  ),

  tlsHasHostname: gatewayCheck(
    ({ tls, hostname }) =>
      tls !== undefined &&
      hostname === undefined && {
        path: "gateway.hostname",
        reason: "A certificate is for a name, and none is given.",
        fix: "Set the name by which clients reach the gateway.",
      },
  ),

  tlsHasOneCertificate: gatewayCheck(({ tls }, platform) => {
    if (tls === undefined) return false;
    const given = Object.entries(tls).flatMap(([key, value]) => (value === undefined ? [] : [key]));
    if (given.includes("certificateArn") && platform !== "aws") {
      return {
        path: "gateway.tls.certificateArn",
        reason: `Certificates of ACM exist on AWS only, and the platform is ${platform}.`,
        fix: `Use ${tlsKeys(platform)}.`,
      };
    }
    if (given.length === 1) return false;
    return {
      path: "gateway.tls",
      reason:
        given.length === 0
          ? "It does not say where the certificate comes from."
          : `${given.join(" and ")} each name a certificate, and only one is used.`,
      fix: `Set one of ${tlsKeys(platform)}.`,
    };
  }),
} satisfies Record<string, Check<CheckedFile>>;

/** Keys that name a certificate. */
function tlsKeys(platform: RemotePlatform): string {
  const keys = platform === "aws" ? ["certificateArn"] : ["secretName", "issuer", "clusterIssuer"];
  return keys.map((key) => `gateway.tls.${key}`).join(", ");
}

export const repeatedKeyNames: Check<CheckedFile> = ({ config: { gateway } }) =>
  repeatedNames(gateway.apiKeys, "gateway.apiKeys", "key", "limits and metrics are kept per name");

/** Keys of `externalDatabases` that each platform wants. */
const ADDRESS_KEYS = {
  local: "mongo.uriFile and vector.url",
  docker: "mongo.uri and vector.url",
  kubernetes: "mongo.uri or mongo.uriSecret, and vector.url",
  aws: "mongo.uri and vector.url",
};

export const databaseChecks = {
  databasesAreNeeded: ({ config }) =>
    config.platform !== "aws" &&
    config.encoders === false &&
    config.databases !== "mock" && {
      path: "databases",
      reason: "Documents are found by vectors, which encoders make, and encoders is false.",
      fix: "Remove it, or give the stack encoders.",
    },

  databasesAreFound: ({ config }) => {
    const { databases, encoders, platform } = config;
    if (encoders === false && databases !== "mock") return [];
    if (platform === "local" && databases === "container") {
      return {
        path: "databases",
        reason: "This platform starts no containers.",
        fix: "Write mock, or external for databases that run already.",
      };
    }
    const isGiven = config.externalDatabases !== undefined;
    if (isGiven === (databases === "external")) return [];
    return {
      path: "externalDatabases",
      value: isGiven ? "(set)" : "(absent)",
      reason: isGiven
        ? "Only databases: external uses them."
        : "databases: external needs to know where they are.",
      fix: isGiven
        ? "Write databases: external, or remove externalDatabases."
        : `Add externalDatabases with ${ADDRESS_KEYS[platform]}.`,
    };
  },
} satisfies Record<string, Check<CheckedFile>>;
