/** Network of a stack on AWS, its load balancer and its file system. */

import type { AwsConfig } from "../../config/aws-stacks.ts";
import { counted } from "../../problems.ts";
import { hasDatabases } from "../aws/backups.ts";
import {
  formatCidr,
  LONGEST_VPC_PREFIX,
  machineZones,
  overlap,
  parseCidr,
  SHORTEST_VPC_PREFIX,
  vpcCidr,
} from "../aws/network.ts";
import { NETWORK_DEFAULTS, RESERVED_NETWORKS } from "../catalogue/aws.ts";
import { canonicalJson } from "../plain-data.ts";
import type { CheckedStack, Checks, Finding } from "./check.ts";
import { oneOf } from "./shared-messages.ts";

/** EKS puts its control plane's addresses into two zones, and an application load balancer needs two. */
const LEAST_ZONES = 2;

export const networkChecks = {
  zonesAreDistinct: ({
    config: {
      network: { zones, existing },
    },
  }) => [
    existing === undefined && repeatedZones(zones, "network.zones"),
    repeatedZones(zonesOf(existing?.privateSubnets), "network.existing.privateSubnets"),
    repeatedZones(zonesOf(existing?.publicSubnets), "network.existing.publicSubnets"),
  ],

  zonesSuffice: ({ config: { network } }) => {
    const zones = new Set(machineZones(network)).size;
    if (zones >= LEAST_ZONES) return [];
    const isNew = network.existing === undefined;
    return {
      path: isNew ? "network.zones" : "network.existing.privateSubnets",
      reason: `The load balancer of the gateway, and EKS, need subnets in ${LEAST_ZONES} zones, and there ${zones === 1 ? "is" : "are"} ${zones}.`,
      fix: `${isNew ? "Add a zone" : "Add a subnet of a second zone"}; \`zones\` of a pool (compute: ec2: \`zone\`) chooses among them.`,
    };
  },

  publicGatewayHasSubnets: ({
    config: {
      network: { existing },
      gateway,
    },
  }) => {
    if (existing === undefined || gateway.exposure !== "public") return [];
    const zones = new Set(zonesOf(existing.publicSubnets)).size;
    if (zones >= LEAST_ZONES) return [];
    return {
      path: "network.existing.publicSubnets",
      reason: `With exposure: public the load balancer needs public subnets in ${LEAST_ZONES} zones, and the stack file names ${zones}.`,
      fix: "Name public subnets of two zones, or write exposure: internal.",
    };
  },

  poolZonesAreOfNetwork: ({ config }) => {
    const zones = machineZones(config.network);
    const others = config.network.existing === undefined ? "zones" : "existing.privateSubnets";
    return wantedZones(config).map(({ path, wanted }) => {
      const missing = wanted.filter((zone) => !zones.includes(zone));
      if (missing.length === 0) return [];
      return {
        path,
        reason: `The network has subnets for machines in ${zones.join(", ")}, and none in ${oneOf(missing)}.`,
        fix: `Use ${oneOf(zones)}, or add ${missing.join(", ")} to network.${others}.`,
      };
    });
  },

  cidrHoldsSubnets: ({
    config: {
      network: { existing, cidr },
    },
  }) => {
    const { length, size } = parseCidr(cidr);
    if (existing !== undefined || length <= LONGEST_VPC_PREFIX) return [];
    return {
      path: "network.cidr",
      reason: `The machines of a zone get an eighth of its ${size} addresses: ${size / 8}, of which each pod takes one and each machine reserves some.`,
      fix: `Use a length of ${SHORTEST_VPC_PREFIX} to ${LONGEST_VPC_PREFIX}; /${SHORTEST_VPC_PREFIX} costs no more.`,
    };
  },

  // AWS makes no VPC of some, and of others one that hides a part of the internet:
  // https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html
  cidrIsForMachines: ({
    config: {
      network: { existing, cidr },
    },
  }) => {
    const reserved = RESERVED_NETWORKS.find((range) => range.use !== "example" && overlap(range.cidr, cidr));
    if (existing !== undefined || reserved?.use === "machines") return [];
    return {
      severity: reserved === undefined ? "warning" : undefined,
      path: "network.cidr",
      reason:
        reserved === undefined
          ? "These are public addresses, whose owners could not be reached from the stack's network."
          : `${reserved.cidr} has ${reserved.what}: AWS does not allow them in a VPC.`,
      fix: "Use a part of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10; it can't be changed once machines are in it.",
    };
  },

  // AWS takes it for another one, and so would every later comparison.
  cidrsBeginNetworks: ({
    config: {
      gateway,
      network: { existing, cidr, peeredCidrs },
    },
  }) => [
    existing === undefined
      ? beginsNetwork("network.cidr", cidr)
      : beginsNetwork("network.existing.cidr", existing.cidr),
    peeredCidrs.map((peer, index) => beginsNetwork(`network.peeredCidrs[${index}]`, peer)),
    (gateway.allowedCidrs ?? []).map((cidr, index) => beginsNetwork(`gateway.allowedCidrs[${index}]`, cidr)),
  ],

  peersDoNotOverlap: ({ config: { network } }) => {
    const own = vpcCidr(network);
    return network.peeredCidrs.map(
      (peer, index) =>
        overlap(own, peer) && {
          path: `network.peeredCidrs[${index}]`,
          reason: `It overlaps the stack's network ${own}: traffic to it stays within the VPC and never reaches the peer.`,
          fix:
            network.existing === undefined
              ? "Use another range for network.cidr; it can't be changed once machines are in it."
              : "Name the range that is reached, or leave it out.",
        },
    );
  },

  throughputIsWhole: ({
    config: {
      engineStore: { throughput, provisionedMiBPerSecond: rate, existing },
    },
  }) => {
    const path = "engineStore.provisionedMiBPerSecond";
    if (existing !== undefined && rate !== undefined) {
      return {
        path,
        reason: `The throughput of ${existing.fileSystemId} is set where it is managed; ${rate} MiB/s would be ignored.`,
        fix: "Remove it.",
      };
    }
    if (existing !== undefined || (throughput === "provisioned") === (rate !== undefined)) return [];
    return rate === undefined
      ? {
          path,
          reason: "throughput: provisioned needs a rate, which is billed whether it is used or not.",
          fix: "Write it in MiB/s, or write throughput: elastic, which is billed by use.",
        }
      : {
          path,
          reason: `throughput: elastic has no rate; ${rate} MiB/s would be ignored.`,
          fix: "Remove it, or write throughput: provisioned.",
        };
  },

  certificateIsOfRegion: ({ config }) =>
    ofStack(config, config.gateway.tls?.certificateArn, {
      path: "gateway.tls.certificateArn",
      what: "The certificate",
      user: "a load balancer",
      make: "Request or import the certificate",
    }),

  webAclIsOfRegion: ({ config }) =>
    ofStack(config, config.gateway.wafAclArn, {
      path: "gateway.wafAclArn",
      what: "The web ACL",
      user: "a load balancer",
      make: "Make the web ACL",
    }),

  allowedAreClientsOfInternet: ({ config: { gateway } }) =>
    gateway.allowedCidrs !== undefined &&
    gateway.exposure !== "public" && {
      path: "gateway.allowedCidrs",
      reason: "It is for a public load balancer; an internal one answers the VPC and network.peeredCidrs.",
      fix: "Write exposure: public, or name the networks in network.peeredCidrs.",
    },

  recordHasName: ({
    config: {
      gateway: { zoneId, hostname },
    },
  }) =>
    zoneId !== undefined &&
    hostname === undefined && {
      path: "gateway.zoneId",
      reason: "The record in the hosted zone needs a host name.",
      fix: "Set gateway.hostname, or remove it.",
    },
} satisfies Checks<CheckedStack<AwsConfig>>;

