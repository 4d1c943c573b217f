/** Volumes of the pods that build and serve. */
import type { ClusterGpuPlan } from "../gpu-stack.ts";
import type { PoolSpec } from "../spec.ts";
import { objectLabels } from "./labels.ts";
import type { PodVolume } from "./pod-types.ts";
import { isRetained } from "./retention.ts";
import type { StorePlan } from "./types.ts";

/** Where weights and engines are in every container. */
const STORE = "/store";

/** `/dev/shm`: ranks and Triton's Python models exchange tensors there, and a container's usual 64 MiB are too few. */
export const SHARED_MEMORY: PodVolume = {
  name: "shared-memory",
  path: "/dev/shm",
  readOnly: false,
  source: { kind: "memory", sizeMiB: 2048 },
};

/**
 * None where GPUs are shared by MPS: NVIDIA's device plugin mounts the daemon's own `/dev/shm`, which another one would hide
 * (https://github.com/NVIDIA/k8s-device-plugin, internal/plugin/mps.go).
 */
export function sharedMemory({ sharing }: PoolSpec): readonly PodVolume[] {
  return sharing.mode === "mps" ? [] : [SHARED_MEMORY];
}

/** The engine store: only builds write. */
export function storeVolume({ cluster }: ClusterGpuPlan, readOnly: boolean): PodVolume {
  return { name: "store", path: STORE, readOnly, source: { kind: "claim", claim: cluster.store.claim } };
}

/** The claim behind it. */
export function storePlan(stack: string, plan: ClusterGpuPlan): StorePlan {
  const { claim, creation } = plan.cluster.store;
  if (creation === null) return { claim, creation };
  return {
    claim,
    creation: { ...creation, labels: objectLabels(stack), isRetained: isRetained(stack, plan) },
  };
}
