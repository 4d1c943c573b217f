/** Node groups and charts of a stack on EKS, and who reaches its API. */
import type { EksConfig } from "../../config/aws-stacks.ts";
import { eksAsCluster } from "../aws/as-platforms.ts";
import { SYSTEM_POOL } from "../aws/names.ts";
import { machineZones } from "../aws/network.ts";
import { overlap, parseCidr } from "../aws/subnets.ts";
import { isInstalled, RESERVED_NETWORKS } from "../catalogue/aws.ts";
import { leastReplicas } from "../kubernetes/cluster.ts";
import { frontPool } from "../pool-space.ts";
import { beginsNetwork, createSecret } from "./aws-network.ts";
import type { Check, CheckedStack, Checks, Finding } from "./check.ts";
import { count, oneOf } from "./words.ts";

const INSTALL = "Remove the line, or write existing where the cluster gets it otherwise.";

/** Default quota of an account. https://docs.aws.amazon.com/general/latest/gr/eks.html */
const GROUP_MACHINES = 450;

const OPEN_TO_ALL = "0.0.0.0/0";

/** In bits; a shorter prefix is a part of the internet rather than one organisation's network. */
const SHORTEST_PREFIX = 8;

const OWN_ADDRESS = "the address that https://checkip.amazonaws.com shows, as A.B.C.D/32";

type EksStack = CheckedStack<EksConfig>;

