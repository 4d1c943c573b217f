/**
 * What a machine of a pool is told when it starts, for nodeadm, which sets up EKS' own images. EKS adds a part of its own that
 * says which cluster it joins. Pure.
 * https://github.com/awslabs/amazon-eks-ami/blob/81fec2e895854f599974fe4d3d72f61c0a9aaffa/nodeadm/doc/api.md
 */

export interface NodeUserData {
  /**
   * `all`: the local disks are one, for images, scratch and logs. `scratch`: images stay on the root disk. `none`: there are no
   * local disks.
   */
  readonly localDisks: "all" | "scratch" | "none";
  /** Layers are downloaded and unpacked side by side. */
  readonly pullsInParallel: boolean;
  /** Partitions that each GPU is cut into; null: none. */
  readonly mig: { readonly profile: string; readonly perGpu: number } | null;
}

const BOUNDARY = "engine-room";

/**
 * Images go when the disk is fuller than this, until it is below the other: before the kubelet would evict pods, at 85 %.
 * https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images
 */
const IMAGE_LIMITS = { imageGCHighThresholdPercent: 80, imageGCLowThresholdPercent: 65 } as const;

/** A MIME document, not yet in base64. */
export function nodeUserData(data: NodeUserData): string {
  const parts = [
    { type: "application/node.eks.aws", text: JSON.stringify(nodeConfig(data), null, 2) },
    ...(data.mig === null
      ? []
      : [{ type: 'text/x-shellscript; charset="us-ascii"', text: partitionScript(data.mig) }]),
  ];
  return [
    "MIME-Version: 1.0",
    `Content-Type: multipart/mixed; boundary="${BOUNDARY}"`,
    "",
    ...parts.flatMap(({ type, text }) => [`--${BOUNDARY}`, `Content-Type: ${type}`, "", text, ""]),
    `--${BOUNDARY}--`,
    "",
  ].join("\n");
}

/** JSON is YAML too. */
function nodeConfig({ localDisks, pullsInParallel }: NodeUserData): unknown {
  return {
    apiVersion: "node.eks.aws/v1alpha1",
    kind: "NodeConfig",
    spec: {
      ...(pullsInParallel ? { featureGates: { FastImagePull: true } } : {}),
      ...(localDisks === "none" ? {} : { instance: { localStorage: localStorage(localDisks) } }),
      kubelet: { config: IMAGE_LIMITS },
    },
  };
}

/** Without `disabledMounts`, containerd, the kubelet's pods and their logs are on it. */
function localStorage(localDisks: "all" | "scratch"): unknown {
  return {
    strategy: "RAID0",
    ...(localDisks === "all" ? {} : { disabledMounts: ["Containerd", "SOCI"] }),
  };
}

/**
 * Runs before the kubelet starts, and so before anything has opened a GPU.
 * https://docs.nvidia.com/datacenter/tesla/mig-user-guide/getting-started-with-mig.html
 */
function partitionScript({ profile, perGpu }: NonNullable<NodeUserData["mig"]>): string {
  const profiles = Array.from({ length: perGpu }, () => profile).join(",");
  return ["#!/bin/bash", "set -euo pipefail", "nvidia-smi -mig 1", `nvidia-smi mig -cgi ${profiles} -C`].join(
    "\n",
  );
}
