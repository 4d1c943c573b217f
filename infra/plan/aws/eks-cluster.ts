/** A cluster on EKS: control plane, machines, add-ons, charts, and roles of the stack's own pods. Pure. */
import type { EksPlan } from "../gpu-stack.ts";
import { addOnPlans } from "./add-ons.ts";
import { chartPlans } from "./chart-plans.ts";
import { nodePoolPlans } from "./node-pools.ts";
import { buildRole, clusterRole, nodeRole } from "./role-plans.ts";
import type { AwsContext, ClusterPlan } from "./types.ts";

export function eksClusterPlan(plan: EksPlan, context: AwsContext): ClusterPlan {
  const { config, cluster } = plan;
  const { tokenSecretArn } = config.hub;
  return {
    version: config.cluster.version,
    publicCidrs: distinct(config.access.apiCidrs),
    // Access entries are named by their principals.
    admins: distinct(config.access.admins),
    logRetentionDays: config.cluster.logRetentionDays,
    role: clusterRole(context),
    nodeRole: nodeRole(context),
    addOns: addOnPlans(config, context),
    charts: chartPlans(plan, context),
    pools: nodePoolPlans(plan),
    podRoles: tokenSecretArn === undefined ? [] : [buildRole(cluster.namespace.name, tokenSecretArn)],
  };
}

function distinct(words: readonly string[]): readonly string[] {
  return [...new Set(words)].toSorted();
}
