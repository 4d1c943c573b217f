/** Changes of one thing each that would make a placement fit. */
import { gpus } from "../catalogue/gpus.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { onDemandHourlyUsd, orderingHourlyUsd, PRICE_REGIONS } from "../catalogue/prices.ts";
import type { Gpu, MachineType, Quantization } from "../catalogue/types.ts";
import { dividesHeads, engineBytesGiB } from "../engine/engine-size.ts";
import { unsupportedReason } from "../engine/recipes.ts";
import type { EngineSpec, GpuStackSpec, ModelSpec } from "../spec.ts";
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
import type { Placement } from "./placement.ts";

/** A changed stack, before it is known whether the placement fits there. */
interface Candidate {
  readonly stack: GpuStackSpec;
  /** In the words of the stack file. */
  readonly change: string;
  readonly details?: string;
  /** Another machine; absent: the pool's own. */
  readonly instanceType?: string;
  /** Share of what there was, 0 to 1: bits of a weight, requests, pods of a GPU; 0 for another machine. */
  readonly givesUp: number;
}

/**
 * Settings that would fit on the machine that the pool has, and other machines: the cheapest of each kind of GPU, and of the
 * same kind with more GPUs. No setting makes a server run on a GPU that TensorRT-LLM does not support.
 */
export function fittingChanges(
  stack: GpuStackSpec,
  placement: Placement,
): readonly {
  readonly change: string;
  readonly instanceType: string | undefined;
  readonly givesUp: number;
}[] {
  const situation = situationOf(stack, placement);
  const { models } = situation;
  const { sharing } = placement.pool;
  // A partitioned pool has profiles of its own on each kind of GPU.
  const kinds = sharing.mode === "mig" ? [] : Object.values<Gpu>(gpus);
  const groups = [
    ...kinds.map((gpu) => machinesOfKind(situation, gpu)),
    ...(placement.gpu.supported
      ? [
          ...models.flatMap((model) => smallerWeights(situation, model).map((candidate) => [candidate])),
          ...models.map((model) => fewerRequests(situation, model)),
          withMoreGpus(situation, moreRanks(situation)),
          withMoreGpus(situation, unshared(situation)),
        ]
      : []),
  ];
  return groups.flatMap((group) => {
    for (const { stack: changed, change, details = "", instanceType, givesUp } of group) {
      if (!fitsChanged(situation, changed, instanceType !== undefined)) continue;
      const isApart =
        instanceType !== undefined && placement.tenants.length > 1 && isOneEach(situation, changed);
      return [{ change: `${change}${isApart ? ", one each" : ""}${details}`, instanceType, givesUp }];
    }
    return [];
  });
}

/** `name: ` where the placement has several tenants. */
function named({ placement }: Situation, model: ModelSpec, change: string): string {
  return placement.tenants.length > 1 ? `${model.serving.name}: ${change}` : change;
}

/** Bits of a weight, to tell how much a quantization gives up. */
const WEIGHT_BITS: Readonly<Record<Quantization, number>> = { none: 16, int8: 8, fp8: 8, int4: 4 };

function smallerWeights(situation: Situation, model: ModelSpec): readonly Candidate[] {
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
    .map((quantization) => ({
      change: named(situation, model, `quantization: ${quantization}`),
      givesUp: 1 - WEIGHT_BITS[quantization] / WEIGHT_BITS[engine.quantization],
      stack: withModel(situation.stack, model, { engine: { quantization } }),
    }));
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

/** More ranks, the fewest first, for a model that has its GPUs to itself; GPU numbers are as many as ranks, and must be dropped. */
function moreRanks(situation: Situation): readonly Candidate[] {
  const { placement, models, stack } = situation;
  const [model] = models;
  if (model === undefined || placement.tenants.length > 1 || placement.pool.sharing.mode !== "none")
    return [];
  const { tensorParallel: present, row } = model.engine;
  return [2, 4, 8]
    .filter((tensorParallel) => tensorParallel > present && dividesHeads(tensorParallel, row.architecture))
    .map((tensorParallel) => {
      const split = withModel(stack, model, { engine: { tensorParallel } });
      const spread = withoutIndices(situation, split);
      return {
        change: `tensorParallel: ${tensorParallel}${spread === null ? "" : " without gpuIndices"}`,
        givesUp: 1 - present / tensorParallel,
        stack: spread ?? split,
      };
    });
}

/** The whole GPU for each pod. */
function unshared({ stack, placement: { pool } }: Situation): readonly Candidate[] {
  if (pool.sharing.mode === "none") return [];
  const whole = withPools(stack, [pool.name], { sharing: { mode: "none" } });
  return [{ change: "sharing.mode: none", givesUp: 1, stack: whole }];
}

/** Settings on the machine that the pool has, and then each on machines with more GPUs of the same kind. */
function* withMoreGpus(situation: Situation, settings: readonly Candidate[]): Generator<Candidate> {
  yield* settings;
  const { pool, gpu } = situation.placement;
  for (const { change, stack } of settings) {
    for (const [instanceType, type] of machinesWith(situation, gpu)) {
      yield {
        change: `${change} on ${instanceType}: ${type.gpus} × ${gpu.name}`,
        instanceType,
        givesUp: 0,
        stack: withMachine(stack, pool, instanceType, type, gpu),
      };
    }
  }
}

function* machinesOfKind(situation: Situation, gpu: Gpu): Generator<Candidate> {
  const { stack, placement } = situation;
  const { pool } = placement;
  if (!gpu.supported || !suitsOthers(situation, gpu)) return;
  const beside = buildPoolsBeside(stack, pool, gpu);
  const builds = beside.length === 0 ? "" : `, in ${beside.join(" and ")} too`;
  for (const [instanceType, type] of machinesWith(situation, gpu)) {
    // A machine with the same GPU only helps with more of them, which can keep tenants apart.
    if (gpu.name === placement.gpu.name && type.gpus <= pool.machine.gpus) continue;
    const moved = {
      change: `${instanceType}: ${type.gpus} × ${gpu.name} with ${showGiB(gpu.memoryGiB)}`,
      details: builds,
      instanceType,
      givesUp: 0,
      stack: withMachine(stack, pool, instanceType, type, gpu),
    };
    yield moved;
    const spread = withoutIndices(situation, moved.stack);
    if (spread !== null) yield { ...moved, details: `, without gpuIndices${builds}`, stack: spread };
  }
}

/** Whether all models of the pool compute on a kind of GPU, and those beside the placement get no less memory. */
function suitsOthers({ stack, placement, models }: Situation, gpu: Gpu): boolean {
  const served = stack.models.filter((model) => model.pool === placement.pool.name);
  return (
    served.every(({ engine }) => computes(gpu, engine)) &&
    (usableGiB(gpu) >= usableGiB(placement.gpu) || served.length === models.length)
  );
}

function computes(gpu: Gpu, { dtype, quantization }: Pick<EngineSpec, "dtype" | "quantization">): boolean {
  return gpu.formats.includes(dtype) && (quantization === "none" || gpu.formats.includes(quantization));
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
