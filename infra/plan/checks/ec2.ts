/** One EC2 instance that runs everything. */
import type { Ec2Config } from "../../config/aws-stacks.ts";
import type { CheckedStack, Checks } from "./check.ts";
import { oneOf } from "./shared-messages.ts";

export const ec2Checks = {
  ec2IsOneMachine: ({ config: { pools } }) => {
    const [first, ...others] = pools;
    if (others.length > 0) {
      return {
        path: "pools",
        value: `${pools.length} pools`,
        reason: "`compute: ec2` runs everything on one machine.",
        fix: "Keep one pool, or write `compute: eks`.",
      };
    }
    if (first === undefined || first.nodes.max === 1) return [];
    return {
      path: "pools[0].nodes.max",
      reason: `\`compute: ec2\` runs on one machine, and nodes.max is ${first.nodes.max}.`,
      fix: "Write nodes: { min: 1, max: 1 }, or `compute: eks`.",
    };
  },

  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_ChangingDisableAPITermination.html, Considerations.
  spotIsNotRetained: ({ config: { retain, pools } }) =>
    pools.map(
      ({ capacity }, index) =>
        capacity === "spot" &&
        retain.length > 0 && {
          path: `pools[${index}].capacity`,
          reason: `\`retain\` protects machines of the stacks that it names (${oneOf(retain)}) from termination, which EC2 does not support for spot instances: \`up\` would fail.`,
          fix: "Write capacity: onDemand, or `retain: []`.",
        },
    ),

  // A persistent request could be stopped; the provider leaves it when the machine goes, and it starts another one
  // (issue 38142 of terraform-provider-aws). https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/stop-spot-instance.html
  spotMachineStays: ({ config: { pools } }) =>
    pools.map(
      ({ capacity }, index) =>
        capacity === "spot" && {
          severity: "warning",
          path: `pools[${index}].capacity`,
          reason:
            "A spot instance can't be stopped: `npx engine-room sleep` and a change of instanceType fail. When EC2 reclaims it, documents and images on its disk are lost; `npx engine-room up` then creates another.",
          fix: "Write capacity: onDemand, or keep nothing on the disk; engines stay in the engine store.",
        },
    ),

  accessIsOfCluster: ({ written: { access = {} } }) =>
    Object.keys(access as object).map((key) => ({
      severity: "warning",
      path: `access.${key}`,
      reason: "`compute: ec2` has no cluster, so that this has no effect.",
      fix: "Remove it.",
    })),
} satisfies Checks<CheckedStack<Ec2Config>>;
