/**
 * GPUs by the name that machines and stack files use.
 *
 * - Compute capability: https://developer.nvidia.com/cuda-gpus; A10G, which EC2 alone has, after A10.
 * - Memory: what the EC2 API reports, by Karpenter's list of instance types; for GPUs that EC2 lacks, what NVIDIA sells
 *   them with, in GiB.
 * - Formats and support: "Hardware" and "Software" of TensorRT-LLM's support matrix, which lists Ampere, Ada Lovelace
 *   and Hopper: https://github.com/NVIDIA/TensorRT-LLM/blob/17552a447517c3110b3fe07cffd73204fb22b615/docs/source/legacy/reference/support-matrix.md.
 *   fp8 needs compute capability 8.9 or 9.0, bfloat16 at least 8.0.
 * - MIG profiles: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html; their memory as
 *   `nvidia-smi mig -lgip` prints it, which is a little less than the name says. Profiles with media extensions (`+me`) have the
 *   memory of their namesakes and are left out.
 * - Bandwidth: the row's source.
 */
import type { Gpu } from "./types.ts";

export const GPU_NAMES = [
  "T4",
  "A10G",
  "A10",
  "RTX 3090",
  "A100-SXM4-40GB",
  "A100-SXM4-80GB",
  "A100-PCIE-40GB",
  "A100-PCIE-80GB",
  "L4",
  "L40",
  "L40S",
  "RTX 4090",
  "H100",
  "H200",
] as const;
export type GpuName = (typeof GPU_NAMES)[number];

const MIB_PER_GIB = 1024;

const ampereFormats = ["float16", "bfloat16", "int8", "int4"] as const;
const fp8Formats = [...ampereFormats, "fp8"] as const;

const ampere = { architecture: "Ampere", formats: ampereFormats, supported: true } as const;
const ada = {
  computeCapability: "8.9",
  architecture: "Ada",
  formats: fp8Formats,
  supported: true,
  nvlink: false,
  migProfiles: {},
} as const;
const hopper = {
  computeCapability: "9.0",
  architecture: "Hopper",
  formats: fp8Formats,
  supported: true,
  nvlink: true,
} as const;

const a100With40GB = {
  ...ampere,
  computeCapability: "8.0",
  memoryGiB: 40_960 / MIB_PER_GIB,
  memoryBandwidthGBPerSecond: 1555,
  migProfiles: {
    "1g.5gb": 4.75,
    "1g.10gb": 9.75,
    "2g.10gb": 9.75,
    "3g.20gb": 19.62,
    "4g.20gb": 19.62,
    "7g.40gb": 39.38,
  },
} as const;
const a100With80GB = {
  ...ampere,
  computeCapability: "8.0",
  memoryGiB: 81_920 / MIB_PER_GIB,
  migProfiles: {
    "1g.10gb": 9.5,
    "1g.20gb": 19.5,
    "2g.20gb": 19.5,
    "3g.40gb": 39.25,
    "4g.40gb": 39.25,
    "7g.80gb": 79,
  },
} as const;
const A100_BANDWIDTH = "https://www.thundercompute.com/blog/nvidia-a100-specs-full-guide";
const HOPPER_BANDWIDTH =
  "https://openmetal.io/resources/blog/how-the-h200-is-built-for-memory-bound-ai-workloads/";

/**
 * Rows by name; `name` repeats the key.
 *
 * `nvlink` says what the usual machine has: p4d, p4de and p5 connect their GPUs by NVSwitch. Bridges between pairs of PCIe
 * cards are not counted, since no row can tell whether they are there.
 */
