/** Checks of a Docker host for a stack: from its plan, and from answers of its engine and the machine. Nothing is changed. */

import type { DockerGpuPlan } from "../../infra/plan/gpu-stack.ts";
import { buildDiskGiB, buildRequest, storedGiB } from "../../infra/plan/pool-space.ts";
import type { PoolSpec } from "../../infra/plan/spec.ts";
import { GB_PER_GIB } from "../../infra/plan/units.ts";
import { counted } from "../../infra/problems.ts";
import { dockerLines, ofStack } from "../docker-host/containers.ts";
import { downloadGB, missingImages } from "../images/image-states.ts";
import type { DockerTarget } from "../program/targets.ts";
import { type EngineReading, engineFinding, readDocker } from "./docker-facts.ts";
import { type Finding, isOlder, noShell, problem, warning } from "./finding.ts";
import { cardFindings } from "./gpu.ts";
import {
  architectureFindings,
  diskFindings,
  memoryFindings,
  portFindings,
  type WantedPort,
} from "./host-checks.ts";
import type { HostProbe } from "./host-probe.ts";
import { type MachineReading, readMachine } from "./machine-facts.ts";

/** @returns Findings; if the engine does not answer, only that finding. */
export async function dockerPreflight(target: DockerTarget, probe: HostProbe): Promise<readonly Finding[]> {
  const { name, plan, stack } = target;
  const { uri } = plan.host;
  const engine = await readDocker(probe);
  if (engine.kind !== "engine") return [engineFinding(uri, engine)];
  const stored = plan.tier === "gpu" ? storedParts(plan, engine.rootDirectory) : [];
  const paths = [engine.rootDirectory, ...stored.map(({ path }) => path)];
  const machine = await readMachine(probe, [...new Set(paths)]);
  if ("unreachable" in machine) return [noShell(uri, machine.unreachable)];
  const isUp = (await dockerLines(probe, ["ps", "--quiet", ...ofStack(name)])).length > 0;
  const missing = missingImages(stack.images, engine.images);
  const images = missing.map((image) => ({
    what: `image ${image.name}`,
    gb: downloadGB(image.name, target.images, engine.images),
    path: engine.rootDirectory,
  }));
  const ports = stack.containers.flatMap(({ args }) =>
    args.ports.flatMap(({ external: port }): readonly WantedPort[] =>
      port === undefined ? [] : [{ port, wantedBy: `The container ${args.name}` }],
    ),
  );
  // The store of a stack that is up is filled already; the size of the rest is unknown.
  const disk = [...images, ...(isUp ? [] : stored)];
  return [
    ...architectureFindings("Docker engine", engine, "Each image"),
    ...engineFindings(target, engine),
    ...(plan.tier === "gpu" ? gpuFindings(target, plan, { engine, machine, isUp }) : []),
    ...portFindings(ports, await holdersOf(ports, name, machine, probe)),
    ...(plan.tier === "gpu" && !isUp
      ? memoryFindings(machine, buildMemoryMiB(plan), "The largest build", "warning")
      : []),
    ...diskFindings(disk.map((need) => ({ ...need, space: machine.space.get(need.path) }))),
  ];
}

/** Weights and engines, each once; checkpoints of one build at a time. @param root - Folder of Docker. */
function storedParts({ models, host }: DockerGpuPlan, root: string) {
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
    { what: "weights and engines", gb: stored * GB_PER_GIB, path: host.storePath ?? root },
    { what: "checkpoints of a build", gb: Math.max(0, ...checkpoints) * GB_PER_GIB, path: root },
  ];
}

function buildMemoryMiB({ models }: DockerGpuPlan): number {
  return Math.max(0, ...models.map(({ spec }) => buildRequest(spec).memoryMiB));
}

/** Listeners on ports of the stack, except its own containers. */
async function holdersOf(
  wanted: readonly WantedPort[],
  stack: string,
  { listening }: MachineReading,
  probe: HostProbe,
): Promise<ReadonlyMap<number, string>> {
  const format = '{{.Label "engine-room.stack"}}\t{{.Names}}';
  const taken = wanted.filter(({ port }) => listening.has(port));
  const holders = taken.map(async ({ port }): Promise<readonly (readonly [number, string])[]> => {
    const [line] = await dockerLines(probe, ["ps", "--filter", `publish=${port}`, "--format", format]);
    if (line === undefined) return [[port, "a process of the host"]];
    const [owner, name] = line.split("\t");
    return owner === stack ? [] : [[port, `the container ${name}`]];
  });
  return new Map((await Promise.all(holders)).flat());
}

/** The Dockerfiles mount caches in builds; `--gpus` and docker over ssh:// are older. */
const LEAST_ENGINE = "20.10";

