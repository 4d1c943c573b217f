/** What would hold the tenants of a GPU that is too small, cheapest first. */

import { gpus } from "../catalogue/gpus.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { onDemandHourlyUsd } from "../catalogue/prices.ts";
import type { Gpu, MachineType, Quantization } from "../catalogue/types.ts";
import { poolHourlyUsd } from "../cost/pool-price.ts";
import { engineBytesGiB } from "../engine/engine-size.ts";
import type { EngineSpec, GpuStackSpec, ModelSpec, ServingSpec } from "../spec.ts";
import { usableGiB } from "./gpu-memory.ts";
import { measure } from "./measure.ts";
import { showGiB } from "./numbers.ts";
import { type GpuTenant, type Placement, worldSize } from "./placement.ts";
import type { Alternative } from "./types.ts";

/** Enough to choose from; a table of every instance type is the price table. */
const MOST_ALTERNATIVES = 6;

const TENSOR_PARALLEL_STEPS = [2, 4, 8] as const;

/**
 * Changes of one thing each that make the placement fit with the estimate's whole error to spare: another machine, tensor
 * parallelism, a quantization that the model and the GPU have, fewer promised requests. Ranked by the machine's hourly price
 * in the stack's region; what has no price comes last.
 */
export function alternatives(stack: GpuStackSpec, placement: Placement): readonly Alternative[] {
  const found = [
    ...otherMachines(stack, placement),
    ...moreRanks(stack, placement),
    ...smallerWeights(stack, placement),
    ...fewerRequests(stack, placement),
  ];
  return found
    .sort((a, b) => (a.hourlyUsd ?? Infinity) - (b.hourlyUsd ?? Infinity) || (a.change < b.change ? -1 : 1))
    .slice(0, MOST_ALTERNATIVES);
}

function fits(tenants: readonly GpuTenant[], capacityGiB: number): boolean {
  const { needGiB, errorGiB } = measure(tenants, capacityGiB);
  return needGiB + errorGiB <= capacityGiB;
}

/** The cheapest machine of each other kind of GPU. A partitioned pool has profiles of its own on each, and is left out. */
function otherMachines(stack: GpuStackSpec, { pool, gpu, tenants }: Placement): readonly Alternative[] {
  const { sharing } = pool;
  if (sharing.mode === "mig") return [];
  const share = sharing.mode === "mps" ? sharing.replicas : 1;
  const ranks = Math.max(1, ...modelsOf(tenants).map(worldSize));
  return Object.values(gpus).flatMap((other) => {
    if (other.name === gpu.name || !other.supported) return [];
    if (!modelsOf(tenants).every(({ engine }) => computes(other, engine))) return [];
    if (!fits(tenants, usableGiB(other) / share)) return [];
    const machine = cheapestMachine(stack, other, ranks);
    if (machine === null) return [];
    return [
      {
        change: `${machine.instanceType}: ${machine.type.gpus} × ${other.name} with ${showGiB(other.memoryGiB)}`,
        instanceType: machine.instanceType,
        hourlyUsd: machine.hourlyUsd,
      },
    ];
  });
}

/** The fewest GPUs of the same kind over which the model fits; for a model that has its GPUs to itself. */
function moreRanks(stack: GpuStackSpec, placement: Placement): readonly Alternative[] {
  const [model, ...others] = modelsOf(placement.tenants);
  if (model === undefined || others.length > 0 || placement.tenants.length > 1) return [];
  if (placement.pool.sharing.mode !== "none") return [];
  for (const tensorParallel of TENSOR_PARALLEL_STEPS) {
    if (tensorParallel <= model.engine.tensorParallel || !splits(model, tensorParallel)) continue;
    const changed = withEngine(model, { tensorParallel });
    if (
      !fits(
        placement.tenants.map((tenant) => replaced(tenant, model, changed)),
        placement.capacityGiB,
      )
    )
      continue;
    const machine = cheapestMachine(stack, placement.gpu, worldSize(changed));
    if (machine === null) return [];
    return [
      {
        change: `tensorParallel: ${tensorParallel} on ${machine.instanceType}: ${machine.type.gpus} × ${placement.gpu.name}`,
        instanceType: machine.instanceType,
        hourlyUsd: machine.hourlyUsd,
      },
    ];
  }
  return [];
}

