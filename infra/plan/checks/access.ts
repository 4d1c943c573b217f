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
import { type Check, modelCheck, type Remark, stackCheck } from "./finding.ts";

const OPEN_TO_ALL = "0.0.0.0/0";

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

  publicHasKeys: gatewayCheck(publicHasKeys),
  publicHasTls: gatewayCheck(publicHasTls),
  tlsHasHostname: gatewayCheck(tlsHasHostname),
  tlsHasOneCertificate: gatewayCheck(tlsHasOneCertificate),

  apiCidrsAreGiven: stackCheck(["access", "compute"], ({ config }) => {
    if (config.platform !== "aws" || config.compute !== "eks" || config.access.apiCidrs.length > 0) return [];
    return [
      {
        path: "access.apiCidrs",
        reason: "Nobody could reach the cluster's API, not even this program.",
        fix: "Add the address that you come from, such as 203.0.113.7/32.",
      },
    ];
  }),

  apiCidrsAreNarrow: stackCheck(["access", "compute"], ({ config }) => {
    if (config.platform !== "aws") return [];
    return config.access.apiCidrs.flatMap((cidr, index): readonly Remark[] => {
      const path = `access.apiCidrs[${index}]`;
      if (!isCidr(cidr)) {
        return [
          {
            path,
            reason: "Each of the four numbers is 0 to 255, and the length 0 to 32.",
            fix: "Write a CIDR such as 203.0.113.7/32.",
          },
        ];
      }
      if (!cidr.endsWith("/0")) return [];
      return [
        {
          path,
          reason: `It is every address of the internet (${OPEN_TO_ALL}), and the cluster's API would be open to all of them.`,
          fix: "Name the networks that may administer the stack.",
        },
      ];
    });
  }),
} satisfies Record<string, Check>;

/** Keys of `hub` that give a token. */
function tokenKeys({ hub }: GpuStackConfig): readonly string[] {
  return Object.entries(hub).flatMap(([key, value]) => (value === undefined ? [] : [key]));
}

function tokenAdvice({ platform }: GpuStackConfig): string {
  const references = { docker: "hub.tokenFile", kubernetes: "hub.tokenSecret", aws: "hub.tokenSecretArn" };
  return `${references[platform]}, or hub.token with \`pulumi config set --secret --path engine-room:hub.token\``;
}

/** A Docker host has no exposure: public, and no TLS. */
function gatewayCheck(rule: (gateway: RemoteGateway, platform: RemotePlatform) => readonly Remark[]): Check {
  return stackCheck(["gateway"], ({ config }) =>
    config.platform === "docker" ? [] : rule(config.gateway, config.platform),
  );
}

function isCidr(text: string): boolean {
  const [address = "", length = ""] = text.split("/");
  return address.split(".").every((part) => Number(part) <= 255) && Number(length) <= 32;
}
