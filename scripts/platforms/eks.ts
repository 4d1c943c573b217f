/** Stacks in a cluster of their own on AWS. */
import { changePools, useStackCluster } from "../aws/pools.ts";
import { readAwsTarget } from "../program/targets.ts";
import { asleepLine, awsOperations } from "./aws.ts";
import { operations as kubernetesOperations } from "./kubernetes.ts";
import type { Operations, StackSource } from "./operations.ts";

export function operations(source: StackSource): Operations {
  const cluster = kubernetesOperations(source);
  const aws = awsOperations(source);
  const pools = async (direction: "sleep" | "wake") => {
    const { plan, context } = readAwsTarget(source.stack);
    if (!("cluster" in plan)) throw new Error(`The stack ${context.stack} has no cluster.`);
    return changePools(plan, context, direction);
  };
  return {
    ...cluster,
    ...aws,
    // The cluster is one that no kubeconfig of the user needs to know.
    async prepare() {
      await aws.prepare();
      await useStackCluster(readAwsTarget(source.stack).context);
    },
    forwarding: cluster.forwarding,
    cluster: cluster.cluster,
    async sleep(print) {
      await cluster.sleep(print);
      print(`\n${await pools("sleep")}`);
      print(`\n${asleepLine(readAwsTarget(source.stack).plan, source.stack.name)}`);
    },
    // Machines first: pods that come wait for them.
    async wake() {
      const machines = await pools("wake");
      const { text, isComplete } = await cluster.wake();
      return { text: `${text}\n${machines}`, isComplete };
    },
  };
}
