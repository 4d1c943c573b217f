/** Node groups and charts of a stack on EKS, and who reaches its API. */
import { clusterConfigOf } from "../aws/as-platforms.ts";
import { SYSTEM_POOL } from "../aws/names.ts";
import { machineZones } from "../aws/network.ts";
import { overlap, parseCidr } from "../aws/subnets.ts";
import { isInstalled, RESERVED_NETWORKS } from "../catalogue/aws.ts";
import { leastReplicas } from "../kubernetes/cluster.ts";
import { frontPool } from "../pool-space.ts";
import { beginsNetwork } from "./aws-network.ts";
import { type Check, type Finding, onAws, onEc2, onEks } from "./check.ts";
import { count } from "./words.ts";

const INSTALL = "Remove the line, or write existing where the cluster gets it otherwise.";

/** Default quota of an account. https://docs.aws.amazon.com/general/latest/gr/eks.html */
const GROUP_MACHINES = 450;

export const eksChecks = {
  poolNamesAreFree: onEks(({ pools }) =>
    pools.map(
      ({ name }, index) =>
        name === SYSTEM_POOL && {
          path: `pools[${index}].name`,
          reason: `Every cluster has a pool ${SYSTEM_POOL} of its own, for controllers.`,
          fix: "Choose another name.",
        },
    ),
  ),

  warmMachinesFit: onEks(({ pools }) =>
    pools.map(
      ({ warm, nodes }, index) =>
        warm > nodes.max && {
          path: `pools[${index}].warm`,
          reason: `The pool has ${count(nodes.max, "machine")} at most, and ${warm} are to stay.`,
          fix: `Write ${nodes.max}, or raise nodes.max to ${warm}.`,
        },
    ),
  ),

  groupsAreOfQuota: onEks(({ pools }) =>
    pools.map(
      ({ nodes }, index) =>
        nodes.max > GROUP_MACHINES && {
          severity: "warning",
          path: `pools[${index}].nodes.max`,
          reason: `EKS lets a node group have ${GROUP_MACHINES} machines, unless the account's quota "Nodes per managed node group" is higher.`,
          fix: `Ask for a quota of ${nodes.max}, use ${GROUP_MACHINES}, or divide the pool.`,
        },
    ),
  ),

  // Auto Scaling chooses the zone of a machine that it replaces, and EBS has a disk in one.
  disksAreReached: onEks((config, { spec }) => {
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
  }),

  gpusAreGivenOut: onEks(({ cluster }, { spec }) => {
    const withGpus = spec.pools.filter(({ gpu }) => gpu !== null).map(({ name }) => name);
    if (withGpus.length === 0 || isInstalled("device-plugin", cluster.charts)) return [];
    return {
      path: "cluster.charts.device-plugin",
      reason: `Without NVIDIA's device plugin no pod is given a GPU, and those of ${withGpus.join(", ")} would stay idle.`,
      fix: INSTALL,
    };
  }),

  poolsCanGrow: onEks(({ cluster, pools }) => {
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
  }),

  numbersAreScaled: onEks((config) => {
    const cluster = clusterConfigOf(config);
    if (config.autoscaling.mechanism !== "keda" || isInstalled("keda", config.cluster.charts)) return [];
    const scaled = cluster === null ? [] : Object.keys(leastReplicas(cluster));
    if (scaled.length === 0) return [];
    return {
      path: "cluster.charts.keda",
      reason: `KEDA would change the number of ${scaled.join(", ")}, whose minReplicas is below replicas, and the cluster has none.`,
      fix: "Remove the line, or the minReplicas.",
    };
  }),

  gatewayHasLoadBalancer: onEks(({ cluster, gateway }) => {
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
  }),
} satisfies Record<string, Check>;

const OPEN_TO_ALL = "0.0.0.0/0";

/** In bits; a shorter prefix is a part of the internet rather than one organisation's network. */
const SHORTEST_PREFIX = 8;

const OWN_ADDRESS = "the address that https://checkip.amazonaws.com shows, as A.B.C.D/32";

export const apiAccessChecks = {
  apiCidrsAreGiven: onEks(
    ({ access }) =>
      access.apiCidrs.length === 0 && {
        path: "access.apiCidrs",
        reason: "Nobody could reach the cluster's API, not even this program.",
        fix: `Add the address that you come from: ${OWN_ADDRESS}.`,
      },
  ),

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

  accessIsOfCluster: onEc2(({ access }) =>
    (["apiCidrs", "admins"] as const).map(
      (key) =>
        access[key].length > 0 && {
          severity: "warning",
          path: `access.${key}`,
          reason: `It says who ${key === "admins" ? "administers a cluster" : "reaches a cluster's API"}, and means nothing with compute: ec2: there is no cluster.`,
          fix: "Remove it.",
        },
    ),
  ),

  apiCidrsBeginNetworks: eachApiCidr((cidr, path) =>
    beginsNetwork(path, cidr, `, or ${cidr.split("/")[0]}/32 for the one address`),
  ),

  // EKS refuses them: "The block cannot include reserved addresses."
  // https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html
  apiCidrsAreOfInternet: eachApiCidr((cidr, path, compute) => {
    if (compute !== "eks" || parseCidr(cidr).length < SHORTEST_PREFIX) return false;
    const reserved = RESERVED_NETWORKS.find((range) => range.kind === "own" && overlap(range.cidr, cidr));
    if (reserved === undefined) return false;
    return {
      path,
      reason: `${reserved.cidr} has ${reserved.what}: nobody comes from there over the internet, and EKS refuses them.`,
      fix: `Write ${OWN_ADDRESS}; within the VPC the API is reached without an entry.`,
    };
  }),
} satisfies Record<string, Check>;

/** Also with `compute: ec2`, where the key may be left from a cluster. */
function eachApiCidr(check: (cidr: string, path: string, compute: "eks" | "ec2") => Finding | false): Check {
  return onAws(({ access, compute }) =>
    access.apiCidrs.map((cidr, index) => check(cidr, `access.apiCidrs[${index}]`, compute)),
  );
}
