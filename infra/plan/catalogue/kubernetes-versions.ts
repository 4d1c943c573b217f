/** Versions of EKS that this project's add-ons are pinned for, with the last day of AWS's standard support. */

interface KubernetesVersion {
  /** After it AWS updates the control plane to the next version by itself, because the cluster's upgrade policy is STANDARD. */
  readonly standardSupportUntil: string;
  /** Add-ons that are built for one version of Kubernetes, as EKS publishes them. */
  readonly addOns: { readonly "kube-proxy": string; readonly coredns: string };
  /** Image tag of the autoscaler: it simulates the scheduler of the same version. */
  readonly autoscaler: string;
}

export const KUBERNETES_VERSIONS = ["1.34", "1.35"] as const;
export type KubernetesVersionName = (typeof KUBERNETES_VERSIONS)[number];

export const DEFAULT_KUBERNETES_VERSION: KubernetesVersionName = "1.35";

/**
 * - Support: https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html, as of 2026-04-24.
 * - Add-ons: https://docs.aws.amazon.com/eks/latest/userguide/managing-kube-proxy.html and managing-coredns.html, as of 2026-08-20.
 *   EKS takes old builds back at some time: `aws eks describe-addon-versions` has what it offers today. Those of eks-cluster.ts are
 *   shared by all versions.
 * - Autoscaler: `appVersion` of its charts 9.53.0 and 9.54.0.
 */
export const kubernetesVersions: Readonly<Record<KubernetesVersionName, KubernetesVersion>> = {
  "1.34": {
    standardSupportUntil: "2026-12-02",
    addOns: { "kube-proxy": "v1.34.6-eksbuild.13", coredns: "v1.13.2-eksbuild.11" },
    autoscaler: "v1.34.2",
  },
  "1.35": {
    standardSupportUntil: "2027-03-27",
    addOns: { "kube-proxy": "v1.35.3-eksbuild.13", coredns: "v1.14.3-eksbuild.3" },
    autoscaler: "v1.35.0",
  },
};
