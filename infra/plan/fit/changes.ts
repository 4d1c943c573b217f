/** Changes of one thing each that would make a placement fit. */
import { gpus } from "../catalogue/gpus.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { onDemandHourlyUsd, orderingHourlyUsd, PRICE_REGIONS } from "../catalogue/prices.ts";
import type { Gpu, MachineType, Quantization } from "../catalogue/types.ts";
import { dividesHeads, engineBytesGiB } from "../engine/engine-size.ts";
import { unsupportedReason } from "../engine/recipes.ts";
import type { EngineSpec, GpuSharing, GpuStackSpec, ModelSpec } from "../spec.ts";
import { showGiB } from "../units.ts";
import {
  buildPoolsBeside,
  fitsChanged,
  isOneEach,
  type Situation,
  situationOf,
  withMachine,
  withModel,
  withoutIndices,
  withPools,
} from "./changed-stack.ts";
import { usableGiB } from "./gpu-memory.ts";
import { type Placement, worldSize } from "./placement.ts";

const TENSOR_PARALLEL_STEPS = [2, 4, 8] as const;

/** Bits of a weight, to tell how much a quantization gives up. */
const WEIGHT_BITS: Readonly<Record<Quantization, number>> = { none: 16, int8: 8, fp8: 8, int4: 4 };

export interface Change {
  /** As the stack file has it. */
  readonly change: string;
  /** null: a machine that is described by its parts stays. */
  readonly instanceType: string | null;
  /** Share of what there was, 0 to 1: bits of a weight, requests, pods of a GPU; 0 for another machine. */
  readonly givesUp: number;
}

/** A change that has to be tried. */
interface Candidate {
  readonly change: string;
  readonly givesUp: number;
  readonly stack: GpuStackSpec;
}

/** What would fit on the machine that the pool has. */
export function settingChanges(stack: GpuStackSpec, placement: Placement): readonly Change[] {
  const situation = situationOf(stack, placement);
  const { instanceType, machine } = placement.pool;
  return [
    ...situation.models.flatMap((model) => smallerWeights(situation, model)),
    ...situation.models.map((model) => fewerRequests(situation, model)),
    moreRanks(situation).filter(({ ranks }) => ranks <= machine.gpus),
    lessSharing(situation),
    unshared(situation),
    freeNumbers(situation),
  ].flatMap((candidates): readonly Change[] => {
    const found = candidates.find((candidate) => fitsChanged(situation, candidate.stack));
    return found === undefined ? [] : [{ change: found.change, instanceType, givesUp: found.givesUp }];
  });
}

/** What would fit on another machine: the cheapest of each kind of GPU, and of the same kind with more GPUs. */
export function machineChanges(stack: GpuStackSpec, placement: Placement): readonly Change[] {
  const situation = situationOf(stack, placement);
  const { pool, gpu } = placement;
  // A partitioned pool has profiles of its own on each kind of GPU.
  const kinds =
    pool.sharing.mode === "mig"
      ? []
      : Object.values<Gpu>(gpus).flatMap((kind) => cheapestOfKind(situation, kind));
  if (!gpu.supported) return kinds;
  // More GPUs, where the present machine has too few for more ranks or for pods that do not share.
  const elsewhere = [moreRanks(situation), unshared(situation)].flatMap((candidates): readonly Change[] => {
    const isHere = candidates.some((candidate) => fitsChanged(situation, candidate.stack));
    if (isHere) return [];
    for (const candidate of candidates) {
      const found = machinesWith(situation, gpu).find(([name, type]) =>
        fitsChanged(situation, withMachine(candidate.stack, pool, name, type, gpu), true),
      );
      if (found === undefined) continue;
      const [instanceType, { gpus: count }] = found;
      const each = pool.sharing.mode === "none" ? "" : ", one each";
      const change = `${candidate.change} on ${instanceType}: ${count} × ${gpu.name}${each}`;
      return [{ change, instanceType, givesUp: 0 }];
    }
    return [];
  });
  return [...kinds, ...elsewhere];
}

