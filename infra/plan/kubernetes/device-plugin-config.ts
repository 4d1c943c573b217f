/** What NVIDIA's device plugin has to be told of machines, so that they offer what the plan counts on. Pure. */
import type { GpuSharing, PoolSpec } from "../spec.ts";
import { GPU_RESOURCE, gpuResource, SHARED_GPU_RESOURCE } from "./gpu-resource.ts";

interface ReplicatedResources {
  /** Whether shares are called `nvidia.com/gpu.shared`. */
  readonly renameByDefault?: true;
  /** Two shares are no larger part of a GPU: NVIDIA recommends to refuse them, and with MPS it is the default. */
  readonly failRequestsGreaterThanOne?: true;
  readonly resources: readonly { readonly name: string; readonly replicas: number }[];
}

/**
 * A configuration file of the plugin, as YAML or JSON has it.
 * https://github.com/NVIDIA/k8s-device-plugin/blob/main/README.md#shared-access-to-gpus
 */
export interface DevicePluginConfig {
  readonly version: "v1";
  readonly flags?: { readonly migStrategy: "mixed" | "single" };
  readonly sharing?: { readonly timeSlicing: ReplicatedResources } | { readonly mps: ReplicatedResources };
}

/**
 * For machines whose GPUs are shared so. The field `rename` of a resource is left out: up to 0.20 the plugin ignores it, with
 * a warning (api/config/v1/replicas.go).
 *
 * @param own - Name of the resource that the pool has in the stack file; null: the plugin's own.
 * @returns null where the plugin can't be told to use that name.
 */
export function devicePluginConfig(sharing: GpuSharing, own: string | null): DevicePluginConfig | null {
  const resource = gpuResource(sharing, own);
  switch (sharing.mode) {
    case "none":
      return resource === GPU_RESOURCE ? { version: "v1" } : null;
    case "mig": {
      if (resource === gpuResource(sharing, null)) return { version: "v1", flags: { migStrategy: "mixed" } };
      return resource === GPU_RESOURCE ? { version: "v1", flags: { migStrategy: "single" } } : null;
    }
    case "timeSlicing":
    case "mps": {
      if (resource !== GPU_RESOURCE && resource !== SHARED_GPU_RESOURCE) return null;
      const renamed = resource === SHARED_GPU_RESOURCE ? { renameByDefault: true as const } : {};
      const resources = [{ name: GPU_RESOURCE, replicas: sharing.replicas }];
      return {
        version: "v1",
        sharing:
          sharing.mode === "mps"
            ? { mps: { ...renamed, resources } }
            : { timeSlicing: { ...renamed, failRequestsGreaterThanOne: true, resources } },
      };
    }
  }
}

/**
 * Of all pools with GPUs, by the pool's name: the plugin takes several, and a machine's label
 * `nvidia.com/device-plugin.config` chooses one.
 *
 * @param resourceOf - Name of the resource that a pool has in the stack file; null: the plugin's own.
 */
export function devicePluginConfigs(
  pools: readonly PoolSpec[],
  resourceOf: (pool: string) => string | null,
): Readonly<Record<string, DevicePluginConfig | null>> {
  return Object.fromEntries(
    pools
      .filter(({ gpu }) => gpu !== null)
      .map(({ name, sharing }) => [name, devicePluginConfig(sharing, resourceOf(name))]),
  );
}
