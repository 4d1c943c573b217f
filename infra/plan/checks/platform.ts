/** What one platform has and another has not. */
import { STORE_FOLDER } from "../aws/names.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { onDemandHourlyUsd, pricesAsOf, regionsOffering } from "../catalogue/prices.ts";
import { rowOf } from "../resolve/names.ts";
import { type Check, modelCheck, poolCheck, type Remark, stackCheck } from "./finding.ts";
import { cheapestTypes } from "./instance-types.ts";
import { oneOf } from "./words.ts";

/** By the key whose `replicas` are too many. */
const REPLICA_FIXES: Readonly<Record<string, string>> = {
  models: "Write 1, and serve a second model of another name where a GPU is left.",
  encoders: "Write 1; a larger encoders.maxBatchSize serves more requests at a time.",
  gateway: "Write 1: what it hands on is much more work than its own.",
};

export const platformChecks = {
  gpuIndicesAreForHosts: stackCheck(["compute", "models.gpuIndices"], ({ config, spec }) =>
    config.models.flatMap(({ gpuIndices }, index): readonly Remark[] => {
      if (gpuIndices === undefined || spec.runsOn === "host") return [];
      return [
        {
          path: `models[${index}].gpuIndices`,
          reason: "GPU numbers are for containers of one machine; in a cluster the scheduler chooses.",
          fix: "Remove them.",
        },
      ];
    }),
  ),

  // The gateway asks one address for each model, and Docker spreads no requests over containers.
  hostsHaveNoReplicas: stackCheck(
    ["compute", "models.replicas", "encoders", "gateway"],
    ({ config, spec }) => {
      if (spec.runsOn !== "host") return [];
      const { models, encoders } = config;
      const servers = [
        ...models.map(({ replicas }, index) => ({ replicas, path: `models[${index}].replicas` })),
        ...(encoders === false ? [] : [{ replicas: encoders.replicas, path: "encoders.replicas" }]),
        ...("replicas" in config.gateway
          ? [{ replicas: config.gateway.replicas, path: "gateway.replicas" }]
          : []),
      ];
      return servers.flatMap(({ replicas, path }): readonly Remark[] => {
        if (replicas === 1) return [];
        return [
          {
            path,
            reason: `One machine has nothing that spreads requests over ${replicas} servers of one name.`,
            fix: REPLICA_FIXES[path.split(/[[.]/)[0] ?? ""] ?? "Write 1.",
          },
        ];
      });
    },
  ),

  ec2IsOneMachine: stackCheck(["compute", "pools.name", "pools.nodes"], ({ config }) => {
    if (config.platform !== "aws" || config.compute !== "ec2") return [];
    const [first, ...others] = config.pools;
    if (others.length > 0) {
      return [
        {
          path: "pools",
          value: `${config.pools.length} pools`,
          reason: "`compute: ec2` is one machine that runs everything.",
          fix: "Keep one pool, or write `compute: eks`.",
        },
      ];
    }
    if (first === undefined || first.nodes.max === 1) return [];
    return [
      {
        path: "pools[0].nodes.max",
        reason: `\`compute: ec2\` is one machine, and ${first.nodes.max} are asked for.`,
        fix: "Write nodes: { min: 1, max: 1 }, or `compute: eks`.",
      },
    ];
  }),

  // One hop is all that the machine's metadata service answers, and containers are a hop further away.
  ec2HasNoWeightsInBuckets: modelCheck(
    ["compute", "models.weights"],
    ({ engine: { weights }, path, serving }, { config }) => {
      if (config.platform !== "aws" || config.compute !== "ec2" || weights.kind !== "s3") return [];
      return [
        {
          path: `${path}.weights`,
          reason: "Containers of the machine have no credentials of AWS: its role is for the machine alone.",
          fix: `Take the weights from the model hub; or copy them into the engine store, on a machine that mounts it, and write weights: { from: folder, path: ${STORE_FOLDER}/own/${serving.name}, revision: … }.`,
        },
      ];
    },
  ),

  typeIsOffered: poolCheck(
    ["region", "pools.instanceType", "pools.hourlyUsd"],
    ({ instanceType, path, hourlyUsd, capacity, machine }, { spec: { region } }) => {
      const asOf = region === null ? null : pricesAsOf(region);
      if (region === null || asOf === null || instanceType === null) return [];
      if (hourlyUsd !== undefined || capacity !== "onDemand") return [];
      if (onDemandHourlyUsd(region, instanceType) !== null) return [];
      if (rowOf(machineTypes, instanceType) === undefined) {
        return [
          {
            path: `${path}.hourlyUsd`,
            reason: `What an hour of ${instanceType} costs is not known: the price table has the types of the catalogue alone.`,
            fix: "Write its price in USD.",
          },
        ];
      }
      const others = regionsOffering(instanceType);
      const elsewhere = others.length === 0 ? "" : ` It is offered in ${oneOf(others)}.`;
      const sameGpu = cheapestTypes(region, (type) => type.gpu === machine.gpu).filter(
        (type) => onDemandHourlyUsd(region, type) !== null,
      );
      const instead = sameGpu.length === 0 ? "Use another region" : `Use ${oneOf(sameGpu)}`;
      return [
        {
          path: `${path}.instanceType`,
          reason: `AWS's on-demand prices in ${region} (${asOf}) have no ${instanceType}: it can't simply be rented there.${elsewhere}`,
          fix: `${instead}, or write hourlyUsd where you have capacity of your own.`,
        },
      ];
    },
  ),
} satisfies Record<string, Check>;
