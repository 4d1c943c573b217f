/** A stack on AWS as one of the platform below: `kubernetes` in the cluster on EKS, `docker` on the EC2 instance. */
import type { AwsConfig, Ec2Config, EksConfig } from "../../config/aws-stacks.ts";
import type { GpuStackConfig } from "../../config/config.ts";
import { installedCharts, isInstalled } from "../catalogue/aws.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { SECRET_NAMES } from "../docker/host.ts";
import { type Cluster, kubernetesCluster } from "../kubernetes/cluster.ts";
import {
  BUILD_SERVICE_ACCOUNT,
  clusterWideNames,
  GPU_LABEL,
  gpuLabel,
  NOMINAL_STORE_GIB,
  poolSelector,
  pulledFrom,
  SECRET_FOLDER,
  STORE_FOLDER,
} from "./context.ts";

type ClusterConfig = Extract<GpuStackConfig, { platform: "kubernetes" }>;
type HostConfig = Extract<GpuStackConfig, { platform: "docker" }>;

/** Stands for a secret in a plan. */
const MASK = "[secret]";

/** Last part of the path at which builds find the hub's token. */
const TOKEN_FILE = "value";

/** Service of the exporter in cluster-software.yaml, as NVIDIA's own chart names it, not the GPU operator. */
const GPU_EXPORTER = {
  namespace: "gpu-metrics",
  labels: { "app.kubernetes.io/name": "dcgm-exporter" },
  port: "metrics",
};

/** The stack's cluster as its pods see it. */
export function eksCluster(config: EksConfig): Cluster {
  const cluster = kubernetesCluster(eksAsCluster(config));
  const { tokenSecretArn } = config.hub;
  // Pods are ready when the load balancer sends them requests, not before.
  const labels = { "elbv2.k8s.aws/pod-readiness-gate-inject": "enabled" };
  const readsBuckets = config.models.some(({ weights }) => weights?.from === "s3");
  const own = {
    ...cluster,
    namespace: { ...cluster.namespace, labels },
    bucketAccount: readsBuckets ? BUILD_SERVICE_ACCOUNT : null,
  };
  if (tokenSecretArn === undefined) return own;
  const provider = { className: "hub-token", serviceAccount: BUILD_SERVICE_ACCOUNT };
  const objects = { [TOKEN_FILE]: tokenSecretArn };
  return {
    ...own,
    hubToken: { name: provider.className, key: TOKEN_FILE, from: null, provider },
    secretProviders: [{ provider, kind: "aws", region: config.region, objects }],
  };
}

/** The stack file with the choices that EKS and its add-ons make. */
export function eksAsCluster(config: EksConfig): ClusterConfig {
  const { charts, existing } = config.cluster;
  const { engineVolume, databaseStorageClass: storageClass } = clusterWideNames(config);
  const isOwnExporter = existing === undefined || installedCharts(config.cluster).includes("dcgm-exporter");
  const { backupDays: _days, ...databaseStorage } = config.databaseStorage;
  return {
    ...config,
    platform: "kubernetes",
    // Buckets are read by a role, of which only the account knows.
    models: config.models.map(({ weights: _weights, ...model }) => model),
    pools: config.pools.map(({ otherInstanceTypes: _others, ...pool }) => ({
      ...pool,
      // A machine is one, however it is paid.
      capacity: pool.capacity === "capacityBlock" ? "onDemand" : pool.capacity,
      nodeSelector: { ...poolSelector(config, pool.name), ...gpuSelector(pool) },
      tolerations: [],
    })),
    priorityClasses: "create",
    monitoring: isInstalled("kube-prometheus-stack", charts) ? "prometheus-operator" : "none",
    monitoringOptions: {
      ...config.monitoringOptions,
      // By this label Prometheus of kube-prometheus-stack finds monitors and rules.
      labels: { release: "kube-prometheus-stack", ...config.monitoringOptions.labels },
      gpuExporter:
        isInstalled("dcgm-exporter", charts) &&
        (isOwnExporter ? GPU_EXPORTER : config.monitoringOptions.gpuExporter),
    },
    databaseStorage: { storageClass, ...databaseStorage },
    engineStore: {
      existingVolume: engineVolume,
      accessMode: "ReadWriteMany",
      sizeGiB: NOMINAL_STORE_GIB,
      readMBPerSecond: config.engineStore.readMBPerSecond,
    },
    hub: { token: config.hub.token },
    images: { ...pulledFrom(config), pullSecrets: [] },
    // The stack's load balancer in front of it ends TLS.
    gateway: ownGateway(config.gateway),
  };
}

/** The gateway without the keys of its load balancer. */
function ownGateway<G extends AwsConfig["gateway"]>(gateway: G) {
  const { tls: _tls, zoneId: _zoneId, hostname: _hostname, ...own } = gateway;
  const { allowedCidrs: _cidrs, wafAclArn: _acl, accessLogsBucket: _bucket, ...rest } = own;
  return { ...rest, exposure: "internal" as const };
}

/** Selects machines by the pool's GPU; empty only for a stack file with a problem. */
function gpuSelector({
  instanceType = "",
  machine,
}: Pick<EksConfig["pools"][number], "instanceType" | "machine">) {
  const gpu = machineTypes[instanceType]?.gpu || machine?.gpu;
  return gpu ? { [GPU_LABEL]: gpuLabel(gpu) } : {};
}

/** The stack file with the choices that the instance makes. */
export function ec2AsHost(config: Ec2Config): HostConfig {
  const { hub } = config;
  const [pool] = config.pools;
  const { replicas: _replicas, ...gateway } = ownGateway(config.gateway);
  return {
    ...config,
    platform: "docker",
    host: {
      uri: "unix:///var/run/docker.sock",
      // The instance's security group decides who reaches it.
      address: "0.0.0.0",
      instanceType: pool?.instanceType,
      machine: pool?.machine,
      hourlyUsd: pool?.hourlyUsd,
      diskGiB: pool?.diskGiB ?? 0,
    },
    images: pulledFrom(config),
    engineStore: { path: STORE_FOLDER, readMBPerSecond: config.engineStore.readMBPerSecond },
    hub:
      hub.token === undefined && hub.tokenSecretArn === undefined
        ? {}
        : { tokenFile: `${SECRET_FOLDER}/${SECRET_NAMES.hubToken}` },
    gateway,
  };
}

/** The stack file with every secret masked: plans are printed, compared and recorded. */
export function withoutSecrets<C extends AwsConfig>(config: C): C {
  const hub = masked(config.hub, "token");
  const { externalDatabases: external } = config;
  if (external === undefined) return { ...config, hub };
  const mongo = masked(external.mongo, "uri");
  const vector = masked(external.vector, "apiKey");
  return { ...config, hub, externalDatabases: { ...external, mongo, vector } };
}

function masked<T extends object, K extends keyof T>(holder: T, key: K): T {
  return holder[key] === undefined ? holder : { ...holder, [key]: MASK };
}
