/** Versions of EKS that this project's add-ons are pinned for, with the last day of AWS's standard support. */

interface KubernetesVersion {
  /** After it AWS bills the control plane at six times the price. */
  readonly standardSupportUntil: string;
}

export const KUBERNETES_VERSIONS = ["1.34", "1.35"] as const;
export type KubernetesVersionName = (typeof KUBERNETES_VERSIONS)[number];

export const DEFAULT_KUBERNETES_VERSION: KubernetesVersionName = "1.35";

/** https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html, as of 2026-04-24. */
export const kubernetesVersions: Readonly<Record<KubernetesVersionName, KubernetesVersion>> = {
  "1.34": { standardSupportUntil: "2026-12-02" },
  "1.35": { standardSupportUntil: "2027-03-27" },
};
