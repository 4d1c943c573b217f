/** What AWS is asked about besides what the stack file says itself: machines, and add-ons. Pure. */

import { eksClusterPlan, type NodePoolPlan } from "../../infra/plan/aws/eks-cluster.ts";
import { machineTypes } from "../../infra/plan/catalogue/machines.ts";
import { plannedNodes } from "../../infra/plan/cost/pool-price.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { buildsOf } from "../../infra/plan/pool-space.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import type { MachineNeed } from "./aws-quotas.ts";
import type { AwsNeeds } from "./aws-reading.ts";

export function awsNeeds({ plan, context }: AwsTarget): AwsNeeds {
  if (plan.compute === "eks") {
    const { pools, addOns } = eksClusterPlan(plan, context);
    return {
      addOns: addOns.map(({ args: { addonName, addonVersion, configurationValues } }) => ({
        name: addonName,
        version: addonVersion,
        configuration: configurationValues === undefined ? null : JSON.parse(configurationValues),
      })),
      machines: pools.flatMap((pool) =>
        // Which of several types starts is known to nobody; they are of one family and size.
        pool.nodeGroup.instanceTypes.slice(0, 1).map((instanceType) => ({
          pool: pool.name,
          instanceType,
          isSpot: pool.nodeGroup.capacityType === "SPOT",
          vcpus: vcpusOf(plan, pool.name, instanceType),
          plannedMachines: plannedMachines(plan, pool),
          maxMachines: pool.nodeGroup.scalingConfig.maxSize,
          surgeMachines: pool.surgeMachines,
        })),
      ),
    };
  }
  return { addOns: [], machines: plan.spec.pools.flatMap(machineOf) };
}

function vcpusOf({ spec }: EksPlan, pool: string, instanceType: string): number {
  const own = spec.pools.find(({ name }) => name === pool)?.machine;
  const vcpus = (own ?? machineTypes[instanceType])?.vcpus;
  if (vcpus === undefined) throw new Error(`The catalogue has no ${instanceType}.`);
  return vcpus;
}

/** Machines of a node group that `up` waits for, by what serves there and what is built there. */
function plannedMachines({ spec }: EksPlan, { name, nodeGroup }: NodePoolPlan): number {
  const pool = spec.pools.find((one) => one.name === name);
  if (pool === undefined) return nodeGroup.scalingConfig.minSize;
  return Math.max(plannedNodes(spec, pool), buildsOf(spec, pool).length > 0 ? 1 : 0);
}

/** A stack on EC2 is one machine. */
function machineOf({
  name,
  instanceType,
  machine,
  capacity,
}: AwsTarget["plan"]["spec"]["pools"][number]): readonly MachineNeed[] {
  if (instanceType === null) return [];
  return [
    {
      pool: name,
      instanceType,
      isSpot: capacity === "spot",
      vcpus: machine.vcpus,
      plannedMachines: 1,
      maxMachines: 1,
      surgeMachines: 0,
    },
  ];
}