function engineFindings({ stack }: DockerTarget, { version, isRootless }: EngineReading): readonly Finding[] {
  const locksMemory = stack.containers.some(({ args }) =>
    args.ulimits?.some(({ name, hard }) => name === "memlock" && hard === -1),
  );
  const old = problem(
    "engineVersion",
    `The Docker engine is ${version}.`,
    `The stack needs ${LEAST_ENGINE}: its Dockerfiles mount caches.`,
    "Update it (https://docs.docker.com/engine/install/).",
  );
  const rootless = problem(
    "rootless",
    "The Docker engine is rootless.",
    "The servers lock memory without limit (--ulimit memlock=-1), and a user's engine can't raise that limit.",
    "Use the system's engine, or raise the limit of the user who runs it to unlimited (`LimitMEMLOCK=infinity` of its unit).",
  );
  return [...(isOlder(version, LEAST_ENGINE) ? [old] : []), ...(isRootless && locksMemory ? [rootless] : [])];
}

/** First engine whose `--gpus` falls back to devices of the Container Device Interface (https://github.com/moby/moby/pull/50228). */
const GPUS_BY_CDI = "29.0";

/** Memory that a driver, a display or a monitor takes of a GPU without computations. */
const IDLE_FRACTION = 0.05;

interface HostReading {
  readonly engine: EngineReading;
  readonly machine: MachineReading;
  readonly isUp: boolean;
}

/** Checks the toolkit, then the containers' GPUs: by number, or all planned GPUs. */
function gpuFindings(
  { stack }: DockerTarget,
  { release, spec }: DockerGpuPlan,
  { engine, machine, isUp }: HostReading,
): readonly Finding[] {
  const [{ gpu, machine: planned } = { gpu: null, machine: null }] = spec.pools as readonly (
    | PoolSpec
    | undefined
  )[];
  if (gpu === null || planned === null) return [];
  const { runtimes, cdiGpus, version } = engine;
  const hasToolkit = runtimes.includes("nvidia") || machine.hasNvidiaHook;
  const toolkit = problem(
    "toolkit",
    "Docker can't hand GPUs to containers: the NVIDIA Container Toolkit is missing or not configured.",
    `The engine has the runtimes ${runtimes.join(", ") || "(none)"} and ${cdiGpus.length} GPUs by CDI.`,
    "Install nvidia-container-toolkit, then `sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker`.",
  );
  const isMissing = !hasToolkit && (cdiGpus.length === 0 || isOlder(version, GPUS_BY_CDI));
  const { gpus, gpuWords } = machine;
  const needed = `The stack needs ${planned.gpus} × ${gpu.name}`;
  if (gpus === null)
    return [
      ...(isMissing ? [toolkit] : []),
      problem(
        "gpus",
        "nvidia-smi does not answer on the host.",
        `${needed}, and the driver says: ${gpuWords || "nothing"}.`,
        "Install NVIDIA's driver, and try `nvidia-smi` there.",
      ),
    ];
  const indices = new Set(stack.containers.flatMap((one) => (one.gpus === "all" ? [] : (one.gpus ?? []))));
  const used =
    indices.size > 0 ? gpus.filter(({ index }) => indices.has(index)) : gpus.slice(0, planned.gpus);
  const fix = "Correct host.instanceType or host.machine, and models[].gpuIndices, of the stack file.";
  const tooFew = problem(
    "gpus",
    `The host has ${counted(gpus.length, "GPU")}.`,
    `${needed}${indices.size === 0 ? "" : `; containers are given the numbers ${[...indices].sort().join(", ")}`}.`,
    fix,
  );
  return [
    ...(isMissing ? [toolkit] : []),
    ...(gpus.length < planned.gpus || used.length < indices.size ? [tooFew] : []),
    ...used.flatMap(({ index, name, memoryMiB, usedMiB, isPartitioned, driver }, position) => {
      const partitioned = problem(
        "gpus",
        `GPU ${index} is in MIG mode.`,
        "A container with this GPU sees its partitions, and the stack is planned for the whole GPU.",
        `\`sudo nvidia-smi -i ${index} -mig 0\` on the host, while the GPU is unused.`,
      );
      const busy = warning(
        "busyGpus",
        `Other processes use GPU ${index}.`,
        `${usedMiB} of its ${memoryMiB} MiB are taken, and the plan counts on all of them.`,
        "`nvidia-smi` on the host lists them; stop them, or give the models other GPUs with models[].gpuIndices.",
      );
      // One driver serves all GPUs of a machine.
      const card = {
        where: `the host (GPU ${index})`,
        reported: name,
        memoryMiB,
        driver: position === 0 ? driver : "",
      };
      return [
        ...cardFindings(card, { gpu, release }, fix),
        ...(isPartitioned ? [partitioned] : []),
        ...(!isUp && usedMiB > memoryMiB * IDLE_FRACTION ? [busy] : []),
      ];
    }),
  ];
}
