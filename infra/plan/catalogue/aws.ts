/** AWS: regions, zones, networks, versions of Kubernetes on EKS, and the charts that a cluster there runs. */

/** Day on which the source of {@link REGION_NAMES} was published, ISO 8601. */
export const REGIONS_AS_OF = "2026-11-10";

/**
 * Every region whose services have the domain amazonaws.com, announced ones among them; those of China and of isolated clouds are
 * left out. In the order of the alphabet, GovCloud's last.
 *
 * Source: the table of partitions of AWS's SDK for JavaScript, `@aws-sdk/core` 3.981.0.
 */
export const REGION_NAMES: readonly string[] = [
  "af-south-1",
  "ap-east-1",
  "ap-east-2",
  "ap-northeast-1",
  "ap-northeast-2",
  "ap-northeast-3",
  "ap-south-1",
  "ap-south-2",
  "ap-southeast-1",
  "ap-southeast-2",
  "ap-southeast-3",
  "ap-southeast-4",
  "ap-southeast-5",
  "ap-southeast-6",
  "ap-southeast-7",
  "ca-central-1",
  "ca-west-1",
  "eu-central-1",
  "eu-central-2",
  "eu-north-1",
  "eu-south-1",
  "eu-south-2",
  "eu-west-1",
  "eu-west-2",
  "eu-west-3",
  "il-central-1",
  "me-central-1",
  "me-south-1",
  "me-west-1",
  "mx-central-1",
  "sa-east-1",
  "sa-west-1",
  "us-east-1",
  "us-east-2",
  "us-west-1",
  "us-west-2",
  "us-gov-east-1",
  "us-gov-west-1",
];

/** Whether the table has a region of that name. */
export function isRegion(name: string): boolean {
  return REGION_NAMES.includes(name);
}

/**
 * Partition of a region that has the domain amazonaws.com, be it newer than the table or not, as ARNs name it:
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html. GovCloud's regions have the domains and principals of all
 * others, and prices of their own.
 */
export function partitionOf(region: string): "aws" | "aws-us-gov" {
  return region.startsWith("us-gov-") ? "aws-us-gov" : "aws";
}

const WORDS: ReadonlySet<string> = new Set(REGION_NAMES.flatMap(wordsOf));

/**
 * Whether all words of a name occur in names of the table, as those of `us-west-9` do: AWS names new regions by known words and the
 * next number, so the name may be that of a region newer than the table.
 */
export function hasWordsOfRegions(name: string): boolean {
  return wordsOf(name).every((word) => WORDS.has(word));
}

/** Without the number at the end. */
function wordsOf(name: string): readonly string[] {
  return name.split("-").slice(0, -1);
}

/** Letters of the zones of a region, after its name; no region has more: us-east-1 has all six. */
export const ZONE_LETTERS = ["a", "b", "c", "d", "e", "f"] as const;
export type ZoneLetter = (typeof ZONE_LETTERS)[number];

/** Network that a stack creates by default. */
export const NETWORK_DEFAULTS = {
  zones: ["a", "b"],
  cidr: "10.64.0.0/16",
  nat: "one",
  endpoints: "free",
  flowLogs: true,
} as const;

interface ReservedNetwork {
  readonly cidr: string;
  /** Kind of its addresses, in a sentence for users. */
  readonly what: string;
  /** `machines`: machines of a private network may have them. `example`: for documents; a copied stack file may still have it. */
  readonly use: "machines" | "other" | "example";
}

/** https://www.iana.org/assignments/iana-ipv4-special-registry, without single addresses. */
export const RESERVED_NETWORKS: readonly ReservedNetwork[] = [
  { cidr: "0.0.0.0/8", what: "addresses of this network (RFC 1122)", use: "other" },
  { cidr: "10.0.0.0/8", what: "private addresses (RFC 1918)", use: "machines" },
  { cidr: "100.64.0.0/10", what: "addresses within a provider's network (RFC 6598)", use: "machines" },
  { cidr: "127.0.0.0/8", what: "addresses of a machine itself (RFC 1122)", use: "other" },
  { cidr: "169.254.0.0/16", what: "addresses of one link (RFC 3927)", use: "other" },
  { cidr: "172.16.0.0/12", what: "private addresses (RFC 1918)", use: "machines" },
  { cidr: "192.168.0.0/16", what: "private addresses (RFC 1918)", use: "machines" },
  { cidr: "198.18.0.0/15", what: "addresses for measurements (RFC 2544)", use: "machines" },
  { cidr: "224.0.0.0/4", what: "addresses of multicast (RFC 5771)", use: "other" },
  { cidr: "240.0.0.0/4", what: "reserved addresses (RFC 1112)", use: "other" },
  { cidr: "192.0.2.0/24", what: "addresses for examples (RFC 5737)", use: "example" },
  { cidr: "198.51.100.0/24", what: "addresses for examples (RFC 5737)", use: "example" },
  { cidr: "203.0.113.0/24", what: "addresses for examples (RFC 5737)", use: "example" },
];

interface KubernetesVersion {
  /** After it AWS updates the control plane to the next version by itself, because the cluster's upgrade policy is STANDARD. */
  readonly standardSupportUntil: string;
  /** Add-ons that are built for one version of Kubernetes, as EKS publishes them. */
  readonly addOns: { readonly "kube-proxy": string; readonly coredns: string };
  /** Image tag of the autoscaler: it simulates the scheduler of the same version. */
  readonly autoscaler: string;
}

