/** Everything that can be wrong with a Docker host, one check each: from what the stack needs and what the host says. */

import { diskFindings, type HostSpace } from "./disk-check.ts";
import type { DockerNeeds, GpuNeeds } from "./docker-needs.ts";
import type { DockerReading, EngineReading } from "./docker-reading.ts";
import { type Finding, isOlder } from "./finding.ts";
import { catalogueName, driverVerdict } from "./gpu-facts.ts";
import type { GpuReading, MachineReading } from "./machine-reading.ts";

export interface DockerHostReading {
  readonly uri: string;
  readonly engine: EngineReading;
  readonly machine: MachineReading;
}

/** Check of an engine that gave no answer: what went wrong before anything could be asked. */
export function engineFinding(uri: string, reading: Exclude<DockerReading, EngineReading>): Finding {
  const where = uri.startsWith("ssh:") ? `on the other side of ${uri}` : `at ${uri}`;
  switch (reading.kind) {
    case "noCli":
      return problem(
        "docker",
        "This machine has no `docker` command.",
        `It was looked for on the PATH (${reading.words}), and asks the engine ${where}.`,
        "Install Docker's CLI (https://docs.docker.com/engine/install/).",
      );
    case "denied":
      return problem(
        "docker",
        `You have no rights on the Docker engine ${where}.`,
        reading.words,
        "Add the user to the group docker (`sudo usermod -aG docker USER`, then log in again): that is as good as root.",
      );
    case "unreachable":
      // What the CLI calls the engine behind a connection by ssh that stands.
      if (reading.words.includes("docker.example.com")) {
        return problem(
          "docker",
          `No Docker engine answers ${where}.`,
          "ssh connects, and nobody answers at the socket that Docker has there.",
          "Start it there (`sudo systemctl start docker`).",
        );
      }
      return problem(
        "docker",
        `No Docker engine answers ${where}.`,
        reading.words,
        uri.startsWith("ssh:")
          ? "Try `ssh -o BatchMode=yes` to it, which must work without a password, and `docker info` there."
          : "Start it (`sudo systemctl start docker`), or correct host.uri of the stack file.",
      );
  }
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
export function dockerFindings(needs: DockerNeeds, host: DockerHostReading): readonly Finding[] {
  return Object.values(CHECKS).flatMap((check) => check(needs, host));
}

/**
 * First engine whose `--gpus` takes devices of the Container Device Interface where there is no other way
 * (https://github.com/moby/moby/pull/50228).
 */
const GPUS_BY_CDI = "29.0";

/** Memory that a driver, a display or a monitor takes of a GPU that nobody computes on. */
const IDLE_FRACTION = 0.05;

/** Memory by nvidia-smi and by the EC2 API differ by less; a smaller card of the same name by more. */
const MEMORY_TOLERANCE = 0.05;

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

function gpuFindings(gpu: GpuNeeds, { gpus, gpuWords }: MachineReading): readonly Finding[] {
  if (gpus === null) {
    return [
      problem(
        "gpus",
        "nvidia-smi does not answer on the host.",
        `The stack needs ${gpu.count} × ${gpu.name}, and the driver${gpuWords === "" ? " is not to be seen" : ` says: ${gpuWords}`}.`,
        "Install NVIDIA's driver, and try `nvidia-smi` there.",
      ),
    ];
  }
  return [
    ...countFinding(gpu, gpus),
    ...usedGpus(gpu, gpus).flatMap((one) => oneGpuFindings(gpu, one)),
    ...driverFinding(gpu, gpus),
  ];
}

function countFinding({ count, name, indices }: GpuNeeds, gpus: readonly GpuReading[]): readonly Finding[] {
  const there = new Set(gpus.map(({ index }) => index));
  const missing = indices.filter((index) => !there.has(index));
  if (gpus.length >= count && missing.length === 0) return [];
  return [
    problem(
      "gpus",
      `The host has ${gpus.length === 1 ? "1 GPU" : `${gpus.length} GPUs`}.`,
      missing.length === 0
        ? `The stack file describes ${count} × ${name}.`
        : `Containers are given the GPUs ${indices.join(", ")}, and ${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} not there.`,
      "Correct host.instanceType or host.machine, and models[].gpuIndices, of the stack file.",
    ),
  ];
}

function oneGpuFindings(needed: GpuNeeds, gpu: GpuReading): readonly Finding[] {
  const known = catalogueName(gpu.name);
  if (known !== needed.name) {
    return [
      problem(
        "gpus",
        `GPU ${gpu.index} is ${gpu.name}.`,
        `The stack is planned for ${needed.name}, and a TensorRT engine runs only on the kind of GPU that it was built for.`,
        known === undefined
          ? "Use a host with that GPU."
          : `Write \`gpu: ${known}\` under host.machine, or the instance type that has it.`,
      ),
    ];
  }
  const plannedMiB = needed.memoryGiB * 1024;
  return [
    ...(gpu.memoryMiB >= plannedMiB * (1 - MEMORY_TOLERANCE)
      ? []
      : [
          problem(
            "gpus",
            `GPU ${gpu.index} has ${gpu.memoryMiB} MiB.`,
            `The stack is planned for ${needed.name} with ${Math.round(plannedMiB)} MiB.`,
            "Use a host with that GPU.",
          ),
        ]),
    ...(gpu.isPartitioned
      ? [
          problem(
            "gpus",
            `GPU ${gpu.index} is in MIG mode.`,
            "A container that gets it gets its partitions, and the stack is planned for the whole GPU.",
            `\`sudo nvidia-smi -i ${gpu.index} -mig 0\` on the host, while nobody uses it.`,
          ),
        ]
      : []),
  ];
}

/** One driver serves all GPUs of a machine. */
function driverFinding(
  { minimumDriver, release, cuda }: GpuNeeds,
  [gpu]: readonly GpuReading[],
): readonly Finding[] {
  if (gpu === undefined || minimumDriver === null) return [];
  const verdict = driverVerdict(gpu.driver, minimumDriver, catalogueName(gpu.name));
  const why = `Release ${release} has CUDA ${cuda ?? "of an unknown version"} and needs ${minimumDriver}`;
  switch (verdict) {
    case "new enough":
      return [];
    case "forward compatible":
      return [
        warning(
          "driver",
          `The driver is ${gpu.driver}.`,
          `${why}; its image brings a compatibility package, which NVIDIA supports on data-centre GPUs such as ${gpu.name}.`,
          `Nothing, if the first build succeeds; else install driver ${minimumDriver} or newer.`,
        ),
      ];
    case "too old":
      return [
        problem(
          "driver",
          `The driver is ${gpu.driver}.`,
          `${why}; the image's compatibility package does not cover ${gpu.name} with this driver.`,
          `Install driver ${minimumDriver} or newer, or choose an older release (docs/support-matrix.md).`,
        ),
      ];
  }
}

/** GPUs that containers are given: by number, or all that were planned for. */
function usedGpus({ indices, count }: GpuNeeds, gpus: readonly GpuReading[]): readonly GpuReading[] {
  return indices.length > 0 ? gpus.filter(({ index }) => indices.includes(index)) : gpus.slice(0, count);
}

function isUp(stack: string, { containers }: EngineReading): boolean {
  return containers.some((one) => one.stack === stack);
}

function spaceOf({ space }: MachineReading, rootDirectory: string): HostSpace {
  return (path) => space.get(path ?? rootDirectory);
}

function problem(check: string, what: string, why: string, fix: string): Finding {
  return { severity: "problem", check, what, why, fix };
}

function warning(check: string, what: string, why: string, fix: string): Finding {
  return { severity: "warning", check, what, why, fix };
}
