/** A stack on EKS as one in a cluster that is there: everything of `platform: kubernetes` runs on it. */
import type { EksConfig } from "../../config/aws-stacks.ts";
import type { GpuStackConfig } from "../../config/config.ts";
import { isInstalled } from "../catalogue/charts.ts";
import { type Cluster, kubernetesCluster } from "../kubernetes/cluster.ts";
import { withoutAccount } from "./account-keys.ts";
import { pulledFrom } from "./context.ts";
import {
  BUILD_SERVICE_ACCOUNT,
  DATABASE_STORAGE_CLASS,
  ENGINE_VOLUME,
  GPU_EXPORTER_NAMESPACE,
  MONITORING_RELEASE,
  NOMINAL_STORE_GIB,
  POOL_LABEL,
} from "./names.ts";

type ClusterConfig = Extract<GpuStackConfig, { platform: "kubernetes" }>;

/** As the last part of the path at which builds find their token. */
const TOKEN_FILE = "value";

/** Where NVIDIA's chart of the exporter puts its Service: its own chart's names, not those of the GPU operator. */
const GPU_EXPORTER = {
  namespace: GPU_EXPORTER_NAMESPACE,
  labels: { "app.kubernetes.io/name": "dcgm-exporter" },
  port: "metrics",
} as const;

/** @returns null where the stack runs in no cluster. */
export function clusterConfigOf(config: GpuStackConfig): ClusterConfig | null {
  if (config.platform === "kubernetes") return config;
  return config.platform === "aws" && config.compute === "eks" ? eksAsCluster(config) : null;
}

/** The cluster that the stack makes, as its pods see it. */
export function eksCluster(config: EksConfig): Cluster {
  const cluster = kubernetesCluster(eksAsCluster(config));
  const tokenArn = config.hub.tokenSecretArn;
  const provider = { className: "hub-token", serviceAccount: BUILD_SERVICE_ACCOUNT };
  return {
    ...cluster,
    // Pods are ready when the load balancer sends them requests, not before.
    namespace: { ...cluster.namespace, labels: { "elbv2.k8s.aws/pod-readiness-gate-inject": "enabled" } },
    ...(tokenArn === undefined
      ? {}
      : {
          hubToken: { name: provider.className, key: TOKEN_FILE, from: null, provider },
          secretProviders: [
            { provider, kind: "aws", region: config.region, objects: { [TOKEN_FILE]: tokenArn } },
          ],
        }),
  };
}

/** The same stack, with what EKS and its add-ons decide filled in. */
export function eksAsCluster(config: EksConfig): ClusterConfig {
  const { cluster, pools, hub, engineStore, gateway, ...shared } = withoutAccount(config);
  const isMonitored = isInstalled("kube-prometheus-stack", cluster.charts);
  const { tls: _tls, zoneId: _zoneId, hostname: _hostname, ...door } = gateway;
  return {
    ...shared,
    platform: "kubernetes",
    pools: pools.map(({ zones: _zones, capacityReservationId: _reservation, warm: _warm, ...pool }) => ({
      ...pool,
      nodeSelector: { [POOL_LABEL]: pool.name },
      tolerations: [],
    })),
    retain: config.retain,
    priorityClasses: "create",
    monitoring: isMonitored ? "prometheus-operator" : "none",
    monitoringOptions: {
      ...config.monitoringOptions,
      labels: { release: MONITORING_RELEASE, ...config.monitoringOptions.labels },
      gpuExporter: isInstalled("dcgm-exporter", cluster.charts) ? GPU_EXPORTER : false,
    },
    databaseStorage: { storageClass: DATABASE_STORAGE_CLASS, ...config.databaseStorage },
    engineStore: {
      existingVolume: ENGINE_VOLUME,
      accessMode: "ReadWriteMany",
      sizeGiB: NOMINAL_STORE_GIB,
      readMBPerSecond: engineStore.readMBPerSecond,
    },
    hub: { token: hub.token },
    images: { ...pulledFrom(config), pullSecrets: [] },
    // A load balancer of the stack stands before it, which ends TLS.
    gateway: { ...door, exposure: "internal" },
  };
}
