/** Which GPUs of the host each container uses. */
import { hostGpuIndices, worldSize } from "../fit/placement.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import type { ModelSpec, PoolSpec } from "../spec.ts";
import type { DockerContainer } from "./container-args.ts";

/** The one pool of the plan. */
export function hostPool({ spec }: DockerGpuPlan): PoolSpec {
  const [pool] = spec.pools;
  if (pool === undefined) throw new Error("A planned stack on a Docker host has a host.");
  return pool;
}

/** Numbers of the GPUs that a model's server takes, as the plan of their memory has them. */
export function modelGpus(plan: DockerGpuPlan, model: ModelSpec): readonly number[] {
  return gpusOf(plan, (container) => container.model?.serving.name === model.serving.name);
}

/** Numbers of the GPUs of the encoders; none where they run on the CPU. */
export function encoderGpus(plan: DockerGpuPlan): readonly number[] {
  return gpusOf(plan, (container) => container.model === null);
}

function gpusOf(
  plan: DockerGpuPlan,
  isMeant: (container: ReturnType<typeof hostGpuIndices>[number]) => boolean,
): readonly number[] {
  return hostGpuIndices(plan.spec, hostPool(plan)).find(isMeant)?.indices ?? [];
}

/** GPUs that build a model's engine: such that nobody serves from, or else the server's own, which is then away. */
export function buildGpus(plan: DockerGpuPlan, model: ModelSpec): readonly number[] {
  const pool = hostPool(plan);
  const serving = new Set(hostGpuIndices(plan.spec, pool).flatMap(({ indices }) => indices));
  const free = Array.from({ length: pool.machine.gpus }, (_, index) => index).filter(
    (index) => !serving.has(index),
  );
  const needed = worldSize(model);
  return needed <= free.length ? free.slice(0, needed) : modelGpus(plan, model);
}

/** On a machine with one GPU it needs no number, as in the documents. */
export function gpuOption(plan: DockerGpuPlan, indices: readonly number[]): DockerContainer["gpus"] {
  if (indices.length === 0) return null;
  return hostPool(plan).machine.gpus === 1 ? "all" : indices;
}
