/** How the device plugin names what it gives out. */
import type { GpuSharing } from "../spec.ts";

/** Of NVIDIA's device plugin, for whole GPUs and for shares of them. */
export const GPU_RESOURCE = "nvidia.com/gpu";

/** The same of shares, where its configuration says `renameByDefault`. */
export const SHARED_GPU_RESOURCE = `${GPU_RESOURCE}.shared`;

/**
 * Resource by which NVIDIA's device plugin gives out a pool's GPUs. Partitions have resources of their own (its strategy
 * `mixed`; `+` of a profile's name is written as a point); shares in time and of MPS have the GPU's own name unless its
 * configuration says `renameByDefault`, and then the pool's `gpuResource` says so too.
 * https://github.com/NVIDIA/k8s-device-plugin/blob/main/README.md
 */
export function gpuResource(sharing: GpuSharing, own: string | null): string {
  if (own !== null) return own;
  return sharing.mode === "mig" ? `nvidia.com/mig-${sharing.profile.replaceAll("+", ".")}` : GPU_RESOURCE;
}