export const gpus: Readonly<Record<GpuName, Gpu>> = {
  T4: {
    name: "T4",
    computeCapability: "7.5",
    architecture: "Turing",
    memoryGiB: 16_384 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 320,
    nvlink: false,
    migProfiles: {},
    formats: ["float16", "int8", "int4"],
    supported: false,
    source: "https://www.aiminingco.com/gpu/t4/specs",
  },
  A10G: {
    ...ampere,
    name: "A10G",
    computeCapability: "8.6",
    memoryGiB: 22_888 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 600,
    nvlink: false,
    migProfiles: {},
    source: "https://www.baseten.co/blog/nvidia-a10-vs-a10g-for-ml-model-inference/",
  },
  A10: {
    ...ampere,
    name: "A10",
    computeCapability: "8.6",
    // The same 24 GB of GDDR6 as A10G; ECC takes its part of both.
    memoryGiB: 22_888 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 600,
    nvlink: false,
    migProfiles: {},
    source: "https://www.baseten.co/blog/nvidia-a10-vs-a10g-for-ml-model-inference/",
  },
  "RTX 3090": {
    ...ampere,
    name: "RTX 3090",
    computeCapability: "8.6",
    memoryGiB: 24,
    memoryBandwidthGBPerSecond: 936,
    nvlink: false,
    migProfiles: {},
    source: "https://gist.github.com/FabricatiDiem/fe0667aff7dc529a9b439112194f34b6",
  },
  "A100-SXM4-40GB": { ...a100With40GB, name: "A100-SXM4-40GB", nvlink: true, source: A100_BANDWIDTH },
  "A100-SXM4-80GB": {
    ...a100With80GB,
    name: "A100-SXM4-80GB",
    memoryBandwidthGBPerSecond: 2039,
    nvlink: true,
    source: A100_BANDWIDTH,
  },
  "A100-PCIE-40GB": { ...a100With40GB, name: "A100-PCIE-40GB", nvlink: false, source: A100_BANDWIDTH },
  "A100-PCIE-80GB": {
    ...a100With80GB,
    name: "A100-PCIE-80GB",
    memoryBandwidthGBPerSecond: 1935,
    nvlink: false,
    source: A100_BANDWIDTH,
  },
  L4: {
    ...ada,
    name: "L4",
    memoryGiB: 22_888 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 300,
    source: "https://store.sourcecode.com/en-us/bg-bucket-compare/125/9820",
  },
  L40: {
    ...ada,
    name: "L40",
    // The same 48 GB of GDDR6 with ECC as L40S.
    memoryGiB: 45_776 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 864,
    source: "https://www.mullet.se/product.html?product_id=355414",
  },
  L40S: {
    ...ada,
    name: "L40S",
    memoryGiB: 45_776 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 864,
    source: "https://www.mullet.se/product.html?product_id=355414",
  },
  "RTX 4090": {
    ...ada,
    name: "RTX 4090",
    memoryGiB: 24,
    memoryBandwidthGBPerSecond: 1008,
    source:
      "https://cpu-gpu.alldbin.com/graphics-card-comparison/GeForce-RTX-4090-and-GeForce-RTX-3060-12-GB-GA104-comparison.html",
  },
  H100: {
    ...hopper,
    name: "H100",
    memoryGiB: 81_920 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 3350,
    // As printed in https://jbarrow.ai/field_notes/nvidia-mig/.
    migProfiles: {
      "1g.10gb": 9.75,
      "1g.20gb": 19.62,
      "2g.20gb": 19.62,
      "3g.40gb": 39.5,
      "4g.40gb": 39.5,
      "7g.80gb": 79.25,
    },
    source: HOPPER_BANDWIDTH,
  },
  H200: {
    ...hopper,
    name: "H200",
    memoryGiB: 144_384 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 4800,
    // Not found printed: 1g.35gb, which has the two memory slices of 2g.35gb, and 3g.71gb and 4g.71gb, whose four slices hold
    // at least twice as much.
    migProfiles: {
      "1g.18gb": 16,
      "1g.35gb": 32.5,
      "2g.35gb": 32.5,
      "3g.71gb": 65,
      "4g.71gb": 65,
      "7g.141gb": 140,
    },
    source: HOPPER_BANDWIDTH,
  },
};
