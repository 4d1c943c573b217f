/** Stacks that differ in one thing, and whether the tenants of a placement would fit there. */
import type { Gpu, MachineType } from "../catalogue/types.ts";
import { crowding, machineHolds } from "../pool-space.ts";
import type { EngineSpec, GpuStackSpec, ModelSpec, PoolSpec, ServingSpec } from "../spec.ts";
import type { Placement } from "./placement.ts";
import { type Judged, verdicts } from "./verdicts.ts";

/** A placement of a stack that does not fit. */
export interface Situation {
  readonly stack: GpuStackSpec;
  readonly placement: Placement;
  /** Language models of the placement, each once. */
  readonly models: readonly ModelSpec[];
}

export function situationOf(stack: GpuStackSpec, placement: Placement): Situation {
  const models = placement.tenants.flatMap((tenant) => (tenant.kind === "rank" ? [tenant.model] : []));
  return { stack, placement, models: [...new Set(models)] };
}

/**
 * Whether all tenants of the placement have the verdict "fits" wherever they land in the changed stack, and no pod or build
 * is left without a GPU that had one before.
 *
 * @param isOtherMachine the machine itself must then hold what the pool serves and builds; a machine that stays is judged by
 *   the checks, whatever else is changed.
 */
export function fitsChanged(situation: Situation, changed: GpuStackSpec, isOtherMachine = false): boolean {
  const [before, after] = [situation.placement.pool, poolOfChanged(situation, changed)];
  if (isOtherMachine && !machineHolds(changed, after)) return false;
  const [was, is] = [crowding(situation.stack, before), crowding(changed, after)];
  if (is.homelessPods > was.homelessPods || is.waitingBuilds > was.waitingBuilds) return false;
  const landed = landings(situation, changed);
  const names = new Set(landed.flatMap(({ placement }) => placement.tenants.map(({ name }) => name)));
  return (
    situation.placement.tenants.every(({ name }) => names.has(name)) &&
    landed.every(({ verdict }) => verdict === "fits")
  );
}

/** Whether every tenant of the placement has a GPU to itself in the changed stack. */
export function isOneEach(situation: Situation, changed: GpuStackSpec): boolean {
  return landings(situation, changed).every(({ placement }) => placement.tenants.length === 1);
}

/** GPUs of the changed stack with a tenant of the placement. */
function landings(situation: Situation, changed: GpuStackSpec): readonly Judged[] {
  const names = tenantNames(situation);
  const pool = poolOfChanged(situation, changed);
  return verdicts({ ...changed, pools: [pool] }).filter(({ placement }) =>
    placement.tenants.some(({ name }) => names.has(name)),
  );
}

function tenantNames({ placement }: Situation): ReadonlySet<string> {
  return new Set(placement.tenants.map(({ name }) => name));
}

function poolOfChanged({ placement }: Situation, changed: GpuStackSpec): PoolSpec {
  return changed.pools.find(({ name }) => name === placement.pool.name) ?? placement.pool;
}

export function withModel(
  stack: GpuStackSpec,
  model: ModelSpec,
  change: { readonly engine?: Partial<EngineSpec>; readonly serving?: Partial<ServingSpec> },
): GpuStackSpec {
  const changed = {
    ...model,
    engine: { ...model.engine, ...change.engine },
    serving: { ...model.serving, ...change.serving },
  };
  return { ...stack, models: stack.models.map((other) => (other === model ? changed : other)) };
}

/** Pools with a change, and engines for the GPUs of the pools that serve them. */
export function withPools(
  stack: GpuStackSpec,
  names: readonly string[],
  change: Partial<PoolSpec>,
): GpuStackSpec {
  const pools = stack.pools.map((pool) => (names.includes(pool.name) ? { ...pool, ...change } : pool));
  return {
    ...stack,
    pools,
    models: stack.models.map((model) => {
      const pool = pools.find(({ name }) => name === model.pool);
      if (pool === undefined || pool.gpu === null) return model;
      const migProfile = pool.sharing.mode === "mig" ? pool.sharing.profile : undefined;
      return { ...model, engine: { ...model.engine, target: { gpu: pool.gpu, migProfile } } };
    }),
  };
}

/**
 * The pool on machines of another type. An engine runs on the kind of GPU that built it, so pools that build for it change
 * with it where the kind differs.
 */
export function withMachine(
  stack: GpuStackSpec,
  pool: PoolSpec,
  instanceType: string,
  machine: MachineType,
  gpu: Gpu,
): GpuStackSpec {
  return withPools(stack, [pool.name, ...buildPoolsBeside(stack, pool, gpu)], { instanceType, machine, gpu });
}

/** Other pools that build engines for models of a pool, where its GPUs become others. */
export function buildPoolsBeside(stack: GpuStackSpec, pool: PoolSpec, gpu: Gpu): readonly string[] {
  if (gpu.name === pool.gpu?.name) return [];
  const names = stack.models.flatMap(({ pool: serves, buildPool, serving }) =>
    serves === pool.name && buildPool !== pool.name && serving.runtime === "engine" ? [buildPool] : [],
  );
  return [...new Set(names)];
}

/** The stack without GPU numbers of the placement's tenants; null where they have none. */
export function withoutIndices(situation: Situation, stack: GpuStackSpec): GpuStackSpec | null {
  const names = tenantNames(situation);
  const numbered = stack.models.filter(({ serving, gpuIndices }) => gpuIndices && names.has(serving.name));
  const encoders = names.has("encoders") && stack.encoders?.gpuIndices ? stack.encoders : null;
  if (numbered.length === 0 && encoders === null) return null;
  return {
    ...stack,
    models: stack.models.map((model) =>
      numbered.includes(model) ? { ...model, gpuIndices: undefined } : model,
    ),
    encoders: encoders === null ? stack.encoders : { ...encoders, gpuIndices: undefined },
  };
}
