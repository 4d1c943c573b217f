/**
 * Charts that a stack installs into its cluster, with the values that differ from the charts' own. Helm ignores a key that a chart does
 * not read; eks-cluster.test.ts lists the keys that each pinned version reads.
 */
import type { ReleaseArgs } from "@pulumi/kubernetes/helm/v3/release.js";
import { type ChartName, installedCharts, kubernetesVersions, publishedCharts } from "../catalogue/aws.ts";
import { devicePluginConfigs, GPU_RESOURCE } from "../kubernetes/capacity.ts";
import { DATABASE_STORAGE_CLASS, GPU_EXPORTER_NAMESPACE, MONITORING_RELEASE, SYSTEM_NODES } from "./names.ts";
import type { ClusterParts } from "./node-pools.ts";
import { autoscalerRole, loadBalancerControllerRole, SYSTEM_NAMESPACE } from "./roles.ts";
import type { AwsContext, RolePlan } from "./types.ts";

export type ChartPlan = ReturnType<typeof chartPlans>[number];

/** How long Prometheus keeps metrics, and its disk. */
const RETENTION_DAYS = 15;
export const METRICS_DISK_GIB = 50;
/** Part of the disk for blocks; Prometheus writes a log beside them. */
const METRICS_GIB = 42;

/**
 * The chart's own limit of 512 MiB is what the exporter uses at rest, and with eight GPUs it is killed for memory repeatedly
 * (https://github.com/pytorch/ci-infra/issues/1011); its 0.2 CPUs are too few to answer for so many in time
 * (https://github.com/NVIDIA/dcgm-exporter/pull/741).
 */
const EXPORTER_LIMITS = { cpu: "1", memory: "1Gi" };

/**
 * Estimates for a cluster of some ten machines; the charts request nothing. Without a request a pod is evicted first where memory runs
 * short, and is scheduled onto a full machine.
 */
const CONTROLLER_REQUEST = { cpu: "50m", memory: "128Mi" };
const AUTOSCALER_REQUEST = { cpu: "100m", memory: "300Mi" };
const PROMETHEUS_REQUEST = { cpu: "200m", memory: "1Gi" };

const ON_SYSTEM_NODES = { nodeSelector: SYSTEM_NODES };
const TOLERATIONS = [{ key: GPU_RESOURCE, operator: "Exists", effect: "NoSchedule" }];
const OFF = { enabled: false };

interface Installation {
  /** Name of the release. */
  readonly release: string;
  /** @default `kube-system` */
  readonly namespace?: string;
  readonly values: Readonly<Record<string, unknown>>;
  readonly role?: RolePlan;
}

const installations: Readonly<Record<ChartName, (parts: ClusterParts, context: AwsContext) => Installation>> =
  {
    "device-plugin": (parts) => ({ release: "nvidia-device-plugin", values: devicePluginValues(parts) }),
    "dcgm-exporter": () => ({
      release: "dcgm-exporter",
      namespace: GPU_EXPORTER_NAMESPACE,
      values: {
        nodeSelector: { "nvidia.com/gpu.present": "true" },
        tolerations: TOLERATIONS,
        resources: { limits: EXPORTER_LIMITS },
        // The stack has a monitor of its own; two would count everything twice.
        serviceMonitor: OFF,
      },
    }),
    "cluster-autoscaler": ({ config }, context) => ({
      release: "cluster-autoscaler",
      values: {
        ...ON_SYSTEM_NODES,
        image: { tag: kubernetesVersions[config.cluster.version].autoscaler },
        awsRegion: context.region,
        resources: { requests: AUTOSCALER_REQUEST },
        rbac: { serviceAccount: { name: "cluster-autoscaler" } },
        extraArgs: {
          // Of two pools that hold a pod, the fuller one. By default the autoscaler never empties a machine whose pods have local
          // scratch, as servers and builds have.
          expander: "least-waste",
          // Machines with GPUs take minutes to start.
          "max-node-provision-time": "20m",
        },
      },
      role: autoscalerRole(context),
    }),
    "load-balancer-controller": (_, context) => ({
      release: "aws-load-balancer-controller",
      values: {
        ...ON_SYSTEM_NODES,
        // Otherwise it would ask the metadata service, which pods don't reach.
        region: context.region,
        resources: { requests: CONTROLLER_REQUEST },
        serviceAccount: { name: "aws-load-balancer-controller" },
        // Otherwise each update makes another certificate, which running pods of the controller read a minute later: until then the API
        // server refuses the stack's binding, and pods of the gateway are ready before the load balancer knows them.
        keepTLSSecret: true,
        // It registers pods in the target group of the stack's load balancer, and has rights for nothing else.
        createIngressClassResource: false,
        ingressClassParams: { create: false },
        enableServiceMutatorWebhook: false,
        // Ingresses belong to other controllers.
        webhookConfig: { disableIngressValidation: true },
        enableBackendSecurityGroup: false,
        controllerConfig: {
          featureGates: { EnableServiceController: false, ALBGatewayAPI: false, NLBGatewayAPI: false },
        },
      },
      role: loadBalancerControllerRole(context),
    }),
    keda: () => ({ release: "keda", namespace: "keda", values: ON_SYSTEM_NODES }),
    "kube-prometheus-stack": ({ cluster }, context) => ({
      release: MONITORING_RELEASE,
      namespace: cluster.monitoringNamespace,
      values: monitoringValues(context),
    }),
  };

