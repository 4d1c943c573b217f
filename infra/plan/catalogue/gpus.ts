/**
 * GPUs by the name that machines and stack files use.
 *
 * - Compute capability: https://developer.nvidia.com/cuda-gpus; A10G, which only EC2 has, after A10.
 * - Memory: what the EC2 API reports, by Karpenter's list of instance types; for GPUs that EC2 lacks, what NVIDIA sells
 *   them with, in GiB.
 * - Formats and support: "Hardware" and "Software" of TensorRT-LLM's support matrix, which lists Ampere, Ada Lovelace
 *   and Hopper: https://github.com/NVIDIA/TensorRT-LLM/blob/17552a447517c3110b3fe07cffd73204fb22b615/docs/source/legacy/reference/support-matrix.md.
 *   fp8 needs compute capability 8.9 or 9.0, bfloat16 at least 8.0.
 * - MIG profiles: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html; their memory as
 *   `nvidia-smi mig -lgip` prints it, which is a little less than the name says. Profiles with media extensions (`+me`) have the
 *   memory of their namesakes and are left out.
 */
import type { Gpu } from "./types.ts";

const MIB_PER_GIB = 1024;

const AMPERE = {
  architecture: "Ampere",
  formats: ["float16", "bfloat16", "int8", "int4"],
  supported: true,
} as const;
const WITH_FP8 = { formats: [...AMPERE.formats, "fp8"], supported: true } as const;

const capabilities = {
  "7.5": { architecture: "Turing", formats: ["float16", "int8", "int4"], supported: false },
  "8.0": AMPERE,
  "8.6": AMPERE,
  "8.9": { architecture: "Ada", ...WITH_FP8 },
  "9.0": { architecture: "Hopper", ...WITH_FP8 },
} as const satisfies Record<string, Pick<Gpu, "architecture" | "formats" | "supported">>;

interface Row extends Pick<Gpu, "memoryGiB"> {
  readonly computeCapability: keyof typeof capabilities;
  /** @default false */
  readonly nvlink?: boolean;
  /** @default {} */
  readonly migProfiles?: Gpu["migProfiles"];
}

const a100With40GB = {
  computeCapability: "8.0",
  memoryGiB: 40_960 / MIB_PER_GIB,
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

/**
 * `nvlink` is that of the usual machine: p4d, p4de and p5 connect their GPUs by NVSwitch. Bridges between pairs of PCIe cards
 * are optional, and are not counted.
 */
const rows = {
  T4: { computeCapability: "7.5", memoryGiB: 16_384 / MIB_PER_GIB },
  A10G: { computeCapability: "8.6", memoryGiB: 22_888 / MIB_PER_GIB },
  A10: {
    computeCapability: "8.6",
    // The same 24 GB of GDDR6 as A10G; ECC takes its part of both.
    memoryGiB: 22_888 / MIB_PER_GIB,
  },
  "RTX 3090": { computeCapability: "8.6", memoryGiB: 24 },
  "A100-SXM4-40GB": { ...a100With40GB, nvlink: true },
  "A100-SXM4-80GB": { ...a100With80GB, nvlink: true },
  "A100-PCIE-40GB": a100With40GB,
  "A100-PCIE-80GB": a100With80GB,
  L4: { computeCapability: "8.9", memoryGiB: 22_888 / MIB_PER_GIB },
  L40: {
    computeCapability: "8.9",
    // The same 48 GB of GDDR6 with ECC as L40S.
    memoryGiB: 45_776 / MIB_PER_GIB,
  },
  L40S: { computeCapability: "8.9", memoryGiB: 45_776 / MIB_PER_GIB },
  "RTX 4090": { computeCapability: "8.9", memoryGiB: 24 },
  H100: {
    computeCapability: "9.0",
    nvlink: true,
    memoryGiB: 81_920 / MIB_PER_GIB,
    // As printed in https://jbarrow.ai/field_notes/nvidia-mig/.
    migProfiles: {
      "1g.10gb": 9.75,
      "1g.20gb": 19.62,
      "2g.20gb": 19.62,
      "3g.40gb": 39.5,
      "4g.40gb": 39.5,
      "7g.80gb": 79.25,
    },
  },
  H200: {
    computeCapability: "9.0",
    nvlink: true,
    memoryGiB: 144_384 / MIB_PER_GIB,
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
  },
} satisfies Record<string, Row>;

export type GpuName = keyof typeof rows;

export const GPU_NAMES = Object.keys(rows) as unknown as readonly [GpuName, ...GpuName[]];

export const gpus = Object.fromEntries(
  Object.entries<Row>(rows).map(([name, row]): [string, Gpu] => [
    name,
    { name, nvlink: false, migProfiles: {}, ...capabilities[row.computeCapability], ...row },
  ]),
) as Readonly<Record<GpuName, Gpu>>;