export const KUBERNETES_VERSIONS = ["1.34", "1.35", "1.36"] as const;
type KubernetesVersionName = (typeof KUBERNETES_VERSIONS)[number];

export const DEFAULT_KUBERNETES_VERSION: KubernetesVersionName = "1.36";

/**
 * - Support: https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html, as of 2026-08; 1.36 came on 2026-06-02.
 * - Add-ons: https://docs.aws.amazon.com/eks/latest/userguide/managing-kube-proxy.html and managing-coredns.html, as of 2026-08-20.
 *   EKS withdraws old builds at some time: `aws eks describe-addon-versions` has what it offers today.
 * - Autoscaler: `appVersion` of its charts 9.53.0 and 9.54.0; 1.36.1 is a release whose chart is still to come
 *   (https://github.com/kubernetes/autoscaler/releases/tag/cluster-autoscaler-1.36.1), and runs by the pinned one.
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
  "1.36": {
    standardSupportUntil: "2027-08-02",
    addOns: { "kube-proxy": "v1.36.0-eksbuild.14", coredns: "v1.14.3-eksbuild.3" },
    autoscaler: "v1.36.1",
  },
};

/** Image tag of the autoscaler for a cluster that exists. @throws Error for a version that the table lacks. */
export function autoscalerTag(version: string): string {
  const row = Object.entries(kubernetesVersions).find(([name]) => name === version)?.[1];
  if (row === undefined)
    throw new Error(
      `The cluster has Kubernetes ${version}, and the autoscaler is pinned for ${KUBERNETES_VERSIONS.join(", ")}: write cluster.charts.cluster-autoscaler: existing, or none.`,
    );
  return row.autoscaler;
}

/**
 * Add-ons that are built for all of these versions. Only `aws eks describe-addon-versions` lists them; these come from public
 * stack files that copied its answers between April and September 2026. Each was seen for 1.36 and for a version up to 1.34. None was
 * asked for in an account; EKS refuses in `up` what it does not have.
 *
 * - vpc-cni: https://docs.aws.amazon.com/eks/latest/userguide/managing-vpc-cni.html, 1.31 to 1.36.
 * - secrets: 1.33, 1.34 and 1.36 too, and the default of 1.35: https://github.com/aws-controllers-k8s/test-infra/pull/983
 */
export const addOnVersions = {
  "vpc-cni": "v1.22.4-eksbuild.3",
  "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
  "aws-ebs-csi-driver": "v1.63.1-eksbuild.1",
  "aws-efs-csi-driver": "v3.4.1-eksbuild.1",
  "metrics-server": "v0.8.1-eksbuild.10",
  "aws-secrets-store-csi-driver-provider": "v3.1.1-eksbuild.1",
} as const;

/** https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html */
export const CONTROL_PLANE_LOGS = [
  "api",
  "audit",
  "authenticator",
  "controllerManager",
  "scheduler",
] as const;

/** Those that a stack may bring into an existing cluster: they are the same for all versions, and no machine needs them to join. */
export const ADDABLE_ADD_ONS = [
  "aws-ebs-csi-driver",
  "aws-efs-csi-driver",
  "aws-secrets-store-csi-driver-provider",
  "eks-pod-identity-agent",
  "metrics-server",
] as const;

export const CHART_NAMES = [
  "device-plugin",
  "dcgm-exporter",
  "cluster-autoscaler",
  "load-balancer-controller",
  "keda",
  "kube-prometheus-stack",
] as const;
/** Installed with `logs.cloudwatch`. */
export const LOG_CHART = "fluent-bit";
export type ChartName = (typeof CHART_NAMES)[number] | typeof LOG_CHART;

/** `none`: it is not installed, and objects that need it are not created; `existing`: the cluster has it. */
export const ADD_ON_CHOICES = ["install", "existing", "none"] as const;

type Choices = Readonly<Partial<Record<ChartName, (typeof ADD_ON_CHOICES)[number]>>>;

/** Whether the cluster has a chart, installed by the stack or by others. */
export function isInstalled(name: ChartName, choices: Choices): boolean {
  return (choices[name] ?? "install") !== "none";
}

/** Those that the stack installs itself, in the order of {@link CHART_NAMES}. */
export function installedCharts(cluster: ChosenCharts): readonly ChartName[] {
  return CHART_NAMES.filter((name) => choiceOf(name, cluster) === "install");
}

/** Whether `npx engine-room sleep` may end every machine: an existing autoscaler would start them again. */
export function sleepsWithoutMachines(cluster: ChosenCharts): boolean {
  return choiceOf("cluster-autoscaler", cluster) !== "existing";
}

interface ChosenCharts {
  readonly charts: Choices;
  readonly existing?: object | undefined;
}

function choiceOf(name: ChartName, { charts, existing }: ChosenCharts) {
  return charts[name] ?? (existing === undefined ? "install" : "existing");
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
  /** https://github.com/aws/eks-charts/tree/5239609242f3430be50fb0b714a24d3ef2b47983/stable/aws-for-fluent-bit */
  "fluent-bit": {
    chart: "aws-for-fluent-bit",
    version: "0.2.0",
    repository: "https://aws.github.io/eks-charts",
  },
};
