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
 * `nvlink` says what the usual machine has: p4d, p4de and p5 connect their GPUs by NVSwitch. Bridges between pairs of PCIe
 * cards are not counted, since no row can tell whether they are there.
 */
const rows = {
  T4: {
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
    computeCapability: "8.6",
    memoryGiB: 22_888 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 600,
    nvlink: false,
    migProfiles: {},
    source: "https://www.baseten.co/blog/nvidia-a10-vs-a10g-for-ml-model-inference/",
  },
  A10: {
    ...ampere,
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
    computeCapability: "8.6",
    memoryGiB: 24,
    memoryBandwidthGBPerSecond: 936,
    nvlink: false,
    migProfiles: {},
    source: "https://gist.github.com/FabricatiDiem/fe0667aff7dc529a9b439112194f34b6",
  },
  "A100-SXM4-40GB": { ...a100With40GB, nvlink: true, source: A100_BANDWIDTH },
  "A100-SXM4-80GB": {
    ...a100With80GB,
    memoryBandwidthGBPerSecond: 2039,
    nvlink: true,
    source: A100_BANDWIDTH,
  },
  "A100-PCIE-40GB": { ...a100With40GB, nvlink: false, source: A100_BANDWIDTH },
  "A100-PCIE-80GB": {
    ...a100With80GB,
    memoryBandwidthGBPerSecond: 1935,
    nvlink: false,
    source: A100_BANDWIDTH,
  },
  L4: {
    ...ada,
    memoryGiB: 22_888 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 300,
    source: "https://store.sourcecode.com/en-us/bg-bucket-compare/125/9820",
  },
  L40: {
    ...ada,
    // The same 48 GB of GDDR6 with ECC as L40S.
    memoryGiB: 45_776 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 864,
    source: "https://www.mullet.se/product.html?product_id=355414",
  },
  L40S: {
    ...ada,
    memoryGiB: 45_776 / MIB_PER_GIB,
    memoryBandwidthGBPerSecond: 864,
    source: "https://www.mullet.se/product.html?product_id=355414",
  },
  "RTX 4090": {
    ...ada,
    memoryGiB: 24,
    memoryBandwidthGBPerSecond: 1008,
    source:
      "https://cpu-gpu.alldbin.com/graphics-card-comparison/GeForce-RTX-4090-and-GeForce-RTX-3060-12-GB-GA104-comparison.html",
  },
  H100: {
    ...hopper,
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
} satisfies Record<string, Omit<Gpu, "name">>;

export type GpuName = keyof typeof rows;

export const GPU_NAMES = Object.keys(rows) as unknown as readonly [GpuName, ...GpuName[]];

export const gpus = Object.fromEntries(
  Object.entries<Omit<Gpu, "name">>(rows).map(([name, row]) => [name, { name, ...row }]),
) as Readonly<Record<GpuName, Gpu>>;