/** `name: ` where the placement has several tenants. */
function named({ placement }: Situation, model: ModelSpec, change: string): string {
  return placement.tenants.length > 1 ? `${model.serving.name}: ${change}` : change;
}

/** Each smaller quantization by itself. */
function smallerWeights(situation: Situation, model: ModelSpec): readonly (readonly Candidate[])[] {
  const { engine, serving } = model;
  return engine.row.quantizations
    .filter((quantization) => {
      const smaller = { ...engine, quantization };
      return (
        engineBytesGiB(smaller).llmGiB < engineBytesGiB(engine).llmGiB &&
        computes(situation.placement.gpu, smaller) &&
        (serving.runtime !== "engine" || unsupportedReason(smaller) === null)
      );
    })
    .map((quantization) => [
      {
        change: named(situation, model, `quantization: ${quantization}`),
        givesUp: 1 - WEIGHT_BITS[quantization] / WEIGHT_BITS[engine.quantization],
        stack: withModel(situation.stack, model, { engine: { quantization } }),
      },
    ]);
}

/** The most concurrent requests with which it fits, if there are any. */
function fewerRequests(situation: Situation, model: ModelSpec): readonly Candidate[] {
  const asked = model.serving.concurrentRequests;
  const withRequests = (concurrentRequests: number): Candidate => ({
    change: named(situation, model, `concurrentRequests: ${concurrentRequests}`),
    givesUp: 1 - concurrentRequests / asked,
    stack: withModel(situation.stack, model, { serving: { concurrentRequests } }),
  });
  let [fitting, tooMany] = [0, asked];
  while (tooMany - fitting > 1) {
    const middle = Math.floor((fitting + tooMany) / 2);
    if (fitsChanged(situation, withRequests(middle).stack)) fitting = middle;
    else tooMany = middle;
  }
  return fitting === 0 ? [] : [withRequests(fitting)];
}

/** More ranks, the fewest first, for a model that has its GPUs to itself; GPU numbers are as many as ranks, and must go. */
function moreRanks(situation: Situation): readonly (Candidate & { readonly ranks: number })[] {
  const { placement, models, stack } = situation;
  const [model] = models;
  if (model === undefined || placement.tenants.length > 1 || placement.pool.sharing.mode !== "none")
    return [];
  const { engine } = model;
  return TENSOR_PARALLEL_STEPS.filter(
    (step) => step > engine.tensorParallel && dividesHeads(step, engine.row.architecture),
  ).map((tensorParallel) => {
    const split = withModel(stack, model, { engine: { tensorParallel } });
    const spread = withoutIndices(situation, split);
    return {
      change: `tensorParallel: ${tensorParallel}${spread === null ? "" : " without gpuIndices"}`,
      givesUp: 1 - engine.tensorParallel / tensorParallel,
      stack: spread ?? split,
      ranks: (worldSize(model) / engine.tensorParallel) * tensorParallel,
    };
  });
}

/** Fewer pods on each GPU, or a larger partition; the smallest change first. */
function lessSharing(situation: Situation): readonly Candidate[] {
  const { pool, gpu } = situation.placement;
  const { sharing } = pool;
  const shared = (change: string, givesUp: number, less: GpuSharing): Candidate => ({
    change,
    givesUp,
    stack: withPools(situation.stack, [pool.name], { sharing: less }),
  });
  switch (sharing.mode) {
    case "none":
      return [];
    case "mig": {
      const ownGiB = gpu.migProfiles[sharing.profile] ?? 0;
      return Object.entries(gpu.migProfiles)
        .filter(([, memoryGiB]) => memoryGiB > ownGiB)
        .sort(([, a], [, b]) => a - b)
        .map(([profile, memoryGiB]) =>
          shared(`sharing.profile: ${profile}`, 1 - ownGiB / memoryGiB, { mode: "mig", profile }),
        );
    }
    case "mps":
    case "timeSlicing":
      // One replica is no sharing.
      return Array.from({ length: Math.max(0, sharing.replicas - 2) }, (_, index) => {
        const replicas = sharing.replicas - 1 - index;
        const givesUp = 1 - replicas / sharing.replicas;
        return shared(`sharing.replicas: ${replicas}`, givesUp, { mode: sharing.mode, replicas });
      });
  }
}