export const eksChecks = {
  poolNamesAreFree: ({ config: { pools } }) =>
    pools.map(
      ({ name }, index) =>
        name === SYSTEM_POOL && {
          path: `pools[${index}].name`,
          reason: `Every cluster has a pool ${SYSTEM_POOL} of its own, for controllers.`,
          fix: "Choose another name.",
        },
    ),

  warmMachinesFit: ({ config: { pools } }) =>
    pools.map(
      ({ warm, nodes }, index) =>
        warm > nodes.max && {
          path: `pools[${index}].warm`,
          reason: `The pool has ${count(nodes.max, "machine")} at most, and ${warm} are to stay.`,
          fix: `Write ${nodes.max}, or raise nodes.max to ${warm}.`,
        },
    ),

  reservationHasZone: ({ config: { pools, network } }) =>
    pools.map(({ capacityReservationId, zones = machineZones(network) }, index) => {
      if (capacityReservationId === undefined || zones.length === 1) return [];
      return {
        path: `pools[${index}].zones`,
        reason: `A reservation is in one zone, and machines of the pool may be started in ${oneOf(zones)}, where AWS refuses those that ${capacityReservationId} does not hold.`,
        fix: "Write the zone of the reservation alone.",
      };
    }),

  groupsAreOfQuota: ({ config: { pools } }) =>
    pools.map(
      ({ nodes }, index) =>
        nodes.max > GROUP_MACHINES && {
          severity: "warning",
          path: `pools[${index}].nodes.max`,
          reason: `EKS lets a node group have ${GROUP_MACHINES} machines, unless the account's quota "Nodes per managed node group" is higher.`,
          fix: `Ask for a quota of ${nodes.max}, use ${GROUP_MACHINES}, or divide the pool.`,
        },
    ),

  // Auto Scaling chooses the zone of a machine that it replaces, and EBS has a disk in one.
  disksAreReached: ({ config, spec }) => {
    const pool = frontPool(spec.pools);
    if (pool === undefined || config.encoders === false || config.databases === "external") return [];
    const index = config.pools.findIndex(({ name }) => name === pool.name);
    const zones = config.pools[index]?.zones ?? machineZones(config.network);
    const { min } = pool.nodes;
    if (min >= zones.length) return [];
    return {
      severity: "warning",
      path: `pools[${index}].zones`,
      reason: `Databases have a disk each, which is in one zone; of the pool ${count(min, "machine")} ${min === 1 ? "stays" : "stay"}, and AWS may put the next one into any of ${zones.join(", ")}: databases in another zone than their disks don't start.`,
      fix: `Write zones: [${zones[0]}], or ${zones.length} for nodes.min: one in each zone. In a stack that is up its disks have their zone already, which \`kubectl describe pv\` names: take that one, or nodes.min where there are two.`,
    };
  },

  gpusAreGivenOut: ({ config: { cluster }, spec }) => {
    const withGpus = spec.pools.filter(({ gpu }) => gpu !== null).map(({ name }) => name);
    if (withGpus.length === 0 || isInstalled("device-plugin", cluster.charts)) return [];
    return {
      path: "cluster.charts.device-plugin",
      reason: `Without NVIDIA's device plugin no pod is given a GPU, and those of ${withGpus.join(", ")} would stay idle.`,
      fix: INSTALL,
    };
  },

  poolsCanGrow: ({ config: { cluster, pools } }) => {
    if (isInstalled("cluster-autoscaler", cluster.charts)) return [];
    return pools.map(({ nodes, warm }, index) => {
      const least = Math.max(nodes.min, warm);
      if (least >= nodes.max) return [];
      return {
        severity: least === 0 ? undefined : "warning",
        path: `pools[${index}].nodes`,
        reason: `Without the autoscaler nobody starts a machine: the pool stays at ${least}, and ${nodes.max} are never reached.`,
        fix: "Write one number for nodes.min and nodes.max, or remove cluster.charts.cluster-autoscaler.",
      };
    });
  },

  numbersAreScaled: ({ config }) => {
    if (config.autoscaling.mechanism !== "keda" || isInstalled("keda", config.cluster.charts)) return [];
    const scaled = Object.keys(leastReplicas(eksAsCluster(config)));
    if (scaled.length === 0) return [];
    return {
      path: "cluster.charts.keda",
      reason: `KEDA would change the number of ${scaled.join(", ")}, whose minReplicas is below replicas, and the cluster has none.`,
      fix: "Remove the line, or the minReplicas.",
    };
  },

  gatewayHasLoadBalancer: ({ config: { cluster, gateway } }) => {
    if (isInstalled("load-balancer-controller", cluster.charts)) return [];
    const path = "cluster.charts.load-balancer-controller";
    if (gateway.exposure === "public")
      return {
        path,
        reason:
          "It puts the gateway's pods behind the load balancer: with exposure: public nobody would reach them.",
        fix: INSTALL,
      };
    return {
      severity: "warning",
      path,
      reason:
        "It puts the gateway's pods behind a load balancer: none is made, and the gateway is reached inside of the cluster only.",
      fix: "Use `npm run connect`, or remove the line.",
    };
  },

  // One machine asks the secret's own region.
  hubSecretIsOfRegion: ({ config: { hub, region } }) => {
    const ofRegion = hub.tokenSecretArn?.split(":")[3] ?? region;
    if (ofRegion === region) return [];
    return {
      path: "hub.tokenSecretArn",
      reason: `The secret is of ${ofRegion === "" ? "no region" : ofRegion}, and builds ask Secrets Manager of ${region}, the stack's own region.`,
      fix: `Make one in ${region} (${createSecret(region)}), and write its ARN.`,
    };
  },

  apiCidrsAreGiven: ({ config: { access } }) =>
    access.apiCidrs.length === 0 && {
      path: "access.apiCidrs",
      reason: "Nobody could reach the cluster's API, not even this program.",
      fix: `Add the address that you come from: ${OWN_ADDRESS}.`,
    },

  apiCidrsAreNarrow: eachApiCidr((cidr, path) => {
    const { length, size } = parseCidr(cidr);
    if (length >= SHORTEST_PREFIX) return false;
    const addresses =
      length === 0
        ? `every address of the internet (${OPEN_TO_ALL})`
        : `${size / 2 ** 20} million addresses, 1/${2 ** length} of the internet`;
    return {
      path,
      reason: `It is ${addresses}, and a cluster's API would be open to all of them.`,
      fix: "Name the networks that may administer the cluster; with compute: ec2 there is none, and no entry is needed.",
    };
  }),

  apiCidrsBeginNetworks: eachApiCidr((cidr, path) =>
    beginsNetwork(path, cidr, `, or ${cidr.split("/")[0]}/32 for the one address`),
  ),

  // EKS refuses them: "The block cannot include reserved addresses."
  // https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html
  apiCidrsAreOfInternet: eachApiCidr((cidr, path) => {
    if (parseCidr(cidr).length < SHORTEST_PREFIX) return false;
    const reserved = RESERVED_NETWORKS.find((range) => range.kind === "own" && overlap(range.cidr, cidr));
    if (reserved === undefined) return false;
    return {
      path,
      reason: `${reserved.cidr} has ${reserved.what}: nobody comes from there over the internet, and EKS refuses them.`,
      fix: `Write ${OWN_ADDRESS}; within the VPC the API is reached without an entry.`,
    };
  }),
} satisfies Checks<EksStack>;

function eachApiCidr(check: (cidr: string, path: string) => Finding | false): Check<EksStack> {
  return ({ config }) =>
    config.access.apiCidrs.map((cidr, index) => check(cidr, `access.apiCidrs[${index}]`));
}
