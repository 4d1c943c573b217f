/** Everything that can be wrong with a Docker host, one check each: from what the stack needs and what the host says. */
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { diskFindings, type HostSpace } from "./disk-check.ts";
import type { DockerNeeds } from "./docker-needs.ts";
import type { EngineReading, EngineSilence } from "./docker-reading.ts";
import { type Finding, isOlder, problem, warning } from "./finding.ts";
import { gpuFindings, usedGpus } from "./gpu-checks.ts";
import { sshDestination } from "./host-probe.ts";
import type { MachineReading } from "./machine-reading.ts";

export interface DockerHostReading {
  readonly uri: string;
  readonly engine: EngineReading;
  readonly machine: MachineReading;
}

/** Check of an engine that gave no answer: what went wrong before anything could be asked. The stack file names it. */
export function engineFinding(uri: string, reading: EngineSilence): Finding {
  const where = uri.startsWith("ssh:") ? `on the other side of ${uri}` : `at ${uri}`;
  switch (reading.kind) {
    case "noCli":
      return problem(
        "docker",
        "This machine has no `docker` command.",
        `It asks the engine ${where}, and none was found on the PATH.`,
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
      // What the CLI calls the engine behind ssh; without words of ssh itself the connection stands.
      if (reading.words.includes("docker.example.com") && !reading.words.includes("command [ssh")) {
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
        // The CLI's own words before those of ssh are its guess, and long.
        reading.words.replace(/^.* stderr=/s, ""),
        uri.startsWith("ssh:")
          ? `Try \`${shellLine(["ssh", "-o", "BatchMode=yes", ...(sshDestination(uri) ?? []), "docker", "info"])}\`, which must work without a password.`
          : "Start it (`sudo systemctl start docker`), or correct host.uri of the stack file.",
      );
  }
}

/** As {@link engineFinding} of this machine's own engine, which builds for clusters and for AWS: no stack file names it. */
export function ownEngineFinding(uri: string, reading: EngineSilence): Finding {
  const finding = engineFinding(uri, reading);
  if (reading.kind !== "unreachable") return finding;
  return {
    ...finding,
    // The CLI says no more than that in its own words.
    why: /^Cannot connect to the Docker daemon/.test(reading.words)
      ? "It builds and pushes the images of the stack."
      : finding.why,
    fix: "Start it (`sudo systemctl start docker`), or run this on a machine that has one (https://docs.docker.com/engine/install/).",
  };
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
