/** What only a stack on EKS can get wrong: its node groups, and what needs a chart that is not installed. */
import type { EksConfig } from "../../config/aws-stacks.ts";
import { clusterConfigOf } from "../aws/as-platforms.ts";
import { SYSTEM_POOL } from "../aws/names.ts";
import { machineZones } from "../aws/network.ts";
import { isInstalled } from "../catalogue/aws.ts";
import { leastReplicas } from "../kubernetes/cluster.ts";
import { frontPool } from "../pool-space.ts";
import type { GpuStackSpec } from "../spec.ts";
import { type Check, type Key, type Remark, stackCheck } from "./finding.ts";
import { count } from "./words.ts";

const INSTALL = "Remove the line, or write existing where the cluster gets it otherwise.";

/** Of an account that asked for no more. https://docs.aws.amazon.com/general/latest/gr/eks.html */
const GROUP_MACHINES = 450;

export const awsClusterChecks = {
  poolNamesAreFree: eksCheck(["pools.name"], ({ pools }) =>
    pools.flatMap(({ name }, index): readonly Remark[] => {
      if (name !== SYSTEM_POOL) return [];
      return [
        {
          path: `pools[${index}].name`,
          reason: `Every cluster has a pool ${SYSTEM_POOL} of its own, for controllers.`,
          fix: "Choose another name.",
        },
      ];
    }),
  ),

  warmMachinesFit: eksCheck(["pools.warm", "pools.nodes"], ({ pools }) =>
    pools.flatMap(({ warm, nodes }, index): readonly Remark[] => {
      if (warm <= nodes.max) return [];
      return [
        {
          path: `pools[${index}].warm`,
          reason: `The pool has ${count(nodes.max, "machine")} at most, and ${warm} are to stay.`,
          fix: `Write ${nodes.max}, or raise nodes.max to ${warm}.`,
        },
      ];
    }),
  ),

  groupsAreOfQuota: eksCheck(["compute", "pools.nodes"], ({ pools }) =>
    pools.flatMap(({ nodes }, index): readonly Remark[] => {
      if (nodes.max <= GROUP_MACHINES) return [];
      return [
        {
          severity: "warning",
          path: `pools[${index}].nodes.max`,
          reason: `EKS lets a node group have ${GROUP_MACHINES} machines, unless the account's quota "Nodes per managed node group" is higher.`,
          fix: `Ask for a quota of ${nodes.max}, use ${GROUP_MACHINES}, or divide the pool.`,
        },
      ];
    }),
  ),

  // Auto Scaling chooses the zone of a machine that it replaces, and EBS has a disk in one.
  disksAreReached: eksCheck(
    ["network", "pools.zones", "pools.nodes", "pools.warm", "databases", "encoders"],
    (config, { pools }) => {
      const pool = frontPool(pools);
      if (pool === undefined || config.encoders === false || config.databases === "external") return [];
      const index = config.pools.findIndex(({ name }) => name === pool.name);
      const zones = config.pools[index]?.zones ?? machineZones(config.network);
      if (pool.nodes.min >= zones.length) return [];
      return [
        {
          severity: "warning",
          path: `pools[${index}].zones`,
          reason: `Databases have a disk each, which is in one zone; of the pool ${count(pool.nodes.min, "machine")} ${pool.nodes.min === 1 ? "stays" : "stay"}, and AWS may put the next one into any of ${zones.join(", ")}: databases in another zone than their disks don't start.`,
          fix: `Write zones: [${zones[0]}], or ${zones.length} for nodes.min: one in each zone. In a stack that is up its disks have their zone already, which \`kubectl describe pv\` names: take that one, or nodes.min where there are two.`,
        },
      ];
    },
  ),

  gpusAreGivenOut: eksCheck(["cluster", "pools.instanceType"], ({ cluster }, { pools }) => {
    const withGpus = pools.filter(({ gpu }) => gpu !== null).map(({ name }) => name);
    if (withGpus.length === 0 || isInstalled("device-plugin", cluster.charts)) return [];
    return [
      {
        path: "cluster.charts.device-plugin",
        reason: `Without NVIDIA's device plugin no pod is given a GPU, and those of ${withGpus.join(", ")} would stay idle.`,
        fix: INSTALL,
      },
    ];
  }),

  poolsCanGrow: eksCheck(["cluster", "pools.nodes", "pools.warm"], ({ cluster, pools }) => {
    if (isInstalled("cluster-autoscaler", cluster.charts)) return [];
    return pools.flatMap(({ nodes, warm }, index): readonly Remark[] => {
      const least = Math.max(nodes.min, warm);
      if (least >= nodes.max) return [];
      return [
        {
          ...(least === 0 ? {} : { severity: "warning" as const }),
          path: `pools[${index}].nodes`,
          reason: `Without the autoscaler nobody starts a machine: the pool stays at ${least}, and ${nodes.max} are never reached.`,
          fix: "Write one number for nodes.min and nodes.max, or remove cluster.charts.cluster-autoscaler.",
        },
      ];
    });
  }),

  numbersAreScaled: eksCheck(
    ["cluster", "autoscaling", "models.minReplicas", "models.replicas", "encoders", "gateway"],
    (config) => {
      if (config.autoscaling.mechanism !== "keda" || isInstalled("keda", config.cluster.charts)) return [];
      const shared = clusterConfigOf(config);
      const scaled = shared === null ? [] : Object.keys(leastReplicas(shared));
      if (scaled.length === 0) return [];
      return [
        {
          path: "cluster.charts.keda",
          reason: `KEDA would change the number of ${scaled.join(", ")}, whose minReplicas is below replicas, and the cluster has none.`,
          fix: "Remove the line, or the minReplicas.",
        },
      ];
    },
  ),

  gatewayHasDoor: eksCheck(["cluster", "gateway"], ({ cluster, gateway }) => {
    if (isInstalled("load-balancer-controller", cluster.charts)) return [];
    const path = "cluster.charts.load-balancer-controller";
    if (gateway.exposure === "public")
      return [
        {
          path,
          reason:
            "It puts the gateway's pods behind the load balancer: with exposure: public nobody would reach them.",
          fix: INSTALL,
        },
      ];
    return [
      {
        severity: "warning",
        path,
        reason:
          "It puts the gateway's pods behind a load balancer: none is made, and the gateway is reached inside of the cluster only.",
        fix: "Use `npm run connect`, or remove the line.",
      },
    ];
  }),
} satisfies Record<string, Check>;

function eksCheck(
  keys: readonly Key[],
  remarks: (config: EksConfig, spec: GpuStackSpec) => readonly Remark[],
): Check {
  return stackCheck(keys, ({ config, spec }) =>
    config.platform === "aws" && config.compute === "eks" ? remarks(config, spec) : [],
  );
}
