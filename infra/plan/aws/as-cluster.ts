/** A stack on EKS as one in a cluster that is there: everything of `platform: kubernetes` runs on it. */
import type { EksConfig } from "../../config/aws-stacks.ts";
import type { GpuStackConfig } from "../../config/config.ts";
import { withoutAccount } from "./account-keys.ts";
import { isInstalled } from "./charts.ts";
import { DATABASE_STORAGE_CLASS, ENGINE_VOLUME, MONITORING_RELEASE, POOL_LABEL } from "./names.ts";

type ClusterConfig = Extract<GpuStackConfig, { platform: "kubernetes" }>;

/** Of the claim of the engine store: Kubernetes wants a size, and EFS has none. */
const NOMINAL_STORE_GIB = 1024;

/** Where NVIDIA's chart of the exporter puts its Service: its own chart's names, not those of the GPU operator. */
const GPU_EXPORTER = {
  namespace: "gpu-metrics",
  labels: { "app.kubernetes.io/name": "dcgm-exporter" },
  port: "metrics",
} as const;

/** @returns null where the stack runs in no cluster. */
export function clusterConfigOf(config: GpuStackConfig): ClusterConfig | null {
  if (config.platform === "kubernetes") return config;
  return config.platform === "aws" && config.compute === "eks" ? eksAsCluster(config) : null;
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
    images: { ...config.images, pullSecrets: [] },
    // A load balancer of the stack stands before it, which ends TLS.
    gateway: { ...door, exposure: "internal" },
  };
}
