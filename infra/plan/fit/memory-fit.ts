/** Whether all processes on a GPU fit its memory, and changes of the stack file with which they would. */
import { gpus } from "../catalogue/gpus.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { onDemandHourlyUsd, orderingHourlyUsd, PRICE_REGIONS } from "../catalogue/prices.ts";
import { computesQuantization, type Gpu, type MachineType } from "../catalogue/types.ts";
import { poolHourlyUsd } from "../cost/pool-price.ts";
import { dividesHeads, engineBytesGiB } from "../engine/engine-size.ts";
import { unsupportedReason } from "../engine/recipes.ts";
import { machineHolds, podsWithoutRoom } from "../pool-space.ts";
import type { EngineSpec, GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";
import { showGiB } from "../units.ts";
import { isMixed, usableGiB } from "./placement.ts";
import { type GpuFit, poolFits } from "./verdicts.ts";

/** One change of the stack file that makes all of a GPU fit, with the estimate's whole error to spare. */
interface Alternative {
  readonly change: string;
  /** One machine that it then runs on, in the stack's region; null if no price is known there. */
  readonly hourlyUsd: number | null;
}

export interface MemoryFit extends GpuFit {
  /** Settings for the pool's own machines first, those that need no other engine before the rest; then the cheapest machines. */
  readonly alternatives: readonly Alternative[];
}

/** Every GPU of the stack, with the most that can land on it, in the order of the pools. */
export function memoryFit(stack: GpuStackSpec): readonly MemoryFit[] {
  return stack.pools.flatMap((pool) => {
    const fits = poolFits(stack, pool);
    const unfit = fits.find(({ verdict }) => verdict !== "fits");
    if (unfit === undefined || pool.gpu === null) return fits.map((fit) => ({ ...fit, alternatives: [] }));
    const advice = adviser(stack, pool, pool.gpu);
    // Mixes differ in one pod, so that they fit together or not at all.
    const common = isMixed(stack, pool) ? advice(unfit.tenants) : null;
    return fits.map((fit) => ({
      ...fit,
      alternatives: fit.verdict === "fits" ? [] : (common ?? advice(fit.tenants)),
    }));
  });
}

/** A change of one thing, before it is known whether all fits then. */
interface Candidate {
  /** In the words of the stack file. */
  readonly change: string;
  readonly stack: GpuStackSpec;
  readonly pool: PoolSpec;
}

/** Enough to choose from. */
const MOST_ALTERNATIVES = 6;
const MOST_SETTINGS = 3;

/**
 * Finds changes that make all tenants of a GPU fit and leave no more pods and builds without room than there are: settings
 * such as a quantization or fewer promised requests, and the cheapest machine of each kind of GPU. No setting makes a server
 * run on a GPU that TensorRT-LLM does not support.
 */
function adviser(
  stack: GpuStackSpec,
  pool: PoolSpec,
  gpu: Gpu,
): (tenants: readonly string[]) => readonly Alternative[] {
  const machines = rentablePools(stack, pool);
  const served = stack.models.filter((model) => model.pool === pool.name);
  const withoutRoom = podsWithoutRoom(stack, pool);
  const hasRoom = ({ stack: changed, pool: on }: Omit<Candidate, "change">) =>
    (on.instanceType === pool.instanceType || machineHolds(changed, on)) &&
    podsWithoutRoom(changed, on) <= withoutRoom;
  const moves = machines
    .filter(
      (other) =>
        // A partitioned pool has profiles of its own on each kind of GPU.
        pool.sharing.mode !== "mig" &&
        usableGiB(other.gpu) >= usableGiB(gpu) &&
        served.every(({ engine }) => computes(other.gpu, engine)) &&
        hasRoom({ stack, pool: other }),
    )
    .map((other) => ({
      change: `${machineText(other)} with ${showGiB(other.gpu.memoryGiB)}${buildPoolsText(stack, pool, other.gpu)}`,
      stack,
      pool: other,
    }));
  const kinds = [...new Set(moves.map((move) => move.pool.gpu))];

  return (tenants) => {
    const names = new Set(tenants);
    const models = stack.models.filter(({ serving }) => names.has(serving.name));
    const spread = withoutIndices(stack, names);
    const suffix = spread === stack ? "" : ", without gpuIndices";
    const fits = (candidate: Candidate) => allFit(names, candidate);
    const fitsWithRoom = (candidate: Candidate) => fits(candidate) && hasRoom(candidate);

    const settings = models.flatMap((model) =>
      [...fewerRequests(stack, pool, model, fits), ...smallerWeights(stack, pool, model).filter(fits)].map(
        ({ change, ...changed }) => ({
          ...changed,
          change: tenants.length === 1 ? change : `${model.serving.name}: ${change}`,
        }),
      ),
    );
    const widened = [pool, ...machines.filter((other) => other.gpu.name === gpu.name)]
      .flatMap((on) => moreGpus(spread, pool, on, tenants.length === 1 ? models[0] : undefined))
      .map((candidate) => ({ ...candidate, change: candidate.change + suffix }))
      .find(fitsWithRoom);
    const moved = kinds.map((kind) =>
      moves
        .filter((move) => move.pool.gpu === kind)
        .map((move) => ({ ...move, change: move.change + suffix, stack: spread }))
        .find(spread === stack ? fits : fitsWithRoom),
    );

    const found = [...moved, ...(gpu.supported ? [...settings, widened] : [])].filter(
      (candidate) => candidate !== undefined,
    );
    const price = ({ pool: { instanceType } }: Candidate) =>
      machines.findIndex((machine) => machine.instanceType === instanceType);
    const isSetting = (candidate: Candidate) => candidate.pool.instanceType === pool.instanceType;
    const kept = found.filter(isSetting).slice(0, MOST_SETTINGS);
    const bought = found.filter((candidate) => !isSetting(candidate)).sort((a, b) => price(a) - price(b));
    return [...kept, ...bought]
      .slice(0, MOST_ALTERNATIVES)
      .map(({ change, pool: on }) => ({ change, hourlyUsd: poolHourlyUsd(stack, on) }));
  };
}

/** The pool on every machine with a supported GPU that its region has, the cheapest first. */
function rentablePools(
  { region }: GpuStackSpec,
  pool: PoolSpec,
): readonly (PoolSpec & { readonly gpu: Gpu })[] {
  const isPriced = region !== null && PRICE_REGIONS.includes(region) && pool.capacity !== "owned";
  const price = ({ instanceType }: PoolSpec) => orderingHourlyUsd(region, instanceType ?? "");
  return Object.entries<MachineType>(machineTypes)
    .flatMap(([instanceType, machine]) => {
      const gpu = (gpus as Readonly<Record<string, Gpu>>)[machine.gpu];
      // A region in the price table does not offer types without a price.
      const isOffered = !isPriced || onDemandHourlyUsd(region, instanceType) !== null;
      const rented = { instanceType, machine, capacity: "onDemand", hourlyUsd: undefined } as const;
      return gpu?.supported && isOffered ? [{ ...pool, ...rented, gpu }] : [];
    })
    .sort((a, b) => {
      const [usd, otherUsd] = [price(a), price(b)];
      if (usd !== otherUsd) return usd < otherUsd ? -1 : 1;
      return a.machine.gpus - b.machine.gpus || a.machine.vcpus - b.machine.vcpus;
    });
}

function machineText({ instanceType, machine: { gpus: count, gpu } }: PoolSpec): string {
  return `${instanceType}: ${count} × ${gpu}`;
}

/** An engine runs on the kind of GPU that built it, so pools that build for this one change with it. */
function buildPoolsText({ models }: GpuStackSpec, { name, gpu }: PoolSpec, other: Gpu): string {
  const names = models.flatMap(({ pool, buildPool, serving }) =>
    pool === name && buildPool !== name && serving.runtime === "engine" ? [buildPool] : [],
  );
  const isOther = names.length > 0 && other.name !== gpu?.name;
  return isOther ? `, in ${[...new Set(names)].join(" and ")} too` : "";
}

function computes(gpu: Gpu, { dtype, quantization }: EngineSpec): boolean {
  return gpu.formats.includes(dtype) && computesQuantization(gpu, quantization);
}

/** Whether all of the tenants have the verdict "fits" wherever they land. */
function allFit(names: ReadonlySet<string>, { stack, pool }: Candidate): boolean {
  const { models, encoders } = stack;
  // If the scheduler gives each pod a part of its own, the others are of no account.
  const isDivided = stack.runsOn === "cluster" && !isMixed(stack, pool);
  const alone = {
    ...stack,
    models: models.filter(({ serving }) => names.has(serving.name)),
    encoders: names.has("encoders") ? encoders : null,
  };
  const landed = poolFits(isDivided ? alone : stack, pool).filter(({ tenants }) =>
    tenants.some((tenant) => names.has(tenant)),
  );
  const placed = new Set(landed.flatMap(({ tenants }) => tenants));
  return [...names].every((name) => placed.has(name)) && landed.every(({ verdict }) => verdict === "fits");
}

function smallerWeights(stack: GpuStackSpec, pool: PoolSpec, model: ModelSpec): readonly Candidate[] {
  const { engine, serving } = model;
  return engine.row.quantizations
    .map((quantization) => ({ ...engine, quantization }))
    .filter(
      (smaller) =>
        engineBytesGiB(smaller).llmGiB < engineBytesGiB(engine).llmGiB &&
        computes(engine.target.gpu, smaller) &&
        (serving.runtime !== "engine" || unsupportedReason(smaller) === null),
    )
    .map((smaller) => ({
      change: `quantization: ${smaller.quantization}`,
      stack: withModel(stack, { ...model, engine: smaller }),
      pool,
    }));
}

/** The most concurrent requests with which it fits, if there are any. */
function fewerRequests(
  stack: GpuStackSpec,
  pool: PoolSpec,
  model: ModelSpec,
  fits: (candidate: Candidate) => boolean,
): readonly Candidate[] {
  const asked = model.serving.concurrentRequests;
  const withRequests = (concurrentRequests: number): Candidate => ({
    change: `concurrentRequests: ${concurrentRequests}`,
    stack: withModel(stack, { ...model, serving: { ...model.serving, concurrentRequests } }),
    pool,
  });
  let [fitting, tooMany] = [0, asked];
  while (tooMany - fitting > 1) {
    const middle = Math.floor((fitting + tooMany) / 2);
    if (fits(withRequests(middle))) fitting = middle;
    else tooMany = middle;
  }
  return fitting === 0 ? [] : [withRequests(fitting)];
}

/**
 * The whole GPU for each pod if GPUs are shared; otherwise more ranks for a model that has its GPUs to itself, the fewest
 * first. @param on The pool itself, or the pool on machines with more GPUs of the same kind.
 */
function moreGpus(
  stack: GpuStackSpec,
  pool: PoolSpec,
  on: PoolSpec,
  model: ModelSpec | undefined,
): readonly Candidate[] {
  const place = on === pool ? "" : ` on ${machineText(on)}`;
  if (pool.sharing.mode !== "none") {
    return [{ change: `sharing.mode: none${place}`, stack, pool: { ...on, sharing: { mode: "none" } } }];
  }
  if (model === undefined) return [];
  const { engine } = model;
  return [2, 4, 8]
    .filter((ranks) => ranks > engine.tensorParallel && dividesHeads(ranks, engine.row.architecture))
    .map((tensorParallel) => ({
      change: `tensorParallel: ${tensorParallel}${place}`,
      stack: withModel(stack, { ...model, engine: { ...engine, tensorParallel }, gpuIndices: undefined }),
      pool: on,
    }));
}

function withModel(stack: GpuStackSpec, changed: ModelSpec): GpuStackSpec {
  const { name } = changed.serving;
  return { ...stack, models: stack.models.map((model) => (model.serving.name === name ? changed : model)) };
}

/** The stack without GPU numbers of some tenants; unchanged if they have no numbers. */
function withoutIndices(stack: GpuStackSpec, names: ReadonlySet<string>): GpuStackSpec {
  const { models, encoders } = stack;
  const isNumbered = ({ serving, gpuIndices }: ModelSpec) =>
    gpuIndices !== undefined && names.has(serving.name);
  const isEncoders = encoders?.gpuIndices !== undefined && names.has("encoders");
  if (!isEncoders && !models.some(isNumbered)) return stack;
  return {
    ...stack,
    models: models.map((model) => (isNumbered(model) ? { ...model, gpuIndices: undefined } : model)),
    encoders: isEncoders ? { ...encoders, gpuIndices: undefined } : encoders,
  };
}
