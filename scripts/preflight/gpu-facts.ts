/** How nvidia-smi names GPUs, and which older drivers NVIDIA's containers run with. */
import type { GpuName } from "../../infra/plan/catalogue/gpus.ts";
import { isOlder } from "./finding.ts";

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
