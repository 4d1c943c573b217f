/** What a stack on AWS names instead of making it. */
import { canonicalJson } from "../canonical-json.ts";
import { NETWORK_DEFAULTS } from "../catalogue/aws.ts";
import { awsCheck, type Check, type Remark } from "./finding.ts";

/** Keys of a network that the stack makes. */
const MADE_NETWORK_KEYS = ["zones", "cidr", "nat", "endpoints", "flowLogs"] as const;

export const awsExistingChecks = {
  // What is as it is by default may stand there: nothing else would be made of it.
  existingNetworkIsWhole: awsCheck(["network"], ({ network }) => {
    const { existing } = network;
    if (existing === undefined) return [];
    return MADE_NETWORK_KEYS.flatMap((key): readonly Remark[] => {
      if (canonicalJson(network[key]) === canonicalJson(NETWORK_DEFAULTS[key])) return [];
      return [
        {
          path: `network.${key}`,
          reason: `It is of a network that the stack makes, and ${existing.vpcId} is there: it would be ignored.`,
          fix: "Remove it, or remove network.existing.",
        },
      ];
    });
  }),

  existingStoreHasBackups: awsCheck(["engineStore"], ({ engineStore: { existing, backups } }) => {
    if (existing === undefined || backups === undefined) return [];
    return [
      {
        path: "engineStore.backups",
        reason: `Whether ${existing.fileSystemId} is copied is decided where it was made, and this would be ignored.`,
        fix: "Remove it.",
      },
    ];
  }),

  // A secret of another account is read with a key of one's own only, and roles have no right to decrypt by one.
  // https://docs.aws.amazon.com/secretsmanager/latest/userguide/auth-and-access_examples_cross.html
  hubSecretIsOfStack: awsCheck(
    ["hub", "compute", "region", "account"],
    ({ hub, compute, region, account }) => {
      const arn = hub.tokenSecretArn;
      if (arn === undefined) return [];
      const [, , , ofRegion = "", ofAccount = ""] = arn.split(":");
      // One machine asks the secret's own region.
      const isElsewhere = ofRegion !== region && compute === "eks";
      if (!isElsewhere && ofAccount === account) return [];
      return [
        {
          path: "hub.tokenSecretArn",
          reason: isElsewhere
            ? `The secret is of ${ofRegion === "" ? "no region" : ofRegion}, and builds ask Secrets Manager of ${region}, the stack's own region.`
            : `The secret is of account ${ofAccount}, and roles of ${account} have no right to decrypt it.`,
          fix: `Make one in ${isElsewhere ? region : `account ${account}`} (aws secretsmanager create-secret --region ${region} --name hub-token --secret-string file://TOKEN-FILE), and write its ARN.`,
        },
      ];
    },
  ),
} satisfies Record<string, Check>;
