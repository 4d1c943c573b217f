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
 *   EKS withdraws old builds at some time: `aws eks describe-addon-versions` has what it offers today.
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

/**
 * Add-ons that are built for all of these versions. Only `aws eks describe-addon-versions` lists them; these come from public
 * stack files that copied its answers between April and September 2026. Each was seen for 1.34 and for 1.35, or for a version below
 * and one above: EFS for 1.31, 1.35 and 1.36, EBS for 1.31, 1.35 and 1.36. None was asked for in an account; `npm run preflight` asks
 * EKS for each.
 *
 * - vpc-cni: https://docs.aws.amazon.com/eks/latest/userguide/managing-vpc-cni.html, 1.31 to 1.36.
 * - secrets: 1.33 and 1.34 too, and the default of 1.35: https://github.com/aws-controllers-k8s/test-infra/pull/983
 */
export const addOnVersions = {
  "vpc-cni": "v1.22.4-eksbuild.3",
  "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
  "aws-ebs-csi-driver": "v1.63.1-eksbuild.1",
  "aws-efs-csi-driver": "v3.4.1-eksbuild.1",
  "metrics-server": "v0.8.1-eksbuild.6",
  "aws-secrets-store-csi-driver-provider": "v3.1.1-eksbuild.1",
} as const;
