/** Charts of others that a cluster on AWS runs, each pinned. */

export const CHART_NAMES = [
  "device-plugin",
  "dcgm-exporter",
  "cluster-autoscaler",
  "load-balancer-controller",
  "keda",
  "kube-prometheus-stack",
] as const;
export type ChartName = (typeof CHART_NAMES)[number];

/** `none`: it is not installed, and what needs it is not made; `existing`: it is there already. */
export const ADD_ON_CHOICES = ["install", "existing", "none"] as const;
export type AddOnChoice = (typeof ADD_ON_CHOICES)[number];

type Choices = Readonly<Partial<Record<ChartName, AddOnChoice>>>;

/** Whether a chart is there, be it installed by the stack or by somebody else. @param choices - Of the stack file. */
export function isInstalled(name: ChartName, choices: Choices): boolean {
  return (choices[name] ?? "install") !== "none";
}

/** Those that the stack installs itself, in the order of {@link CHART_NAMES}. */
export function installedCharts(choices: Choices): readonly ChartName[] {
  return CHART_NAMES.filter((name) => (choices[name] ?? "install") === "install");
}

interface PublishedChart {
  readonly chart: string;
  readonly version: string;
  readonly repository: string;
}

/** `Chart.yaml` of each project's repository at the tag of that version has the version, and its README the address. */
export const publishedCharts: Readonly<Record<ChartName, PublishedChart>> = {
  /** https://github.com/NVIDIA/k8s-device-plugin/tree/v0.20.0/deployments/helm/nvidia-device-plugin */
  "device-plugin": {
    chart: "nvidia-device-plugin",
    version: "0.20.0",
    repository: "https://nvidia.github.io/k8s-device-plugin",
  },
  /** https://github.com/NVIDIA/dcgm-exporter/tree/4.5.3-4.8.2/deployment */
  "dcgm-exporter": {
    chart: "dcgm-exporter",
    version: "4.8.2",
    repository: "https://nvidia.github.io/dcgm-exporter/helm-charts",
  },
  /** https://github.com/kubernetes/autoscaler/tree/cluster-autoscaler-chart-9.59.0 */
  "cluster-autoscaler": {
    chart: "cluster-autoscaler",
    version: "9.59.0",
    repository: "https://kubernetes.github.io/autoscaler",
  },
  /** https://github.com/aws/eks-charts/tree/master/stable/aws-load-balancer-controller */
  "load-balancer-controller": {
    chart: "aws-load-balancer-controller",
    version: "3.5.0",
    repository: "https://aws.github.io/eks-charts",
  },
  /** https://github.com/kedacore/charts/tree/v2.20.2/keda */
  keda: { chart: "keda", version: "2.20.2", repository: "https://kedacore.github.io/charts" },
  /** https://github.com/prometheus-community/helm-charts/tree/kube-prometheus-stack-88.5.3 */
  "kube-prometheus-stack": {
    chart: "kube-prometheus-stack",
    version: "88.5.3",
    repository: "https://prometheus-community.github.io/helm-charts",
  },
};
