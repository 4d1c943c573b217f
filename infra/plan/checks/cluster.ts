/** What only a stack in a cluster can get wrong: how pods find machines, and what they share. */
import { clusterConfigOf } from "../aws/as-platforms.ts";
import { isInStore } from "../engine/weights.ts";
import { unreadScaling } from "../kubernetes/cluster.ts";
import { gpuResource } from "../kubernetes/gpu-resources.ts";
import { canSurge, poolOf, serverRoom, sharesGpuMemory, surgeShortages } from "../pool-space.ts";
import type { ModelSpec, PoolSpec } from "../spec.ts";
import { type Check, type CheckedStack, modelCheck, type Remark, stackCheck } from "./finding.ts";
import { SERVER_KEYS } from "./keys.ts";
import { shortageWords, shortNames } from "./words.ts";

export const clusterChecks = {
  storeReachesMachines: stackCheck(
    ["engineStore", "pools.nodes", "pools.name", "models.pool", "models.buildPool", "encoders"],
    ({ config, spec }) => {
      const store = clusterConfigOf(config)?.engineStore;
      if (store === undefined || store.existingClaim !== undefined) return [];
      if (store.accessMode === "ReadWriteMany") return [];
      const names = new Set([
        ...spec.models.flatMap(({ pool, buildPool }) => [pool, buildPool]),
        ...(spec.encoders === null ? [] : [spec.encoders.pool]),
      ]);
      const machines = spec.pools
        .filter(({ name }) => names.has(name))
        .reduce((sum, { nodes }) => sum + nodes.max, 0);
      if (machines <= 1) return [];
      return [
        {
          path: "engineStore.accessMode",
          reason: `A volume of ReadWriteOnce is attached to one machine, and builds and servers may run on ${machines}.`,
          fix: "Use ReadWriteMany with a class that has it (NFS, CephFS, EFS, Filestore), or one pool of one machine.",
        },
      ];
    },
  ),

  poolsDiffer: stackCheck(
    [
      "compute",
      "pools.nodeSelector",
      "pools.gpuResource",
      "pools.name",
      "pools.sharing",
      "pools.instanceType",
      "pools.machine",
    ],
    ({ config, spec }) => {
      if (spec.runsOn === "host") return [];
      const pools = spec.pools.filter(({ gpu }) => gpu !== null);
      return pools.flatMap((pool, index): readonly Remark[] => {
        const other = pools.slice(0, index).find((earlier) => couldMeet(config, pool, earlier));
        if (other === undefined) return [];
        return [
          {
            path: `${pool.path}.nodeSelector`,
            reason: `Pods of ${pool.name} and of ${other.name} ask for the same resource, and no label tells their machines apart: either could land on the other's GPUs.`,
            fix: "Write a label for each of them, such as nodeSelector: { nvidia.com/gpu.product: NVIDIA-A10G }; `kubectl get nodes --show-labels` shows what there is.",
          },
        ];
      });
    },
  ),

  surgeHasRoom: modelCheck(["models.rollout", ...SERVER_KEYS], (model, { config, spec }) => {
    const pool = poolOf(model, spec);
    const room = serverRoom(model);
    if (rolloutOf(model, config) !== "surge" || canSurge(spec, pool, room)) return [];
    const { name } = model.serving;
    if (sharesGpuMemory(pool, room)) {
      return [
        {
          path: `${model.path}.rollout`,
          reason: `Time slicing does not divide a GPU's memory, so that the old and the new server of ${name} would not fit.`,
          fix: "Write inPlace.",
        },
      ];
    }
    const short = surgeShortages(spec, pool, room);
    return [
      {
        path: `${model.path}.rollout`,
        reason: `When all servers run, no machine of ${pool.name} has room for a new server of ${name}, which takes ${shortageWords(short)}, and the old one would wait for it for ever.`,
        fix: `Write inPlace, raise ${pool.path}.nodes.max, or use machines with more ${shortNames(short)}.`,
      },
    ];
  }),

  copyHasEngine: modelCheck(
    ["models.copyEngine", "models.runtime", "models.name"],
    ({ serving, path }, { config }) => {
      const models = clusterConfigOf(config)?.models;
      if (serving.runtime === "engine" || models === undefined) return [];
      if (!models.some(({ name, copyEngine }) => name === serving.name && copyEngine)) return [];
      return [
        {
          path: `${path}.copyEngine`,
          reason: `With runtime ${serving.runtime} the model has no engine that could be copied.`,
          fix: "Remove it.",
        },
      ];
    },
  ),

  stopNeedsPriorities: stackCheck(["engines", "priorityClasses"], ({ config }) => {
    if ((clusterConfigOf(config)?.priorityClasses ?? "create") === "create") return [];
    if (config.engines.whenFull === "fail") return [];
    return [
      {
        path: "priorityClasses",
        reason:
          "engines.whenFull: stopServer lets a build take a server's GPU, which the scheduler does by their priorities alone.",
        fix: "Write create, or whenFull: fail with a GPU that is free to build on.",
      },
    ];
  }),

  scalingIsRead: stackCheck(
    ["monitoring", "models.minReplicas", "models.replicas", "encoders", "gateway"],
    ({ config }) => {
      const cluster = clusterConfigOf(config);
      if (cluster === null) return [];
      return unreadScaling(cluster).map((problem) => ({ severity: "warning", ...problem }));
    },
  ),

  weightsReachPods: modelCheck(
    ["compute", "models.weights"],
    ({ engine: { weights }, path, serving }, { spec }) => {
      if (spec.runsOn === "host") return [];
      if (weights.kind === "folder" && !isInStore(weights.path)) {
        return [
          {
            path: `${path}.weights.path`,
            reason: `Pods mount no folders of machines, which Pod Security forbids: builds and servers of ${serving.name} find weights below /store/ only, in the claim of the engine store.`,
            fix: `Copy them into the claim, and write /store/own/${serving.name}.`,
          },
        ];
      }
      if (weights.kind !== "s3") return [];
      return [
        {
          path: `${path}.weights.uri`,
          reason:
            "No credentials of AWS reach a build's pod: it has no service account, and no way to a machine's metadata.",
          fix: `Copy them into the claim of the engine store, and write weights: { from: folder, path: /store/own/${serving.name}, revision: … }.`,
        },
      ];
    },
  ),
} satisfies Record<string, Check>;

type Config = CheckedStack["config"];

function rolloutOf(model: ModelSpec, config: Config) {
  return clusterConfigOf(config)?.models.find(({ name }) => name === model.serving.name)?.rollout;
}

/** Whether pods of one pool could run on a machine of the other, and not do there: engines are made for one kind of GPU. */
function couldMeet(config: Config, a: PoolSpec, b: PoolSpec): boolean {
  if (a.gpu?.name === b.gpu?.name && a.sharing.mode === b.sharing.mode) return false;
  const [ofA, ofB] = [accessOf(config, a), accessOf(config, b)];
  if (ofA.resource !== ofB.resource) return false;
  return Object.entries(ofA.nodeSelector).every(([key, value]) => (ofB.nodeSelector[key] ?? value) === value);
}

function accessOf(config: Config, { name, sharing }: PoolSpec) {
  const pool = clusterConfigOf(config)?.pools.find((one) => one.name === name);
  return {
    nodeSelector: pool?.nodeSelector ?? {},
    resource: gpuResource(sharing, pool?.gpuResource ?? null),
  };
}