export function chartPlans(parts: ClusterParts, context: AwsContext) {
  return installedCharts(parts.config.cluster.charts).map((name) => {
    const { chart, version, repository } = publishedCharts[name];
    const installation = installations[name](parts, context);
    return {
      name,
      args: {
        name: installation.release,
        chart,
        version,
        repositoryOpts: { repo: repository },
        namespace: installation.namespace ?? SYSTEM_NAMESPACE,
        values: installation.values,
      } satisfies ReleaseArgs,
      role: installation.role ?? null,
      /** Whether the chart claims a disk, which would stay if the cluster were deleted first. */
      hasDisk: name === "kube-prometheus-stack",
    };
  });
}

/** A configuration for each pool; the label `nvidia.com/device-plugin.config` of its machines chooses it. */
function devicePluginValues({ spec, cluster }: ClusterParts): Installation["values"] {
  const resourceOf = (pool: string) => cluster.pools[pool]?.gpuResource ?? null;
  const configs = Object.entries(devicePluginConfigs(spec.pools, resourceOf)).flatMap(([pool, config]) =>
    // JSON is YAML too. null is a problem of the stack file, which a check has found.
    config === null ? [] : [[pool, JSON.stringify(config)] as const],
  );
  return {
    config: {
      map: Object.fromEntries(configs),
      // The chart refuses several configurations without one for machines that choose none: those offer their GPUs whole.
      fallbackStrategies: ["empty"],
    },
    tolerations: TOLERATIONS,
  };
}

/**
 * By the chart's defaults Prometheus reads monitors and rules with the label `release` of this release in all namespaces, and Grafana
 * dashboards with `grafana_dashboard`. All of it is reached from inside of the cluster only.
 */
function monitoringValues({ isRetained }: AwsContext): Installation["values"] {
  return {
    // Run by EKS.
    ...{ kubeControllerManager: OFF, kubeEtcd: OFF, kubeScheduler: OFF },
    // That of EKS gives its metrics to its own machine only.
    kubeProxy: OFF,
    alertmanager: { alertmanagerSpec: ON_SYSTEM_NODES },
    grafana: ON_SYSTEM_NODES,
    "kube-state-metrics": ON_SYSTEM_NODES,
    prometheusOperator: { ...ON_SYSTEM_NODES, admissionWebhooks: { patch: ON_SYSTEM_NODES } },
    prometheus: {
      prometheusSpec: {
        ...ON_SYSTEM_NODES,
        resources: { requests: PROMETHEUS_REQUEST },
        retention: `${RETENTION_DAYS}d`,
        retentionSize: `${METRICS_GIB}GiB`,
        ...(isRetained
          ? {}
          : { persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete", whenScaled: "Retain" } }),
        storageSpec: {
          volumeClaimTemplate: {
            spec: {
              storageClassName: DATABASE_STORAGE_CLASS,
              accessModes: ["ReadWriteOnce"],
              resources: { requests: { storage: `${METRICS_DISK_GIB}Gi` } },
            },
          },
        },
      },
    },
  };
}
