/** What only a stack on AWS can get wrong: its network, its load balancer and its file system. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { machineZones, vpcCidr } from "../aws/network.ts";
import { formatCidr, LONGEST_VPC_PREFIX, overlap, parseCidr, SHORTEST_VPC_PREFIX } from "../aws/subnets.ts";
import { RESERVED_NETWORKS } from "../catalogue/aws.ts";
import { awsCheck, type Check, type Remark } from "./finding.ts";
import { count, oneOf } from "./words.ts";

/** EKS puts its control plane's addresses into two zones, and a load balancer of applications stands in two. */
const LEAST_ZONES = 2;

export const awsChecks = {
  zonesAreDistinct: awsCheck(["network"], ({ network: { zones, existing } }) => [
    ...(existing === undefined ? repeated(zones, "network.zones") : []),
    ...repeated(zonesOf(existing?.privateSubnets), "network.existing.privateSubnets"),
    ...repeated(zonesOf(existing?.publicSubnets), "network.existing.publicSubnets"),
  ]),

  zonesSuffice: awsCheck(["network", "compute"], ({ network, compute }) => {
    const zones = new Set(machineZones(network));
    if (zones.size >= LEAST_ZONES) return [];
    const isNew = network.existing === undefined;
    return [
      {
        path: isNew ? "network.zones" : "network.existing.privateSubnets",
        reason: `${compute === "eks" ? "EKS and the load balancer of the gateway want" : "The load balancer of the gateway wants"} subnets in ${LEAST_ZONES} zones, and there ${zones.size === 1 ? "is" : "are"} ${zones.size}.`,
        fix: `${isNew ? "Add a zone" : "Add a subnet of a second zone"}; ${compute === "eks" ? "a pool that is to use one of them says so in `zones`" : "the pool's `zone` says which one its machine is in"}.`,
      },
    ];
  }),

  publicGatewayHasSubnets: awsCheck(["network", "gateway"], ({ network: { existing }, gateway }) => {
    if (existing === undefined || gateway.exposure !== "public") return [];
    const zones = new Set(zonesOf(existing.publicSubnets));
    if (zones.size >= LEAST_ZONES) return [];
    return [
      {
        path: "network.existing.publicSubnets",
        reason: `With exposure: public the load balancer stands in public subnets of ${LEAST_ZONES} zones, and the stack file names ${zones.size}.`,
        fix: "Name public subnets of two zones, or write exposure: internal.",
      },
    ];
  }),

  poolZonesAreOfNetwork: awsCheck(["network", "compute", "pools.zones", "pools.zone"], (config) => {
    const zones = machineZones(config.network);
    return wantedZones(config).flatMap(({ path, wanted }): readonly Remark[] => {
      const missing = wanted.filter((zone) => !zones.includes(zone));
      if (missing.length === 0) return [];
      const isNew = config.network.existing === undefined;
      return [
        {
          path,
          reason: `The network has subnets for machines in ${zones.join(", ")}, and none in ${oneOf(missing)}.`,
          fix: `Use ${oneOf(zones)}, or add ${missing.join(", ")} to ${isNew ? "network.zones" : "network.existing.privateSubnets"}.`,
        },
      ];
    });
  }),

  cidrHoldsSubnets: awsCheck(["network"], ({ network: { existing, cidr } }) => {
    if (existing !== undefined) return [];
    const { length, size } = parseCidr(cidr);
    if (length <= LONGEST_VPC_PREFIX) return [];
    return [
      {
        path: "network.cidr",
        reason: `An eighth of its ${size} addresses is for the machines of a zone: ${size / 8}, of which every pod takes one and every machine holds some in reserve.`,
        fix: `Use a length of ${SHORTEST_VPC_PREFIX} to ${LONGEST_VPC_PREFIX}; /${SHORTEST_VPC_PREFIX} costs no more.`,
      },
    ];
  }),

  // AWS makes no VPC of some, and of others one that hides a part of the internet:
  // https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html
  cidrIsForMachines: awsCheck(["network"], ({ network: { existing, cidr } }) => {
    if (existing !== undefined) return [];
    const reserved = RESERVED_NETWORKS.find((one) => one.kind === "own" && overlap(one.cidr, cidr));
    if (reserved?.isForMachines === true) return [];
    return [
      {
        ...(reserved === undefined ? { severity: "warning" } : {}),
        path: "network.cidr",
        reason:
          reserved === undefined
            ? "These addresses are others' on the internet, whom nobody would reach from the stack's network."
            : `${reserved.cidr} has ${reserved.what}: AWS makes no network of them.`,
        fix: "Take a part of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10; it can't be changed once machines are in it.",
      },
    ];
  }),

  // AWS takes it for another one, and so would every later comparison.
  cidrsBeginNetworks: awsCheck(["network"], ({ network: { existing, cidr, peeredCidrs } }) =>
    [
      existing === undefined
        ? { path: "network.cidr", text: cidr }
        : { path: "network.existing.cidr", text: existing.cidr },
      ...peeredCidrs.map((text, index) => ({ path: `network.peeredCidrs[${index}]`, text })),
    ].flatMap(({ path, text }): readonly Remark[] => {
      const parsed = parseCidr(text);
      const network = formatCidr(parsed);
      if (network === text) return [];
      return [
        {
          path,
          reason: `A network of length ${parsed.length} begins at a multiple of ${parsed.size} addresses, and this one does not.`,
          fix: `Write ${network}.`,
        },
      ];
    }),
  ),

  peersDoNotOverlap: awsCheck(["network"], ({ network }) => {
    const own = vpcCidr(network);
    return network.peeredCidrs.flatMap((peer, index): readonly Remark[] => {
      if (!overlap(own, peer)) return [];
      return [
        {
          path: `network.peeredCidrs[${index}]`,
          reason: `It shares addresses with the stack's network ${own}: what is sent to them stays within the VPC, and the other network is never reached.`,
          fix:
            network.existing === undefined
              ? "Take another range for network.cidr; it can't be changed once machines are in it."
              : "Name the range that is reached, or leave it out.",
        },
      ];
    });
  }),

  throughputIsWhole: awsCheck(["engineStore"], ({ engineStore }) => {
    const { throughput, provisionedMiBPerSecond, existing } = engineStore;
    const path = "engineStore.provisionedMiBPerSecond";
    if (throughput === "provisioned" && provisionedMiBPerSecond === undefined && existing === undefined) {
      return [
        {
          path,
          reason:
            "With throughput: provisioned AWS wants the rate that is paid for, whether it is used or not.",
          fix: "Write it in MiB/s, or write throughput: elastic, which is paid by what is read and written.",
        },
      ];
    }
    if (provisionedMiBPerSecond === undefined) return [];
    if (throughput === "provisioned" && existing === undefined) return [];
    return [
      {
        path,
        reason:
          existing === undefined
            ? `With throughput: elastic the file system takes no rate, and ${provisionedMiBPerSecond} MiB/s would be ignored.`
            : `The throughput of ${existing.fileSystemId} is decided where it was made, and ${provisionedMiBPerSecond} MiB/s would be ignored.`,
        fix: existing === undefined ? "Remove it, or write throughput: provisioned." : "Remove it.",
      },
    ];
  }),

  certificateIsOfRegion: awsCheck(["gateway", "region", "account"], ({ gateway, region, account }) => {
    const arn = gateway.tls?.certificateArn;
    if (arn === undefined) return [];
    const [, , , ofRegion = "", ofAccount = ""] = arn.split(":");
    if (ofRegion === region && ofAccount === account) return [];
    const isElsewhere = ofRegion !== region;
    return [
      {
        path: "gateway.tls.certificateArn",
        reason: isElsewhere
          ? `It is of ${ofRegion === "" ? "no region" : ofRegion}, and a load balancer in ${region} uses certificates of its own region only.`
          : `It is of account ${ofAccount}, and a load balancer of ${account} uses certificates of its own account only.`,
        fix: `Request or import the certificate in ${isElsewhere ? region : `account ${account}`}, and write its ARN.`,
      },
    ];
  }),

  recordHasName: awsCheck(["gateway"], ({ gateway: { zoneId, hostname } }) => {
    if (zoneId === undefined || hostname !== undefined) return [];
    return [
      {
        path: "gateway.zoneId",
        reason: "The hosted zone would get a record, and no name for it is given.",
        fix: "Set gateway.hostname, or remove it.",
      },
    ];
  }),
} satisfies Record<string, Check>;

function zonesOf(subnets: readonly { readonly zone: string }[] = []): readonly string[] {
  return subnets.map(({ zone }) => zone);
}

/** Zones that pools name themselves. */
function wantedZones(
  config: AwsConfig,
): readonly { readonly path: string; readonly wanted: readonly string[] }[] {
  if (config.compute === "eks")
    return config.pools.map(({ zones = [] }, index) => ({ path: `pools[${index}].zones`, wanted: zones }));
  return config.pools.map(({ zone }, index) => ({
    path: `pools[${index}].zone`,
    wanted: zone === undefined ? [] : [zone],
  }));
}

function repeated(zones: readonly string[], path: string): readonly Remark[] {
  return zones.flatMap((zone, index): readonly Remark[] => {
    if (zones.indexOf(zone) === index) return [];
    return [
      {
        path: `${path}[${index}]`,
        reason: `Zone ${zone} stands there ${count(zones.filter((one) => one === zone).length, "time")}, and it has one subnet of a kind.`,
        fix: "Name each zone once.",
      },
    ];
  });
}
