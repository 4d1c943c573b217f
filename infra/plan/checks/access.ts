/** The gateway, its databases and the token of the model hub: who reaches what, with which credentials. None is ever shown. */
import type { GpuStackConfig, StackConfig } from "../../config/config.ts";
import { secretCommand } from "../../problems.ts";
import { type Check, type CheckedFile, type CheckedStack, type Checks, eachModel } from "./check.ts";
import { repeatedNames } from "./shared-messages.ts";

/** @param reference - Key by which the platform refers to a token that is kept outside of the stack file. */
export function hubChecks<Config extends GpuStackConfig>(reference: (config: Config) => string) {
  const tokenAdvice = (config: Config) =>
    `${reference(config)}, or hub.token with ${secretCommand("hub.token")}`;
  return {
    gatedModelHasToken: eachModel<Config>(({ engine: { row, weights, model }, path }, { config }) => {
      const { source } = row;
      if (weights.kind !== "hub" || !source.gated || weights.repository !== source.repository) return [];
      if (tokenKeys(config).length > 0) return [];
      return {
        path: `${path}.model`,
        reason: `${source.repository} (${source.license}) is gated: only accounts that accepted its licence can download it, and the stack has no token.`,
        fix: `Accept the licence at https://huggingface.co/${source.repository}, and set ${tokenAdvice(config)}${source.modelScope === undefined ? "" : `; or download ${model} with \`weights: { from: modelscope }\``}.`,
      };
    }),

    /**
     * A warning, as without `revision` users expect the files of `modelscope download`. ModelScope's API lists branches and tags, and
     * commits of repositories are not published elsewhere: https://github.com/modelscope/modelscope/issues/1386.
     */
    modelScopeIsPinned: eachModel<Config>(({ engine: { weights }, path }) =>
      weights.kind !== "modelscope" || weights.revision !== "master"
        ? []
        : {
            severity: "warning",
            path: `${path}.weights.revision`,
            reason: `\`master\` of ${weights.repository} is a branch of ModelScope, and moves: weights that come later go by the same folder and engine key.`,
            fix: `Write a tag, or the commit that \`git ls-remote https://www.modelscope.cn/${weights.repository}.git master\` prints: \`weights: { from: modelscope, revision: COMMIT }\`.`,
          },
    ),

    oneToken: ({ config }) => {
      const keys = tokenKeys(config).map((key) => `hub.${key}`);
      const [, second] = keys;
      if (second === undefined) return [];
      return {
        path: second,
        reason: `${keys.join(" and ")} are both set, and only one can be used.`,
        fix: "Keep one of them.",
      };
    },

    // The Pulumi runtime passes in plain text what was encrypted, and shows no warnings.
    tokenIsEncrypted: ({ config }) =>
      typeof config.hub.token === "string" && {
        severity: "warning",
        path: "hub.token",
        reason:
          "The token is stored in plain text: anyone with the stack file, or its history, has the token.",
        fix: `Make another token, and set ${tokenAdvice(config)}.`,
      },
  } satisfies Checks<CheckedStack<Config>>;
}

/** Keys of `hub` that give a token. */
function tokenKeys({ hub }: GpuStackConfig): readonly string[] {
  return Object.entries(hub).flatMap(([key, value]) => (value === undefined ? [] : [key]));
}

/**
 * Checks of a gateway that other machines reach.
 *
 * @param keys - Keys of the platform that name a certificate, as `gateway.tls.certificateArn`.
 */
export function gatewayChecks(keys: string) {
  return {
    publicHasKeys: ({ config: { gateway } }) =>
      gateway.exposure === "public" &&
      gateway.apiKeys.length === 0 && {
        path: "gateway.apiKeys",
        reason: "With exposure: public and no key, anyone on the internet can use the models.",
        fix: "Make a key with `npx engine-room key` and add the lines that it prints, or write exposure: internal.",
      },

    publicHasTls: ({ config: { gateway } }) =>
      gateway.exposure === "public" &&
      gateway.tls === undefined &&
      // The stack makes the certificate.
      !("zoneId" in gateway && gateway.zoneId !== undefined) && {
        path: "gateway.tls",
        reason:
          "With exposure: public and no certificate, keys and prompts cross the internet in plain text.",
        fix: `Set ${keys} and gateway.hostname, or write exposure: internal.`,
      },

    tlsHasHostname: ({ config: { gateway } }) =>
      gateway.tls !== undefined &&
      gateway.hostname === undefined && {
        path: "gateway.hostname",
        reason: "TLS needs a host name.",
        fix: "Set the name by which clients reach the gateway.",
      },
  } satisfies Checks<CheckedFile<Extract<StackConfig, { platform: "kubernetes" | "aws" }>>>;
}

export const repeatedKeyNames: Check<CheckedFile> = ({ config: { gateway } }) =>
  repeatedNames(gateway.apiKeys, "gateway.apiKeys", "key", "limits and metrics are kept per name");

/** Databases of a stack in which they are optional. */
export const databaseChecks = {
  databasesAreNeeded: ({ config }) =>
    config.encoders === false &&
    config.databases !== "mock" && {
      path: "databases",
      reason: "Search in documents needs encoders, and encoders is false.",
      fix: "Remove it, or give the stack encoders.",
    },
} satisfies Checks<CheckedFile>;

/** @param keys - Keys of `externalDatabases` that the platform requires. */
export function externalDatabaseChecks(keys: string) {
  return {
    databasesAreFound: ({ config: { databases, encoders, externalDatabases } }) => {
      if (encoders === false && databases !== "mock") return [];
      const isGiven = externalDatabases !== undefined;
      if (isGiven === (databases === "external")) return [];
      return {
        path: "externalDatabases",
        value: isGiven ? "(set)" : "(absent)",
        reason: isGiven ? "Only databases: external uses them." : "databases: external needs addresses.",
        fix: isGiven
          ? "Write databases: external, or remove externalDatabases."
          : `Add externalDatabases with ${keys}.`,
      };
    },
  } satisfies Checks<CheckedFile>;
}