/** Keys of a network that the stack makes. */
const MADE_NETWORK_KEYS = ["zones", "cidr", "nat", "endpoints", "flowLogs"] as const;

/** Networks, file systems and secrets that exist already. */
export const existingPartChecks = {
  // Default values are allowed: they would change nothing.
  existingNetworkIsWhole: ({ config: { network } }) => {
    const { existing } = network;
    if (existing === undefined) return [];
    return MADE_NETWORK_KEYS.map(
      (key) =>
        canonicalJson(network[key]) !== canonicalJson(NETWORK_DEFAULTS[key]) && {
          path: `network.${key}`,
          reason: `It is for a network that the stack creates; with ${existing.vpcId} it would be ignored.`,
          fix: "Remove it, or remove network.existing.",
        },
    );
  },

  existingStoreHasBackups: ({
    config: {
      engineStore: { existing, backups },
    },
  }) =>
    existing !== undefined &&
    backups !== undefined && {
      path: "engineStore.backups",
      reason: `Backups of ${existing.fileSystemId} are set where it is managed; this would be ignored.`,
      fix: "Remove it.",
    },

  copiesHaveDocuments: ({ config }) =>
    (config.databaseStorage.backupDays ?? 0) > 0 &&
    !hasDatabases(config) && {
      path: "databaseStorage.backupDays",
      reason: "The stack keeps no documents on disks of its own, and there would be nothing to copy.",
      fix: "Remove it.",
    },

  keyIsOfRegion: ({ config }) =>
    ofStack(config, config.kmsKeyArn, {
      path: "kmsKeyArn",
      what: "The key",
      user: "a stack",
      make: "Make the key",
    }),

  // A secret of another account is read with a key of that account only, and roles have no right to decrypt by one.
  // https://docs.aws.amazon.com/secretsmanager/latest/userguide/auth-and-access_examples_cross.html
  hubSecretIsOfAccount: ({ config: { hub, region, account } }) => {
    const ofAccount = hub.tokenSecretArn?.split(":")[4] ?? account;
    if (ofAccount === account) return [];
    return {
      path: "hub.tokenSecretArn",
      reason: `The secret is in account ${ofAccount}, and roles of ${account} can't decrypt it.`,
      fix: `Create it in account ${account} (${createSecret(region)}), and write its ARN.`,
    };
  },
} satisfies Checks<CheckedStack<AwsConfig>>;