/** The whole GPU for each pod. */
function unshared({ stack, placement: { pool } }: Situation): readonly Candidate[] {
  if (pool.sharing.mode === "none") return [];
  const whole = withPools(stack, [pool.name], { sharing: { mode: "none" } });
  return [{ change: "sharing.mode: none", givesUp: 1, stack: whole }];
}

/** GPU numbers that overlap, on a host that has GPUs for all. */
function freeNumbers(situation: Situation): readonly Candidate[] {
  const spread = situation.placement.tenants.length > 1 ? withoutIndices(situation, situation.stack) : null;
  return spread === null ? [] : [{ change: "leave gpuIndices out: one GPU each", givesUp: 0, stack: spread }];
}

function cheapestOfKind(situation: Situation, gpu: Gpu): readonly Change[] {
  const { stack, placement } = situation;
  const { pool } = placement;
  if (!gpu.supported || !suitsOthers(situation, gpu)) return [];
  for (const [instanceType, type] of machinesWith(situation, gpu)) {
    // A machine with the same GPU only helps with more of them, which can keep tenants apart.
    if (gpu.name === placement.gpu.name && type.gpus <= pool.machine.gpus) continue;
    const moved = withMachine(stack, pool, instanceType, type, gpu);
    const spread = withoutIndices(situation, moved);
    const changed = [moved, ...(spread === null ? [] : [spread])].find((candidate) =>
      fitsChanged(situation, candidate, true),
    );
    if (changed === undefined) continue;
    const oneEach = placement.tenants.length > 1 && isOneEach(situation, changed) ? ", one each" : "";
    const numbers = changed === moved ? "" : ", without gpuIndices";
    const beside = buildPoolsBeside(stack, pool, gpu);
    const builds = beside.length === 0 ? "" : `, in ${beside.join(" and ")} too`;
    const machine = `${instanceType}: ${type.gpus} × ${gpu.name} with ${showGiB(gpu.memoryGiB)}`;
    return [{ change: `${machine}${oneEach}${numbers}${builds}`, instanceType, givesUp: 0 }];
  }
  return [];
}

/** Whether all models of the pool compute on a kind of GPU, and those beside the placement get no less memory. */
function suitsOthers({ stack, placement, models }: Situation, gpu: Gpu): boolean {
  const served = stack.models.filter((model) => model.pool === placement.pool.name);
  return (
    served.every(({ engine }) => computes(gpu, engine)) &&
    (usableGiB(gpu) >= usableGiB(placement.gpu) || served.length === models.length)
  );
}

/**
 * Instance types with a kind of GPU, in the order of their prices; of the same price, the one with fewest GPUs and CPUs
 * first. A region whose prices are known does not offer what it has no price for.
 */
function machinesWith(
  { stack: { region }, placement: { pool } }: Situation,
  gpu: Gpu,
): readonly (readonly [string, MachineType])[] {
  const isOffered = (instanceType: string) =>
    region === null ||
    !PRICE_REGIONS.includes(region) ||
    pool.capacity === "owned" ||
    onDemandHourlyUsd(region, instanceType) !== null;
  const usd = (instanceType: string) => orderingHourlyUsd(region, instanceType);
  return Object.entries<MachineType>(machineTypes)
    .filter(([name, type]) => type.gpu === gpu.name && isOffered(name))
    .sort(
      ([a, one], [b, other]) =>
        comparePrices(usd(a), usd(b)) || one.gpus - other.gpus || one.vcpus - other.vcpus,
    );
}

/** Order of two prices, of which either may be infinite. */
export function comparePrices(a: number, b: number): number {
  return a === b ? 0 : a - b;
}

function computes(gpu: Gpu, { dtype, quantization }: Pick<EngineSpec, "dtype" | "quantization">): boolean {
  return gpu.formats.includes(dtype) && (quantization === "none" || gpu.formats.includes(quantization));
}