/** Heads divide by ranks; key-value heads divide, or are duplicated evenly. */
function splits({ engine }: ModelSpec, tensorParallel: number): boolean {
  const { heads, kvHeads } = engine.row.architecture;
  return heads % tensorParallel === 0 && (kvHeads % tensorParallel === 0 || tensorParallel % kvHeads === 0);
}

function smallerWeights(stack: GpuStackSpec, placement: Placement): readonly Alternative[] {
  return modelsOf(placement.tenants).flatMap((model) =>
    model.engine.row.quantizations.flatMap((quantization) => {
      const changed = withEngine(model, { quantization });
      const smaller = engineBytesGiB(changed.engine).llmGiB < engineBytesGiB(model.engine).llmGiB;
      if (!smaller || !computes(placement.gpu, changed.engine)) return [];
      const tenants = placement.tenants.map((tenant) => replaced(tenant, model, changed));
      if (!fits(tenants, placement.capacityGiB)) return [];
      return [onSameMachine(stack, placement, model, `quantization: ${quantization}`)];
    }),
  );
}

/** The most concurrent requests with which it fits, if there are any. */
function fewerRequests(stack: GpuStackSpec, placement: Placement): readonly Alternative[] {
  return modelsOf(placement.tenants).flatMap((model) => {
    const fitsWith = (concurrentRequests: number) => {
      const changed = withServing(model, { concurrentRequests });
      return fits(
        placement.tenants.map((tenant) => replaced(tenant, model, changed)),
        placement.capacityGiB,
      );
    };
    if (model.serving.concurrentRequests === 1 || !fitsWith(1)) return [];
    let [fitting, tooMany] = [1, model.serving.concurrentRequests];
    while (tooMany - fitting > 1) {
      const middle = Math.floor((fitting + tooMany) / 2);
      if (fitsWith(middle)) fitting = middle;
      else tooMany = middle;
    }
    return [onSameMachine(stack, placement, model, `concurrentRequests: ${fitting}`)];
  });
}

function onSameMachine(
  stack: GpuStackSpec,
  { pool, tenants }: Placement,
  model: ModelSpec,
  change: string,
): Alternative {
  return {
    change: tenants.length > 1 ? `${model.serving.name}: ${change}` : change,
    instanceType: pool.instanceType,
    hourlyUsd: poolHourlyUsd(stack, pool),
  };
}

/** The cheapest machine with enough GPUs of a kind; where nothing is priced, the one with the fewest GPUs and CPUs. */
function cheapestMachine(
  stack: GpuStackSpec,
  gpu: Gpu,
  leastGpus: number,
): { readonly instanceType: string; readonly type: MachineType; readonly hourlyUsd: number | null } | null {
  const candidates = Object.entries(machineTypes)
    .filter(([, type]) => type.gpu === gpu.name && type.gpus >= leastGpus)
    .map(([instanceType, type]) => ({
      instanceType,
      type,
      hourlyUsd: stack.region === null ? null : onDemandHourlyUsd(stack.region, instanceType),
    }))
    .sort(
      (a, b) =>
        (a.hourlyUsd ?? Infinity) - (b.hourlyUsd ?? Infinity) ||
        a.type.gpus - b.type.gpus ||
        a.type.vcpus - b.type.vcpus,
    );
  return candidates[0] ?? null;
}

function computes(gpu: Gpu, { dtype, quantization }: EngineSpec): boolean {
  return gpu.formats.includes(dtype) && (quantization === "none" || gpu.formats.includes(quantization));
}

/** Language models among the tenants, each once. */
function modelsOf(tenants: readonly GpuTenant[]): readonly ModelSpec[] {
  return [...new Set(tenants.flatMap((tenant) => (tenant.kind === "rank" ? [tenant.model] : [])))];
}

function replaced(tenant: GpuTenant, model: ModelSpec, by: ModelSpec): GpuTenant {
  return tenant.kind === "rank" && tenant.model === model ? { ...tenant, model: by } : tenant;
}

function withEngine(
  model: ModelSpec,
  change: { readonly tensorParallel?: number; readonly quantization?: Quantization },
): ModelSpec {
  return { ...model, engine: { ...model.engine, ...change } };
}

function withServing(model: ModelSpec, change: Pick<ServingSpec, "concurrentRequests">): ModelSpec {
  return { ...model, serving: { ...model.serving, ...change } };
}
