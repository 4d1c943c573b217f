/** Names under which NVIDIA's device plugin gives out GPUs, and the configuration that makes it use them. Pure. */
import type { GpuSharing, PoolSpec } from "../spec.ts";

/** Whole GPUs, and shares of them. */
export const GPU_RESOURCE = "nvidia.com/gpu";

/** Shares where the configuration says `renameByDefault`. */
const SHARED_GPU_RESOURCE = `${GPU_RESOURCE}.shared`;

/**
 * Resource of a pool's GPUs. Partitions have resources of their own (strategy `mixed`; `+` of a profile's name is written as
 * a point). Shares in time and of MPS have the GPU's own name unless the configuration says `renameByDefault`, and then the
 * pool's `gpuResource` says so too. https://github.com/NVIDIA/k8s-device-plugin/blob/main/README.md
 */
export function gpuResource(sharing: GpuSharing, own: string | null): string {
  if (own !== null) return own;
  return sharing.mode === "mig" ? `nvidia.com/mig-${sharing.profile.replaceAll("+", ".")}` : GPU_RESOURCE;
}

/**
 * Configuration file of the plugin for nodes with such GPUs
 * (https://github.com/NVIDIA/k8s-device-plugin/blob/main/README.md#shared-access-to-gpus). The field `rename` of a resource is
 * left out: up to 0.20 the plugin ignores it, with a warning (api/config/v1/replicas.go).
 *
 * @param own - Resource of the pool in the stack file; null: the plugin's own.
 * @returns null where the plugin can't use that name.
 */
export function devicePluginConfig(sharing: GpuSharing, own: string | null): object | null {
  const resource = gpuResource(sharing, own);
  const isOwn = resource === GPU_RESOURCE;
  if (sharing.mode === "none") return isOwn ? { version: "v1" } : null;
  if (sharing.mode === "mig") {
    const isMixed = resource === gpuResource(sharing, null);
    if (!isMixed && !isOwn) return null;
    return { version: "v1", flags: { migStrategy: isMixed ? "mixed" : "single" } };
  }
  const isRenamed = resource === SHARED_GPU_RESOURCE;
  if (!isOwn && !isRenamed) return null;
  const shares = {
    ...(isRenamed ? { renameByDefault: true } : {}),
    // Two shares are no larger part of a GPU: NVIDIA recommends to refuse them, and with MPS it is the default.
    ...(sharing.mode === "mps" ? {} : { failRequestsGreaterThanOne: true }),
    resources: [{ name: GPU_RESOURCE, replicas: sharing.replicas }],
  };
  return { version: "v1", sharing: { [sharing.mode]: shares } };
}

/**
 * Configurations of all pools with GPUs, by the pool's name: the plugin takes several, and a node's label
 * `nvidia.com/device-plugin.config` chooses one.
 */
export function devicePluginConfigs(
  pools: readonly PoolSpec[],
  resourceOf: (pool: string) => string | null,
): Readonly<Record<string, object | null>> {
  return Object.fromEntries(
    pools
      .filter(({ gpu }) => gpu !== null)
      .map(({ name, sharing }) => [name, devicePluginConfig(sharing, resourceOf(name))]),
  );
}
