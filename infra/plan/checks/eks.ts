/** Node groups and charts of a stack on EKS. */

import type { EksConfig } from "../../config/aws-stacks.ts";
import { counted } from "../../problems.ts";
import { eksAsCluster } from "../aws/base-platforms.ts";
import { SYSTEM_POOL } from "../aws/context.ts";
import { machineZones } from "../aws/network.ts";
import { isInstalled } from "../catalogue/aws.ts";
import { machineTypes } from "../catalogue/machines.ts";
import type { MachineType } from "../catalogue/types.ts";
import { leastReplicas } from "../kubernetes/cluster.ts";
import { frontPool } from "../pool-space.ts";
import { createSecret } from "./aws-network.ts";
import { type CheckedStack, type Checks, eachPool } from "./check.ts";
import { oneOf } from "./shared-messages.ts";

const INSTALL = "Remove the line, or write existing if the cluster gets it otherwise.";

/** Default quota of an account. https://docs.aws.amazon.com/general/latest/gr/eks.html */
const GROUP_MACHINES = 450;

/** Instance types of the catalogue with Capacity Blocks. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html */
const BLOCK_TYPES = /^p\d/;

function gpusOf({ gpu, gpus }: MachineType): string {
  return gpu === "" ? "no GPU" : `${gpus} × ${gpu}`;
}

type EksStack = CheckedStack<EksConfig>;

