/** Whether a host's GPUs are those that a stack was planned for, and which drivers NVIDIA's containers run with. */
import type { GpuName } from "../../infra/plan/catalogue/gpus.ts";
import { type Finding, isOlder, problem, warning } from "./finding.ts";
import type { GpuReading, MachineReading } from "./machine-reading.ts";

/** GPUs of a Docker host that a stack needs. */
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

interface GpuFacts {
  /** As `nvidia-smi --query-gpu=name` prints it, without `NVIDIA` before it. */
  readonly reportedNames: readonly string[];
  /** Forward compatibility is for these only: https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html. */
  readonly isDataCentre: boolean;
}

const dataCentre = (...reportedNames: string[]): GpuFacts => ({ reportedNames, isDataCentre: true });
const consumer = (...reportedNames: string[]): GpuFacts => ({ reportedNames, isDataCentre: false });

/** PCI names of NVIDIA's driver: https://us.download.nvidia.com/XFree86/Linux-x86_64/575.57.08/README/supportedchips.html. */
const GPU_FACTS: Readonly<Record<GpuName, GpuFacts>> = {
  T4: dataCentre("Tesla T4"),
  A10G: dataCentre("A10G"),
  A10: dataCentre("A10"),
  "RTX 3090": consumer("GeForce RTX 3090"),
  "A100-SXM4-40GB": dataCentre("A100-SXM4-40GB"),
  "A100-SXM4-80GB": dataCentre("A100-SXM4-80GB"),
  "A100-PCIE-40GB": dataCentre("A100-PCIE-40GB"),
  "A100-PCIE-80GB": dataCentre("A100 80GB PCIe"),
  L4: dataCentre("L4"),
  L40: dataCentre("L40"),
  L40S: dataCentre("L40S"),
  "RTX 4090": consumer("GeForce RTX 4090"),
  H100: dataCentre("H100 80GB HBM3", "H100 PCIe"),
  H200: dataCentre("H200"),
};

/** Name in the catalogue of a GPU that nvidia-smi names; undefined for one that the catalogue lacks. */
export function catalogueName(reported: string): GpuName | undefined {
  const name = reported.replace(/^NVIDIA /, "");
  return (Object.keys(GPU_FACTS) as GpuName[]).find((key) => GPU_FACTS[key].reportedNames.includes(name));
}

/**
 * The same of a label: `nvidia.com/gpu.product`, where NVIDIA's GPU feature discovery writes `-` for a space, and appends how
 * the GPU is shared (https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery).
 */
export function catalogueNameOfLabel(product: string): GpuName | undefined {
  const name = product.replace(/-(SHARED|MIG-.*)$/, "").replace(/^NVIDIA-/, "");
  return (Object.keys(GPU_FACTS) as GpuName[]).find((key) =>
    GPU_FACTS[key].reportedNames.some((reported) => reported.replaceAll(" ", "-") === name),
  );
}

/**
 * Branches whose drivers take no compatibility package, and the least of those that do: driver requirements of Triton 25.10,
 * https://docs.nvidia.com/deeplearning/triton-inference-server/release-notes/rel-25-10.html. Branches between the last of
 * these and the release's own are in neither list.
 */
const NOT_COMPATIBLE_BRANCHES: ReadonlySet<number> = new Set([418, 440, 450, 460, 510, 520, 530, 545, 555]);
const LEAST_COMPATIBLE: Readonly<Record<number, string>> = { 470: "470.57", 525: "525.85", 535: "535.86" };

type DriverVerdict = "new enough" | "forward compatible" | "too old";

/**
 * @param minimum - Of the release: its CUDA's own driver.
 * @param gpu - As the catalogue names it; undefined for another one, of which nothing is promised.
 */
export function driverVerdict(driver: string, minimum: string, gpu: GpuName | undefined): DriverVerdict {
  if (!isOlder(driver, minimum)) return "new enough";
  if (gpu === undefined || !GPU_FACTS[gpu].isDataCentre) return "too old";
  const branch = Number.parseInt(driver, 10);
  const isListed = branch >= 470 && !NOT_COMPATIBLE_BRANCHES.has(branch);
  return isListed && !isOlder(driver, LEAST_COMPATIBLE[branch] ?? "0") ? "forward compatible" : "too old";
}

/** Memory by the driver and by the EC2 API differ by less; a smaller card of the same name by more. */
export const MEMORY_TOLERANCE = 0.05;

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
