/** What a stack needs of its Docker host, from its plan. */
import type { DockerGpuPlan } from "../../infra/plan/gpu-stack.ts";
import { buildDiskGiB, buildRequest, storedGiB } from "../../infra/plan/pool-space.ts";
import { GB_PER_GIB } from "../../infra/plan/units.ts";
import { downloadGB, missingImages } from "../images/image-states.ts";
import type { DockerTarget } from "../program/docker-target.ts";

export interface DockerNeeds {
  /** Name of the stack: its own containers hold its ports with right. */
  readonly stack: string;
  readonly gpu: GpuNeeds | null;
  readonly ports: readonly { readonly port: number; readonly container: string }[];
  /** Room for what is not there yet. */
  readonly disk: readonly DiskNeed[];
  /** Images that the host builds itself. */
  readonly buildsImages: boolean;
  /** Containers may lock memory without limit. */
  readonly unlimitedMemlock: boolean;
  readonly runsMongo: boolean;
  /** The largest build, or the servers; null where nothing was planned. */
  readonly memoryMiB: number | null;
}

export interface GpuNeeds {
  /** Name of the catalogue. */
  readonly name: string;
  readonly count: number;
  readonly memoryGiB: number;
  /** Numbers that containers are given. */
  readonly indices: readonly number[];
  readonly release: string;
  readonly minimumDriver: string | null;
  readonly cuda: string | null;
}

export interface DiskNeed {
  readonly what: string;
  readonly gb: number;
  /** Folder of the host; null for where Docker keeps images and volumes. */
  readonly path: string | null;
}

/** @param onHost - Images that the host has, as `docker image ls` names them. */
export function dockerNeeds(target: DockerTarget, onHost: ReadonlySet<string>): DockerNeeds {
  const { plan, stack } = target;
  const missing = missingImages(target.stack.images, onHost);
  return {
    stack: target.name,
    gpu: plan.tier === "gpu" ? gpuNeeds(plan, target) : null,
    ports: stack.containers.flatMap(({ args: { name, ports } }) =>
      ports.flatMap(({ external }) => (external === undefined ? [] : [{ port: external, container: name }])),
    ),
    disk: [
      ...missing.map(({ name }) => ({
        what: `image ${name}`,
        gb: downloadGB(name, target.images, onHost),
        path: null,
      })),
      ...(plan.tier === "gpu" ? storeNeeds(plan) : []),
    ],
    buildsImages: missing.some(({ kind }) => kind === "build"),
    unlimitedMemlock: stack.containers.some(({ args }) =>
      args.ulimits?.some(({ name, hard }) => name === "memlock" && hard === -1),
    ),
    runsMongo: target.needed.includes("mongo"),
    memoryMiB:
      plan.tier === "gpu"
        ? Math.max(0, ...plan.models.map(({ spec }) => buildRequest(spec).memoryMiB))
        : null,
  };
}

function gpuNeeds({ release, spec }: DockerGpuPlan, { stack }: DockerTarget): GpuNeeds | null {
  const [pool] = spec.pools;
  if (pool === undefined || pool.gpu === null) return null;
  const indices = stack.containers.flatMap(({ gpus }) => (gpus === null || gpus === "all" ? [] : gpus));
  return {
    name: pool.gpu.name,
    count: pool.machine.gpus,
    memoryGiB: pool.gpu.memoryGiB,
    indices: [...new Set(indices)].sort((a, b) => a - b),
    release: release.tag,
    minimumDriver: release.minimumDriver,
    cuda: release.cuda,
  };
}

/** Weights and engines, each once; checkpoints of one build at a time. */
function storeNeeds({ models, host }: DockerGpuPlan): readonly DiskNeed[] {
  const kept = new Map(
    models.map(({ spec, engine }) => [
      engine?.key ?? `${spec.engine.model} ${spec.engine.weights.revision}`,
      storedGiB(spec),
    ]),
  );
  const stored = [...kept.values()].reduce((sum, gib) => sum + gib, 0);
  const checkpoints = models.flatMap(({ spec, engine }) =>
    engine === null ? [] : [buildDiskGiB(spec, spec.engine.release).checkpoint ?? 0],
  );
  return [
    { what: "weights and engines", gb: stored * GB_PER_GIB, path: host.storePath },
    { what: "checkpoints of a build", gb: Math.max(0, ...checkpoints) * GB_PER_GIB, path: null },
  ];
}
