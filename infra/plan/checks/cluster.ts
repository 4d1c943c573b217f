/** GPUs in a cluster: how pods find machines, and how they share GPUs. */
import type { GpuStackConfig } from "../../config/config.ts";
import { isInStore } from "../engine/weights.ts";
import { gpuResource } from "../kubernetes/capacity.ts";
import { canSurge, packPool, poolOf, serverRequest, sharesGpuMemory, shortages } from "../pool-space.ts";
import type { PoolSpec } from "../spec.ts";
import { type CheckedStack, type Checks, eachModel } from "./check.ts";
import { unreadScaling } from "./kubernetes.ts";
import { shortageWords, shortNames } from "./machines.ts";

export type ClusterConfig = Extract<GpuStackConfig, { platform: "kubernetes" }>;

/** Checks of a cluster that exists, and of one that the stack makes, as its pods see it. */
export const clusterChecks = {
  gpuIndicesAreForHosts: ({ config }) =>
    config.models.map(
      ({ gpuIndices }, index) =>
        gpuIndices !== undefined && {
          path: `models[${index}].gpuIndices`,
          reason: "GPU numbers are for a single machine; in a cluster the scheduler assigns GPUs.",
          fix: "Remove them.",
        },
    ),

  storeReachesMachines: ({ config: { engineStore }, spec: { models, encoders, pools } }) => {
    if (engineStore.existingClaim !== undefined || engineStore.accessMode === "ReadWriteMany") return [];
    const names = [encoders?.pool, ...models.flatMap(({ pool, buildPool }) => [pool, buildPool])];
    const machines = pools
      .filter(({ name }) => names.includes(name))
      .reduce((sum, { nodes }) => sum + nodes.max, 0);
    if (machines <= 1) return [];
    return {
      path: "engineStore.accessMode",
      reason: `A ReadWriteOnce volume is attached to one machine, and builds and servers may run on ${machines}.`,
      fix: "Use ReadWriteMany with a class that has it (NFS, CephFS, EFS, Filestore), or one pool of one machine.",
    };
  },

  poolsDiffer: ({ config, spec }) => {
    const pools = spec.pools.filter(({ gpu }) => gpu !== null);
    return pools.map((pool, index) => {
      const other = pools.slice(0, index).find((earlier) => couldMeet(config, pool, earlier));
      if (other === undefined) return [];
      return {
        path: `${pool.path}.nodeSelector`,
        reason: `Pods of ${pool.name} and ${other.name} request the same resource, and no label distinguishes their machines: they could be scheduled on each other's GPUs.`,
        fix: "Set a label for each, such as nodeSelector: { nvidia.com/gpu.product: NVIDIA-A10G }; `kubectl get nodes --show-labels` lists the labels.",
      };
    });
  },

  surgeHasRoom: ({ config, spec }) =>
    spec.models.map((model) => {
      const { name } = model.serving;
      const pool = poolOf(model, spec);
      const room = serverRequest(model);
      if (configOf(config.models, name)?.rollout !== "surge" || canSurge(spec, pool, room)) return [];
      const path = `${model.path}.rollout`;
      if (sharesGpuMemory(pool, room)) {
        return {
          path,
          reason: `Time slicing does not divide a GPU's memory, so that the old and the new server of ${name} would not fit.`,
          fix: "Write inPlace.",
        };
      }
      const short = shortages(packPool(spec, pool).machines, room);
      return {
        path,
        reason: `When all servers run, no machine of ${pool.name} has room for a new server of ${name}, which takes ${shortageWords(short)}: the rollout would never finish.`,
        fix: `Write inPlace, raise ${pool.path}.nodes.max, or use machines with more ${shortNames(short)}.`,
      };
    }),

  copyHasEngine: ({ config, spec: { models } }) =>
    models.map(
      ({ serving: { name, runtime }, path }) =>
        runtime !== "engine" &&
        configOf(config.models, name)?.copyEngine === true && {
          path: `${path}.copyEngine`,
          reason: `With runtime ${runtime} the model has no engine to copy.`,
          fix: "Remove it.",
        },
    ),

  stopNeedsPriorities: ({ config: { priorityClasses, engines } }) =>
    priorityClasses === "none" &&
    engines.whenFull === "stopServer" && {
      path: "priorityClasses",
      reason: "engines.whenFull: stopServer lets a build preempt a server, which needs priority classes.",
      fix: "Write create, or whenFull: fail with a GPU that is free to build on.",
    },

  scalingIsRead: ({ config }) => unreadScaling(config),

  weightsReachPods: eachModel(({ engine: { weights }, path, serving: { name } }) => {
    if (weights.kind === "folder" && !isInStore(weights.path)) {
      return {
        path: `${path}.weights.path`,
        reason: `Pod Security forbids host paths: builds and servers of ${name} read weights below /store/ only, in the claim of the engine store.`,
        fix: `Copy them into the claim, and write /store/own/${name}.`,
      };
    }
    return [];
  }),
} satisfies Checks<CheckedStack<ClusterConfig>>;

function configOf<T extends { readonly name: string }>(list: readonly T[], name: string): T | undefined {
  return list.find((entry) => entry.name === name);
}

/** Whether pods of one pool could be scheduled on machines of the other, whose GPU can't run their engines. */
function couldMeet({ pools }: ClusterConfig, a: PoolSpec, b: PoolSpec): boolean {
  if (a.gpu?.name === b.gpu?.name && a.sharing.mode === b.sharing.mode) return false;
  const [ofA, ofB] = [configOf(pools, a.name), configOf(pools, b.name)];
  const resourceOf = (pool: PoolSpec, own: typeof ofA) => gpuResource(pool.sharing, own?.gpuResource ?? null);
  if (resourceOf(a, ofA) !== resourceOf(b, ofB)) return false;
  const labels = ofB?.nodeSelector ?? {};
  return Object.entries(ofA?.nodeSelector ?? {}).every(([key, value]) => (labels[key] ?? value) === value);
}
