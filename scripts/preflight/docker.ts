/** What a Docker host has of a stack's needs: from its plan, and from what its engine and the machine say. Nothing is changed. */
import type { DockerGpuPlan } from "../../infra/plan/gpu-stack.ts";
import { buildDiskGiB, buildRequest, storedGiB } from "../../infra/plan/pool-space.ts";
import { GB_PER_GIB } from "../../infra/plan/units.ts";
import { downloadGB, missingImages } from "../images/image-states.ts";
import type { DockerTarget } from "../program/targets.ts";
import { type DiskNeed, diskFindings, type HostSpace } from "./disk-check.ts";
import { type EngineReading, engineFinding, readDocker } from "./docker-reading.ts";
import { type Finding, isOlder, noShell, problem, warning } from "./finding.ts";
import { type GpuNeeds, gpuFindings, usedGpus } from "./gpu.ts";
import type { HostProbe } from "./host-probe.ts";
import { type MachineReading, readMachine } from "./machine-reading.ts";

/** @returns What is wrong; where the engine gives no answer, that alone. */
export async function dockerPreflight(target: DockerTarget, probe: HostProbe): Promise<readonly Finding[]> {
  const { uri } = target.plan.host;
  const engine = await readDocker(probe);
  if (engine.kind !== "engine") return [engineFinding(uri, engine)];
  const needs = dockerNeeds(target, engine.images);
  const paths = [engine.rootDirectory, ...needs.disk.flatMap(({ path }) => (path === null ? [] : [path]))];
  const machine = await readMachine(probe, [...new Set(paths)]);
  if ("unreachable" in machine) return [noShell(uri, machine.unreachable)];
  return dockerFindings(needs, { engine, machine });
}

