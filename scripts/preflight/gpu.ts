/** Whether a GPU is the kind that a stack is planned for, and whether NVIDIA's containers run with its driver. Pure. */
import { GPU_NAMES, type GpuName } from "../../infra/plan/catalogue/gpus.ts";
import type { Gpu, Release } from "../../infra/plan/catalogue/types.ts";
import { type Finding, isOlder, problem, warning } from "./finding.ts";

/** A GPU, as nvidia-smi or the labels of its node describe it. */
interface Card {
  /** For people: `GPU 0`, `the machine gpu-0`. */
  readonly where: string;
  /** `NVIDIA A10G`; of a label `NVIDIA-A10G-SHARED`. */
  readonly reported: string;
  /** null when unknown, or only a part of the GPU's memory. */
  readonly memoryMiB: number | null;
  /** `575.57.08`; empty if it is not known. */
  readonly driver: string;
}

/**
 * Names of NVIDIA's driver that are not those of the catalogue, with `-` for a space:
 * https://us.download.nvidia.com/XFree86/Linux-x86_64/575.57.08/README/supportedchips.html.
 */
const REPORTED: Readonly<Record<string, GpuName>> = {
  "Tesla-T4": "T4",
  "A100-80GB-PCIe": "A100-PCIE-80GB",
  "H100-80GB-HBM3": "H100",
  "H100-PCIe": "H100",
};

/**
 * Name in the catalogue of a GPU as nvidia-smi names it, or as the label nvidia.com/gpu.product does, to which NVIDIA's GPU
 * feature discovery appends how the GPU is shared (https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery).
 */
export function catalogueName(reported: string): GpuName | undefined {
  const name = reported
    .replaceAll(" ", "-")
    .replace(/^NVIDIA-/, "")
    .replace(/-(SHARED|MIG-.*)$/, "");
  return (
    REPORTED[name] ?? GPU_NAMES.find((gpu) => gpu.replaceAll(" ", "-") === name.replace(/^GeForce-/, ""))
  );
}

/** Memory by the driver and by the EC2 API differ by less; a smaller card of the same name by more. */
const MEMORY_TOLERANCE = 0.05;

/** @param fix - Key of the stack file to correct, as a sentence. */
export function cardFindings(
  { where, reported, memoryMiB, driver }: Card,
  { gpu, release }: { readonly gpu: Gpu; readonly release: Release },
  fix: string,
): readonly Finding[] {
  if (catalogueName(reported) !== gpu.name)
    return [
      problem(
        "gpus",
        `The GPU of ${where} is ${reported}.`,
        `The stack is planned for ${gpu.name}, and a TensorRT engine runs only on the kind of GPU that it was built for.`,
        fix,
      ),
    ];
  const plannedMiB = Math.round(gpu.memoryGiB * 1024);
  const smaller = problem(
    "gpus",
    `The GPU of ${where} has ${memoryMiB} MiB.`,
    `The stack is planned for ${gpu.name} with ${plannedMiB} MiB.`,
    fix,
  );
  return [
    ...(memoryMiB !== null && memoryMiB < plannedMiB * (1 - MEMORY_TOLERANCE) ? [smaller] : []),
    ...driverFindings(where, reported, driver, release),
  ];
}

/**
 * Least branch whose driver takes the compatibility package of an image, and branches above it that do not: driver requirements
 * of Triton 25.10, https://docs.nvidia.com/deeplearning/triton-inference-server/release-notes/rel-25-10.html.
 */
const COMPATIBLE_FROM = 470;
const NOT_COMPATIBLE: readonly number[] = [510, 520, 530, 545, 555];

function driverFindings(
  where: string,
  reported: string,
  driver: string,
  { minimumDriver, tag, cuda }: Release,
): readonly Finding[] {
  if (driver === "" || minimumDriver === null || !isOlder(driver, minimumDriver)) return [];
  const branch = Number.parseInt(driver, 10);
  // https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html
  const isDataCentre = !reported.includes("GeForce");
  const isCompatible = isDataCentre && branch >= COMPATIBLE_FROM && !NOT_COMPATIBLE.includes(branch);
  return [
    (isCompatible ? warning : problem)(
      "driver",
      `The driver of ${where} is ${driver}.`,
      `Release ${tag} has CUDA ${cuda ?? "of an unknown version"} and needs ${minimumDriver}; its image's compatibility package ${isCompatible ? "may make up for it" : `does not cover ${reported} with this driver`}.`,
      `${isCompatible ? "Nothing, if the first build succeeds; else install" : "Install"} driver ${minimumDriver} or newer, or choose an older release (docs/support-matrix.md).`,
    ),
  ];
}
