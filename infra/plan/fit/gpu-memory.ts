/** Memory of a GPU, or of the part of it that a pod sees. */
import type { Gpu } from "../catalogue/types.ts";
import type { GpuSharing } from "../spec.ts";

/**
 * Share of the memory of a data sheet or the EC2 API that CUDA can allocate; the driver and its page tables have the rest.
 * Reports of `cudaMemGetInfo`: 79.10 of 80 GiB on an H100 (https://nvidia.github.io/TensorRT-LLM/reference/memory.html),
 * 40,338 of 40,960 MiB on an A100 (https://github.com/NVIDIA/TensorRT-LLM/issues/85), 22,588 of the API's 22,888 MiB on an
 * A10 (https://github.com/signalnine/q27/issues/1): 98.5 to 98.9 %.
 */
const USABLE_FRACTION = 0.98;

/**
 * A T4 has its error correction in line: it takes a sixteenth of the 16 GiB that the EC2 API reports. The API's figures of
 * the other GPUs with GDDR6 (22,888 MiB of 24 GB, 45,776 MiB of 48 GB) are net of it. Inferred from these figures.
 */
const IN_LINE_ECC_OF_TURING = 15 / 16;

/** GiB that the processes on a GPU, or on a partition of `partitionGiB`, can allocate together. */
export function usableGiB(gpu: Gpu, partitionGiB: number = gpu.memoryGiB): number {
  const ecc = gpu.architecture === "Turing" ? IN_LINE_ECC_OF_TURING : 1;
  return partitionGiB * ecc * USABLE_FRACTION;
}

/** Compute slices of a GPU that can be partitioned: A100, H100 and H200 have seven. */
const COMPUTE_SLICES = 7;

/** Pods that one GPU takes: `nvidia.com/gpu` (or MIG resources) that the device plugin advertises for it. */
export function slotsPerGpu(gpu: Gpu, sharing: GpuSharing): number {
  switch (sharing.mode) {
    case "none":
      return 1;
    case "timeSlicing":
    case "mps":
      return sharing.replicas;
    case "mig": {
      const memoryGiB = gpu.migProfiles[sharing.profile];
      const slices = Number.parseInt(sharing.profile, 10);
      if (memoryGiB === undefined || !(slices > 0)) return 0;
      return Math.min(Math.floor(COMPUTE_SLICES / slices), Math.floor(gpu.memoryGiB / memoryGiB));
    }
  }
}