interface NamedPart {
  readonly path: string;
  /** As the start of a sentence: `The certificate`. */
  readonly what: string;
  /** User of the part: `a load balancer`. */
  readonly user: string;
  /** How one comes into being, as the start of a sentence. */
  readonly make: string;
}

/** Whether what exists already is in the region and the account of the stack. */
export function ofStack(
  { region, account }: Pick<AwsConfig, "region" | "account">,
  arn: string | undefined,
  { path, what, user, make }: NamedPart,
): Finding | false {
  const [, , , ofRegion = "", ofAccount = ""] = arn?.split(":") ?? [];
  if (arn === undefined || (ofRegion === region && ofAccount === account)) return false;
  const isElsewhere = ofRegion !== region;
  return {
    path,
    reason: isElsewhere
      ? `${what} is in ${ofRegion === "" ? "no region" : ofRegion}, and ${user} in ${region} needs one of its own region.`
      : `${what} is in account ${ofAccount}, and ${user} in ${account} needs one of its own account.`,
    fix: `${make} in ${isElsewhere ? region : `account ${account}`}, and write its ARN.`,
  };
}

/** Zones that pools name themselves. */
function wantedZones({ pools }: AwsConfig) {
  return pools.map((pool, index) =>
    "zones" in pool
      ? { path: `pools[${index}].zones`, wanted: pool.zones ?? [] }
      : {
          path: `pools[${index}].zone`,
          wanted: "zone" in pool && pool.zone !== undefined ? [pool.zone] : [],
        },
  );
}

/** The command that makes the secret of a hub's token, with a name that bootstrap's rights cover (plan/aws/bootstrap.ts). */
export function createSecret(region: string, stack = "STACK"): string {
  return `aws secretsmanager create-secret --region ${region} --name engine-room-${stack}/hub-token --secret-string file://TOKEN-FILE`;
}

function zonesOf(subnets: readonly { readonly zone: string }[] = []): readonly string[] {
  return subnets.map(({ zone }) => zone);
}

function repeatedZones(zones: readonly string[], path: string): readonly (Finding | false)[] {
  return zones.map(
    (zone, index) =>
      zones.indexOf(zone) !== index && {
        path: `${path}[${index}]`,
        reason: `Zone ${zone} is listed ${counted(zones.filter((other) => other === zone).length, "time")}.`,
        fix: "Name each zone once.",
      },
  );
}

/** @param instead - End of the fix, with another value that could be meant. */
export function beginsNetwork(path: string, cidr: string, instead = ""): Finding | false {
  const parsed = parseCidr(cidr);
  const network = formatCidr(parsed);
  if (network === cidr) return false;
  return {
    path,
    reason: `A /${parsed.length} network begins at a multiple of ${parsed.size} addresses, and this one does not.`,
    fix: `Write ${network}${instead}.`,
  };
}