interface DockerNeeds {
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

/** @param onHost - Images that the host has, as `docker image ls` names them. */
function dockerNeeds(target: DockerTarget, onHost: ReadonlySet<string>): DockerNeeds {
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

interface DockerHostReading {
  readonly engine: EngineReading;
  readonly machine: MachineReading;
}

type Check = (needs: DockerNeeds, host: DockerHostReading) => readonly Finding[];

const CHECKS: Readonly<Record<string, Check>> = {
  architecture: (_, { machine }) =>
    ["x86_64", "aarch64"].includes(machine.architecture)
      ? []
      : [
          problem(
            "architecture",
            `The host is ${machine.architecture}.`,
            "The images are made for x86_64 and aarch64.",
            "Use another host.",
          ),
        ],

  engineVersion: (needs, { engine }) => {
    const least = leastEngine(needs);
    if (!isOlder(engine.version, least.version)) return [];
    return [
      problem(
        "engineVersion",
        `The Docker engine is ${engine.version}.`,
        `The stack needs ${least.version}: ${least.why}.`,
        "Update it (https://docs.docker.com/engine/install/).",
      ),
    ];
  },

  toolkit: ({ gpu }, { engine, machine }) => {
    if (gpu === null || engine.runtimes.includes("nvidia") || machine.hasNvidiaHook) return [];
    const devices = engine.cdiDevices.filter((id) => id.startsWith("nvidia.com/gpu"));
    if (devices.length > 0 && !isOlder(engine.version, GPUS_BY_CDI)) return [];
    return [
      problem(
        "toolkit",
        "Docker can't hand GPUs to containers: the NVIDIA Container Toolkit is missing or not configured.",
        `The engine has the runtimes ${engine.runtimes.join(", ") || "(none)"} and ${devices.length} GPUs by CDI.`,
        "Install nvidia-container-toolkit, then `sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker`.",
      ),
    ];
  },

  gpus: ({ gpu }, { machine }) => (gpu === null ? [] : gpuFindings(gpu, machine)),

  busyGpus: ({ gpu, stack }, { machine, engine }) => {
    if (gpu === null || machine.gpus === null || isUp(stack, engine)) return [];
    return usedGpus(gpu, machine.gpus)
      .filter(({ usedMiB, memoryMiB }) => usedMiB > memoryMiB * IDLE_FRACTION)
      .map(({ index, usedMiB, memoryMiB }) =>
        warning(
          "busyGpus",
          `Others use GPU ${index}.`,
          `${usedMiB} of its ${memoryMiB} MiB are taken, and the plan counts on all of them.`,
          "`nvidia-smi` on the host says who; end that, or give the models other GPUs with models[].gpuIndices.",
        ),
      );
  },

  ports: ({ ports, stack }, { machine, engine }) => {
    const own = new Set(engine.containers.filter((one) => one.stack === stack).flatMap((one) => one.ports));
    return ports
      .filter(({ port }) => machine.listening.has(port) && !own.has(port))
      .map(({ port, container }) => {
        const holder = engine.containers.find((one) => one.ports.includes(port));
        return problem(
          "ports",
          `Port ${port} is in use.`,
          `${container} is to be published there, and ${holder === undefined ? "a process of the host" : `the container ${holder.name}`} listens on it.`,
          "End that, or give the stack another port (gateway.port, models[].ports, encoders.ports, databasePorts).",
        );
      });
  },

  memory: ({ memoryMiB, stack }, { machine: { availableMiB }, engine }) =>
    memoryMiB === null || availableMiB === null || availableMiB >= memoryMiB || isUp(stack, engine)
      ? []
      : [
          warning(
            "memory",
            `${availableMiB} MiB of memory are free.`,
            `The largest build is estimated at ${memoryMiB} MiB.`,
            "End other programs, or use a machine with more memory.",
          ),
        ],

  disk: ({ disk, stack }, { machine, engine }) => {
    // What a stack that is up keeps in its store is there already; nobody can tell how much of the rest is.
    const needs = isUp(stack, engine) ? disk.filter(({ what }) => what.startsWith("image ")) : disk;
    return diskFindings(needs, spaceOf(machine, engine.rootDirectory));
  },

  rootless: ({ unlimitedMemlock }, { engine }) =>
    !unlimitedMemlock || !engine.isRootless
      ? []
      : [
          problem(
            "rootless",
            "The engine is rootless.",
            "The servers lock memory without limit (--ulimit memlock=-1), and a user's engine can't raise that limit.",
            "Use the system's engine, or raise the limit of the user who runs it to unlimited (`LimitMEMLOCK=infinity` of its unit).",
          ),
        ],

  limits: ({ runsMongo }, { machine: { limits } }) =>
    LEAST_LIMITS.filter(({ needsMongo }) => runsMongo || !needsMongo).flatMap(({ name, least, why }) => {
      const value = limits.get(name);
      if (value === undefined || value >= least) return [];
      return [
        warning(
          "limits",
          `${name} is ${value}.`,
          `${why}: ${least} or more.`,
          `\`sudo sysctl -w ${name}=${least}\`, and the same line in /etc/sysctl.d/ to keep it.`,
        ),
      ];
    }),
};

/** All that is wrong, in the order of the table. */
function dockerFindings(needs: DockerNeeds, host: DockerHostReading): readonly Finding[] {
  return Object.values(CHECKS).flatMap((check) => check(needs, host));
}

/**
 * First engine whose `--gpus` takes devices of the Container Device Interface where there is no other way
 * (https://github.com/moby/moby/pull/50228).
 */
const GPUS_BY_CDI = "29.0";

/** Memory that a driver, a display or a monitor takes of a GPU that nobody computes on. */
const IDLE_FRACTION = 0.05;

const LEAST_LIMITS = [
  {
    name: "vm.max_map_count",
    least: 102_400,
    why: "MongoDB maps two areas for each of its 51,200 connections, and warns at its start below that",
    needsMongo: true,
  },
  {
    name: "fs.inotify.max_user_instances",
    least: 128,
    why: "Every follower of a container's log takes one, and Linux's own default is enough for them",
    needsMongo: false,
  },
] as const;

function leastEngine({ buildsImages, gpu }: DockerNeeds): { version: string; why: string } {
  if (buildsImages) return { version: "20.10", why: "the Dockerfiles mount caches while they build" };
  if (gpu !== null) return { version: "19.03", why: "--gpus came with it" };
  return { version: "18.09", why: "docker over ssh:// came with it" };
}

function isUp(stack: string, { containers }: EngineReading): boolean {
  return containers.some((one) => one.stack === stack);
}

function spaceOf({ space }: MachineReading, rootDirectory: string): HostSpace {
  return (path) => space.get(path ?? rootDirectory);
}
