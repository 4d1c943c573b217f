/** Whether a host's GPUs are those that a stack was planned for, and their driver serves its release. */
import type { GpuNeeds } from "./docker-needs.ts";
import { type Finding, problem, warning } from "./finding.ts";
import { catalogueName, driverVerdict } from "./gpu-facts.ts";
import type { GpuReading, MachineReading } from "./machine-reading.ts";

/** Memory by nvidia-smi and by the EC2 API differ by less; a smaller card of the same name by more. */
const MEMORY_TOLERANCE = 0.05;

export function gpuFindings(gpu: GpuNeeds, { gpus, gpuWords }: MachineReading): readonly Finding[] {
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
export function usedGpus({ indices, count }: GpuNeeds, gpus: readonly GpuReading[]): readonly GpuReading[] {
  return indices.length > 0 ? gpus.filter(({ index }) => indices.includes(index)) : gpus.slice(0, count);
}
