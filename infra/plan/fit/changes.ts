/** Changes of one thing each that would make a placement fit. */
import { gpus } from "../catalogue/gpus.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { onDemandHourlyUsd, orderingHourlyUsd, PRICE_REGIONS } from "../catalogue/prices.ts";
import type { Gpu, MachineType, Quantization } from "../catalogue/types.ts";
import { dividesHeads, engineBytesGiB } from "../engine/engine-size.ts";
import { unsupportedReason } from "../engine/recipes.ts";
import type { EngineSpec, GpuSharing, GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import {
  buildPoolsBeside,
  fitsChanged,
  isOneEach,
  type Situation,
  withEngine,
  withMachine,
  withoutIndices,
  withServing,
  withSharing,
} from "./changed-stack.ts";
import { usableGiB } from "./gpu-memory.ts";
import { showGiB } from "./numbers.ts";

const TENSOR_PARALLEL_STEPS = [2, 4, 8] as const;

/** Bits of a weight, to tell how much a quantization gives up. */
const WEIGHT_BITS: Readonly<Record<Quantization, number>> = { none: 16, int8: 8, fp8: 8, int4: 4 };

/** A change of the configuration; the machine stays. */
interface SettingChange {
  readonly change: string;
  /** Share that is given up of what there was, 0 to 1: bits of a weight, requests, pods of a GPU. */
  readonly givesUp: number;
}

/** A change of the machine, with or without a setting that needs it. */
interface MachineChange {
  readonly change: string;
  readonly instanceType: string;
}

/** What would fit on the machine that the pool has. */
export function settingChanges(situation: Situation): readonly SettingChange[] {
  return [
    ...smallerWeights(situation),
    ...fewerRequests(situation),
    ...moreRanksHere(situation),
    ...lessSharing(situation),
    ...freeNumbers(situation),
  ];
}

/** What would fit on another machine: the cheapest of each kind of GPU, and of the same kind with more GPUs. */
export function machineChanges(situation: Situation): readonly MachineChange[] {
  const { sharing } = situation.placement.pool;
  return [
    // A partitioned pool has profiles of its own on each kind of GPU.
    ...(sharing.mode === "mig"
      ? []
      : Object.values<Gpu>(gpus).flatMap((gpu) => cheapestOfKind(situation, gpu))),
    ...moreRanksElsewhere(situation),
    ...unsharedElsewhere(situation),
  ];
}

/** `name: ` where the placement has several tenants. */
function named({ placement }: Situation, model: ModelSpec, change: string): string {
  return placement.tenants.length > 1 ? `${model.serving.name}: ${change}` : change;
}

function smallerWeights(situation: Situation): readonly SettingChange[] {
  return situation.models.flatMap((model) =>
    model.engine.row.quantizations.flatMap((quantization) => {
      const engine = { ...model.engine, quantization };
      const isSmaller = engineBytesGiB(engine).llmGiB < engineBytesGiB(model.engine).llmGiB;
      if (!isSmaller || !computes(situation.placement.gpu, engine)) return [];
      if (model.serving.runtime === "engine" && unsupportedReason(engine) !== null) return [];
      if (!fitsChanged(situation, withEngine(situation, model, { quantization }))) return [];
      return [
        {
          change: named(situation, model, `quantization: ${quantization}`),
          givesUp: 1 - WEIGHT_BITS[quantization] / WEIGHT_BITS[model.engine.quantization],
        },
      ];
    }),
  );
}

/** The most concurrent requests with which it fits, if there are any. */
function fewerRequests(situation: Situation): readonly SettingChange[] {
  return situation.models.flatMap((model) => {
    const { concurrentRequests: asked } = model.serving;
    const fitsWith = (concurrentRequests: number) =>
      fitsChanged(situation, withServing(situation, model, { concurrentRequests }));
    if (asked === 1 || !fitsWith(1)) return [];
    let [fitting, tooMany] = [1, asked];
    while (tooMany - fitting > 1) {
      const middle = Math.floor((fitting + tooMany) / 2);
      if (fitsWith(middle)) fitting = middle;
      else tooMany = middle;
    }
    return [
      {
        change: named(situation, model, `concurrentRequests: ${fitting}`),
        givesUp: 1 - fitting / asked,
      },
    ];
  });
}

/** The fewest ranks with which the model fits on the GPUs that the machine has. */
function moreRanksHere(situation: Situation): readonly SettingChange[] {
  for (const { model, tensorParallel, changed, words } of rankSteps(situation)) {
    if (model.engine.pipelineParallel * tensorParallel > situation.placement.pool.machine.gpus) continue;
    if (fitsChanged(situation, changed)) {
      return [{ change: words, givesUp: 1 - model.engine.tensorParallel / tensorParallel }];
    }
  }
  return [];
}

/** The fewest ranks with which the model fits on another machine, where the present one has too few GPUs for any. */
function moreRanksElsewhere(situation: Situation): readonly MachineChange[] {
  const { pool, gpu } = situation.placement;
  if (!gpu.supported || moreRanksHere(situation).length > 0) return [];
  for (const { changed, words } of rankSteps(situation)) {
    const found = machinesWith(situation.stack, pool, gpu).find(([name, type]) =>
      fitsChanged(situation, withMachine(changed, pool, name, type, gpu), true),
    );
    if (found === undefined) continue;
    const [instanceType, { gpus: count }] = found;
    return [{ change: `${words} on ${instanceType}: ${count} × ${gpu.name}`, instanceType }];
  }
  return [];
}

interface RankStep {
  readonly model: ModelSpec;
  readonly tensorParallel: number;
  readonly changed: GpuStackSpec;
  readonly words: string;
}

/** More ranks, for a model that has its GPUs to itself; GPU numbers are as many as ranks, and must go. */
function rankSteps(situation: Situation): readonly RankStep[] {
  const { placement, models } = situation;
  const [model] = models;
  if (model === undefined || placement.tenants.length > 1 || placement.pool.sharing.mode !== "none")
    return [];
  return TENSOR_PARALLEL_STEPS.flatMap((tensorParallel) => {
    if (tensorParallel <= model.engine.tensorParallel) return [];
    if (!dividesHeads(tensorParallel, model.engine.row.architecture)) return [];
    const split = withEngine(situation, model, { tensorParallel });
    const spread = withoutIndices(situation, split);
    const words = `tensorParallel: ${tensorParallel}`;
    return [
      spread === null
        ? { model, tensorParallel, changed: split, words }
        : { model, tensorParallel, changed: spread, words: `${words} without gpuIndices` },
    ];
  });
}

/** Fewer pods on each GPU, a larger partition, or the whole GPU for each pod. */
function lessSharing(situation: Situation): readonly SettingChange[] {
  const { stack, placement } = situation;
  const { pool, gpu } = placement;
  const fits = (sharing: GpuSharing) => fitsChanged(situation, withSharing(stack, pool, sharing));
  const { sharing } = pool;
  switch (sharing.mode) {
    case "none":
      return [];
    case "mig": {
      const ownGiB = gpu.migProfiles[sharing.profile] ?? 0;
      const larger = Object.entries(gpu.migProfiles)
        .filter(([, memoryGiB]) => memoryGiB > ownGiB)
        .sort(([, a], [, b]) => a - b)
        .find(([profile]) => fits({ mode: "mig", profile }));
      if (larger === undefined) return unshared(fits);
      const [profile, memoryGiB] = larger;
      return [{ change: `sharing.profile: ${profile}`, givesUp: 1 - ownGiB / memoryGiB }, ...unshared(fits)];
    }
    case "mps":
    case "timeSlicing": {
      // One replica is no sharing.
      for (let replicas = sharing.replicas - 1; replicas > 1; replicas -= 1) {
        if (!fits({ mode: sharing.mode, replicas })) continue;
        return [
          { change: `sharing.replicas: ${replicas}`, givesUp: 1 - replicas / sharing.replicas },
          ...unshared(fits),
        ];
      }
      return unshared(fits);
    }
  }
}

function unshared(fits: (sharing: GpuSharing) => boolean): readonly SettingChange[] {
  return fits({ mode: "none" }) ? [{ change: NO_SHARING, givesUp: 1 }] : [];
}

const NO_SHARING = "sharing.mode: none";

/** A machine with more GPUs of the same kind, where the present machines have too few for pods that do not share. */
function unsharedElsewhere(situation: Situation): readonly MachineChange[] {
  const { stack, placement } = situation;
  const { pool, gpu } = placement;
  if (!gpu.supported || pool.sharing.mode === "none") return [];
  const whole = withSharing(stack, pool, { mode: "none" });
  if (fitsChanged(situation, whole)) return [];
  const found = machinesWith(stack, pool, gpu).find(([name, type]) =>
    fitsChanged(situation, withMachine(whole, pool, name, type, gpu), true),
  );
  if (found === undefined) return [];
  const [instanceType, { gpus: count }] = found;
  return [{ change: `${NO_SHARING} on ${instanceType}: ${count} × ${gpu.name}, one each`, instanceType }];
}

/** GPU numbers that overlap, on a host that has GPUs for all. */
function freeNumbers(situation: Situation): readonly SettingChange[] {
  if (situation.placement.tenants.length === 1) return [];
  const spread = withoutIndices(situation, situation.stack);
  if (spread === null || !fitsChanged(situation, spread)) return [];
  return [{ change: "leave gpuIndices out: one GPU each", givesUp: 0 }];
}

function cheapestOfKind(situation: Situation, gpu: Gpu): readonly MachineChange[] {
  const { stack, placement } = situation;
  const { pool } = placement;
  if (!gpu.supported || !suitsOthers(situation, gpu)) return [];
  for (const [instanceType, type] of machinesWith(stack, pool, gpu)) {
    // More GPUs can keep tenants apart; otherwise a machine with the same GPU is none that helps.
    if (gpu.name === placement.gpu.name && type.gpus <= pool.machine.gpus) continue;
    const moved = withMachine(stack, pool, instanceType, type, gpu);
    for (const changed of [moved, withoutIndices(situation, moved)]) {
      if (changed === null || !fitsChanged(situation, changed, true)) continue;
      const oneEach = placement.tenants.length > 1 && isOneEach(situation, changed) ? ", one each" : "";
      const each = changed === moved ? oneEach : `${oneEach}, without gpuIndices`;
      const beside = gpu.name === placement.gpu.name ? [] : buildPoolsBeside(stack, pool);
      const builds = beside.length === 0 ? "" : `, in ${beside.join(" and ")} too`;
      return [
        {
          change: `${instanceType}: ${type.gpus} × ${gpu.name} with ${showGiB(gpu.memoryGiB)}${each}${builds}`,
          instanceType,
        },
      ];
    }
  }
  return [];
}

/** Whether all models of the pool compute on a kind of GPU, and those beside the placement get no less memory. */
function suitsOthers({ stack, placement, models }: Situation, gpu: Gpu): boolean {
  const { pool, gpu: present } = placement;
  const served = stack.models.filter((model) => model.pool === pool.name);
  return (
    served.every(({ engine }) => computes(gpu, engine)) &&
    (usableGiB(gpu) >= usableGiB(present) || served.length === models.length)
  );
}

/**
 * Instance types with a kind of GPU, in the order of their prices; of the same price, the one with fewest GPUs and CPUs
 * first. A region whose prices are known does not offer what it has no price for.
 */
function machinesWith(
  { region }: GpuStackSpec,
  pool: PoolSpec,
  gpu: Gpu,
): readonly (readonly [string, MachineType])[] {
  const isOffered = (instanceType: string) =>
    region === null ||
    !PRICE_REGIONS.includes(region) ||
    pool.capacity === "owned" ||
    onDemandHourlyUsd(region, instanceType) !== null;
  return Object.entries<MachineType>(machineTypes)
    .filter(([name, type]) => type.gpu === gpu.name && isOffered(name))
    .map(([name, type]) => ({ name, type, usd: orderingHourlyUsd(region, name) }))
    .sort((a, b) => compare(a.usd, b.usd) || a.type.gpus - b.type.gpus || a.type.vcpus - b.type.vcpus)
    .map(({ name, type }) => [name, type]);
}

/** Order of two prices, of which either may be infinite. */
export function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}

function computes(gpu: Gpu, { dtype, quantization }: Pick<EngineSpec, "dtype" | "quantization">): boolean {
  return gpu.formats.includes(dtype) && (quantization === "none" || gpu.formats.includes(quantization));
}
