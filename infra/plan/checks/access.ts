/** Who reaches what, and with which credentials. No credential is ever shown. */
import type { GpuStackConfig } from "../../config/config.ts";
import {
  publicHasKeys,
  publicHasTls,
  type RemoteGateway,
  type RemotePlatform,
  tlsHasHostname,
  tlsHasOneCertificate,
} from "../../gateway-access.ts";
import { secretCommand } from "../../problems.ts";
import { type Check, modelCheck, type Remark, stackCheck } from "./finding.ts";

export const accessChecks = {
  gatedModelHasToken: modelCheck(
    ["models.model", "models.weights", "catalogue", "hub"],
    ({ engine: { row, weights, model }, path }, { config }) => {
      if (weights.kind !== "hub" || !row.source.gated || weights.repository !== row.source.repository)
        return [];
      if (tokenKeys(config).length > 0) return [];
      return [
        {
          path: `${path}.model`,
          reason: `${weights.repository} (${row.source.license}) gives its files only to accounts that accepted its licence, and the stack names no token.`,
          fix: `Accept the licence at https://huggingface.co/${weights.repository}, and set ${tokenAdvice(config)}${row.source.modelScope === undefined ? "" : `; or download ${model} with \`weights: { from: modelscope }\``}.`,
        },
      ];
    },
  ),

  oneToken: stackCheck(["hub"], ({ config }) => {
    const keys = tokenKeys(config);
    if (keys.length < 2) return [];
    return [
      {
        path: `hub.${keys[1]}`,
        reason: `${keys.map((key) => `hub.${key}`).join(" and ")} both name a token, and only one can be used.`,
        fix: "Keep one of them.",
      },
    ];
  }),

  // The Pulumi runtime hands over what was encrypted in clear, and shows no warnings.
  tokenIsEncrypted: stackCheck(["hub"], ({ config }) => {
    if (typeof config.hub.token !== "string") return [];
    return [
      {
        severity: "warning",
        path: "hub.token",
        reason:
          "The token stands in the stack file in clear: whoever has the file, or its history, has the token.",
        fix: `Make another token, and set ${tokenAdvice(config)}.`,
      },
    ];
  }),

  publicHasKeys: gatewayCheck(publicHasKeys),
  publicHasTls: gatewayCheck(publicHasTls),
  tlsHasHostname: gatewayCheck(tlsHasHostname),
  tlsHasOneCertificate: gatewayCheck(tlsHasOneCertificate),
} satisfies Record<string, Check>;

/** Keys of `hub` that give a token. */
function tokenKeys({ hub }: GpuStackConfig): readonly string[] {
  return Object.entries(hub).flatMap(([key, value]) => (value === undefined ? [] : [key]));
}

function tokenAdvice(config: GpuStackConfig): string {
  const { platform } = config;
  const references = { docker: "hub.tokenFile", kubernetes: "hub.tokenSecret", aws: "hub.tokenSecretArn" };
  const secret =
    config.platform === "aws"
      ? ` (\`aws secretsmanager create-secret --region ${config.region} --name hub-token --secret-string file://TOKEN-FILE\` prints the ARN)`
      : "";
  return `${references[platform]}${secret}, or hub.token with ${secretCommand("hub.token")}`;
}

/** A Docker host has no exposure: public, and no TLS. */
function gatewayCheck(rule: (gateway: RemoteGateway, platform: RemotePlatform) => readonly Remark[]): Check {
  return stackCheck(["gateway"], ({ config }) =>
    config.platform === "docker" ? [] : rule(config.gateway, config.platform),
  );
}
