/** Stacks on EKS, planned. */
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../../infra/config/config.ts";
import { type AwsContext, awsContext } from "../../../../infra/plan/aws/context.ts";
import { type ClusterPlan, eksClusterPlan } from "../../../../infra/plan/aws/eks-cluster.ts";
import type { EksPlan } from "../../../../infra/plan/gpu-stack.ts";
import { readStackFile, stackReference } from "../../../../scripts/program/stack-file.ts";

type Values = Readonly<Record<string, unknown>>;

/** Small, with one pool of GPUs and one without. */
export const eksValues = {
  platform: "aws",
  account: "111122223333",
  region: "us-east-1",
  access: { apiCidrs: ["203.0.113.7/32"] },
  pools: [
    { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 0, max: 1 } },
    { name: "cpu", instanceType: "m7i.xlarge" },
  ],
  engines: { whenFull: "stopServer" },
  models: [{ name: "gpt", model: "gpt2-medium" }],
} as const;

export interface PlannedCluster {
  readonly plan: EksPlan;
  readonly context: AwsContext;
  readonly cluster: ClusterPlan;
}

export function plannedCluster(changes: Values = {}): PlannedCluster {
  return clusterOf("demo", { ...eksValues, ...changes });
}

/** @param stack - Name of a stack file of the project. */
export function shippedCluster(stack: string): PlannedCluster {
  return clusterOf(stack, fromRuntimeConfig(readStackFile(stackReference(stack)).values));
}

function clusterOf(stack: string, values: Values): PlannedCluster {
  const { plan } = checkedPlan(values);
  if (plan.platform !== "aws" || plan.compute !== "eks") throw new Error(`${stack} is not on EKS`);
  const context = awsContext(plan.config, stack);
  return { plan, context, cluster: eksClusterPlan(plan, context) };
}