export const eksChecks = {
  poolNamesAreFree: ({ config: { pools } }) =>
    pools.map(
      ({ name }, index) =>
        name === SYSTEM_POOL && {
          path: `pools[${index}].name`,
          reason: "The name is reserved for the pool of the cluster's controllers.",
          fix: "Choose another name.",
        },
    ),

  warmMachinesFit: ({ config: { pools } }) =>
    pools.map(
      ({ warm, nodes }, index) =>
        warm > nodes.max && {
          path: `pools[${index}].warm`,
          reason: `The pool has at most ${counted(nodes.max, "machine")}, and warm is ${warm}.`,
          fix: `Write ${nodes.max}, or raise nodes.max to ${warm}.`,
        },
    ),

  reservationHasZone: ({ config: { pools, network } }) =>
    pools.map(({ capacityReservationId, zones = machineZones(network) }, index) => {
      if (capacityReservationId === undefined || zones.length === 1) return [];
      return {
        path: `pools[${index}].zones`,
        reason: `A reservation is in one zone, and machines of the pool may be started in ${oneOf(zones)}, where AWS refuses those that ${capacityReservationId} does not hold.`,
        fix: "Write only the zone of the reservation.",
      };
    }),

  // Auto Scaling asks for types in their order, and the autoscaler plans with the first one.
  // https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types-on-demand
  otherTypesAreLike: eachPool(({ instanceType, otherInstanceTypes = [], machine, path, ...pool }) =>
    otherInstanceTypes.map((type, index) => {
      const other = machineTypes[type];
      if (other === undefined || instanceType === null) return false;
      const where = `${path}.otherInstanceTypes[${index}]`;
      const isTwice = [instanceType, ...otherInstanceTypes.slice(0, index)].includes(type);
      if (isTwice) return { path: where, reason: `The pool has ${type} already.`, fix: "Remove it." };
      if (pool.capacityReservationId !== undefined)
        return {
          path: where,
          reason: `${pool.capacityReservationId} is of one instance type, and AWS does not start another type for a pool that names it.`,
          fix: "Remove it, or move it to a pool of its own.",
        };
      if (other.gpu !== machine.gpu || other.gpus !== machine.gpus)
        return {
          path: where,
          reason: `${type} has ${gpusOf(other)}, and ${instanceType} has ${gpusOf(machine)}: an engine runs only on the kind and number of GPUs that it was built for.`,
          fix: "Use types with the same GPUs, or a pool of its own.",
        };
      const smaller = (["vcpus", "memoryGiB", "localDiskGB"] as const).find(
        (part) => other[part] < machine[part],
      );
      if (smaller === undefined) return false;
      return {
        path: where,
        reason: `It is smaller than ${instanceType} (${smaller}: ${other[smaller]} and ${machine[smaller]}), for which room is computed.`,
        fix: `Write ${type} as instanceType, and ${instanceType} among the others.`,
      };
    }),
  ),

  blocksAreReserved: ({ config: { pools } }) =>
    pools.flatMap(({ capacity, capacityReservationId, instanceType = "", nodes, warm }, index) => {
      if (capacity !== "capacityBlock") return [];
      const path = `pools[${index}]`;
      return [
        capacityReservationId === undefined && {
          path: `${path}.capacityReservationId`,
          reason: "Machines of a Capacity Block are started by its id.",
          fix: "Write the id that `aws ec2 describe-capacity-reservations` shows for the block.",
        },
        !BLOCK_TYPES.test(instanceType) && {
          path: `${path}.instanceType`,
          reason:
            "AWS sells Capacity Blocks of P instances; this project does not support them with other types.",
          fix: "Use the type of the block, or capacity: onDemand.",
        },
        // EKS empties the group 40 minutes before the block ends, and machines are available only once it begins.
        Math.max(nodes.min, warm) > 0 && {
          path: nodes.min > 0 ? `${path}.nodes.min` : `${path}.warm`,
          reason:
            "A Capacity Block has a start and an end, and machines that are kept would be requested outside of it.",
          fix: "Write 0: the autoscaler starts machines of the block when pods need them.",
        },
      ];
    }),

  groupsAreOfQuota: ({ config: { pools } }) =>
    pools.map(
      ({ nodes }, index) =>
        nodes.max > GROUP_MACHINES && {
          severity: "warning",
          path: `pools[${index}].nodes.max`,
          reason: `EKS allows ${GROUP_MACHINES} machines in a node group, unless the account's quota "Nodes per managed node group" is higher.`,
          fix: `Request a quota of ${nodes.max}, use ${GROUP_MACHINES}, or divide the pool.`,
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
      reason: `Each database has a disk in one zone. The pool keeps ${counted(min, "machine")}, and AWS may start the next in any of ${zones.join(", ")}: a database does not start in another zone than its disk.`,
      fix: `Write zones: [${zones[0]}], or nodes.min: ${zones.length} for one machine in each zone. In a running stack use the zone of the disks, which \`kubectl describe pv\` shows, or nodes.min if they have two.`,
    };
  },

  gpusAreGivenOut: ({ config: { cluster }, spec }) => {
    const withGpus = spec.pools.filter(({ gpu }) => gpu !== null).map(({ name }) => name);
    if (withGpus.length === 0 || isInstalled("device-plugin", cluster.charts)) return [];
    return {
      path: "cluster.charts.device-plugin",
      reason: `Without NVIDIA's device plugin pods get no GPU, and those of ${withGpus.join(", ")} stay idle.`,
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
        reason: `Without the cluster autoscaler the pool stays at ${least} and never grows to ${nodes.max}.`,
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
      reason: `KEDA scales ${scaled.join(", ")}, whose minReplicas is below replicas, and it is not installed.`,
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
          "It registers the gateway's pods with the load balancer: without it, a public gateway can't be reached.",
        fix: INSTALL,
      };
    return {
      severity: "warning",
      path,
      reason:
        "It registers the gateway's pods with a load balancer: without it, none is created, and the gateway is reachable inside the cluster only.",
      fix: "Use `npx engine-room connect`, or remove the line.",
    };
  },

  // One machine asks the secret's own region.
  hubSecretIsOfRegion: ({ config: { hub, region } }) => {
    const ofRegion = hub.tokenSecretArn?.split(":")[3] ?? region;
    if (ofRegion === region) return [];
    return {
      path: "hub.tokenSecretArn",
      reason: `The secret is in ${ofRegion === "" ? "no region" : ofRegion}, and builds read secrets of ${region}, the stack's region.`,
      fix: `Create it in ${region} (${createSecret(region)}), and write its ARN.`,
    };
  },

  existingClusterHasNetwork: ({ config: { cluster, network } }) =>
    cluster.existing !== undefined &&
    network.existing === undefined && {
      path: "network.existing",
      value: "(absent)",
      reason: `The cluster ${cluster.existing.name} is in a VPC of its own, where machines, load balancer and engine store belong.`,
      fix: "Write vpcId, cidr and privateSubnets of the cluster's VPC.",
    },

  existingClusterStays: ({ config: { cluster }, written }) => {
    const { existing } = cluster;
    if (existing === undefined) return [];
    const keys = (section: "cluster" | "access") => Object.keys((written[section] ?? {}) as object);
    return [
      ...keys("access").map((key) => `access.${key}`),
      ...keys("cluster")
        .filter((key) => CONTROL_PLANE_KEYS.includes(key))
        .map((key) => `cluster.${key}`),
    ].map((path) => ({
      path,
      reason: `The owner of ${existing.name} decides it; the stack changes nothing of an existing cluster.`,
      fix: "Remove it, or remove cluster.existing.",
    }));
  },

  // Names of objects without a namespace begin with it.
  existingClusterHasNamespace: ({ config: { cluster }, written }) =>
    cluster.existing !== undefined &&
    written.namespace === undefined && {
      path: "namespace",
      value: "(absent)",
      reason: `Stacks in ${cluster.existing.name} have a namespace each, from which machines, classes and volumes have their names; two with the default would take each other's.`,
      fix: "Write a namespace that no other stack of the cluster has.",
    },

  imageIsOfVersion: ({ config: { cluster } }) => {
    const { existing, version, machineImageRelease } = cluster;
    // Its owner chooses the version of an existing cluster.
    if (
      existing !== undefined ||
      machineImageRelease === undefined ||
      machineImageRelease.startsWith(`${version}.`)
    )
      return [];
    return {
      path: "cluster.machineImageRelease",
      reason: `Its machines would not be of Kubernetes ${version}, which the node groups are to have: EKS refuses that.`,
      fix: `Write a release of ${version}, or remove it for the newest in new groups.`,
    };
  },
} satisfies Checks<EksStack>;

/** Keys of the control plane: in an existing cluster its owner sets them, as all of `access`. */
const CONTROL_PLANE_KEYS = ["version", "logRetentionDays", "controlPlaneLogs"];
