/**
 * What each chart is told. Values that a chart has by itself are left out. Helm takes a key that a chart does not read without a
 * word; eks-cluster.test.ts has those that each pinned version reads. Pure.
 */
import type { EksConfig } from "../../config/aws-stacks.ts";
import type { ChartName } from "../catalogue/charts.ts";
import { kubernetesVersions } from "../catalogue/kubernetes-versions.ts";
import { devicePluginConfigs } from "../kubernetes/device-plugin-config.ts";
import { GPU_RESOURCE } from "../kubernetes/gpu-resource.ts";
import type { PoolSpec } from "../spec.ts";
import { DATABASE_STORAGE_CLASS, SYSTEM_NODES } from "./names.ts";
import { placeholder } from "./placeholders.ts";

/** Of what charts are told that is known only when the cluster is there. */
const CLUSTER_NAME = placeholder("clusterName");
const VPC_ID = placeholder("vpcId");

/** How long Prometheus remembers, and the room that it has for it. */
const RETENTION_DAYS = 15;
export const METRICS_DISK_GIB = 50;
/** Of the disk: Prometheus needs room beside its blocks for the log that it writes first. */
const METRICS_GIB = 42;

/**
 * The chart's own limit of 512 MiB is what the exporter takes at rest, and with eight GPUs it is killed for memory again and again
 * (https://github.com/pytorch/ci-infra/issues/1011); its 200 thousandths of a CPU are too few to answer for so many in time
 * (https://github.com/NVIDIA/dcgm-exporter/pull/741).
 */
const EXPORTER_LIMITS = { cpu: "1", memory: "1Gi" } as const;

/**
 * Estimates of what they take in a cluster of some ten machines, where the charts ask for nothing. Without a request, a pod is the
 * first to go where memory runs short, and a machine that is full takes it all the same.
 */
const CONTROLLER_REQUEST = { cpu: "50m", memory: "128Mi" } as const;
const AUTOSCALER_REQUEST = { cpu: "100m", memory: "300Mi" } as const;
const PROMETHEUS_REQUEST = { cpu: "200m", memory: "1Gi" } as const;

const GPU_NODES = {
  nodeSelector: { "nvidia.com/gpu.present": "true" },
  tolerations: [{ key: GPU_RESOURCE, operator: "Exists", effect: "NoSchedule" }],
} as const;

interface ChartInputs {
  readonly config: EksConfig;
  readonly region: string;
  readonly pools: readonly PoolSpec[];
  /** Name of the resource that a pool has in the stack file; null: the plugin's own. */
  readonly resourceOf: (pool: string) => string | null;
  /** Whether what the stack has stored outlives it. */
  readonly isRetained: boolean;
}

type Values = Readonly<Record<string, unknown>>;

export const chartValues: Readonly<Record<ChartName, (inputs: ChartInputs) => Values>> = {
  "device-plugin": devicePluginValues,
  "dcgm-exporter": () => ({
    ...GPU_NODES,
    resources: { limits: EXPORTER_LIMITS },
    // The stack's own monitor reads it: two readers would count everything twice.
    serviceMonitor: { enabled: false },
  }),
  "cluster-autoscaler": autoscalerValues,
  "load-balancer-controller": ({ region }) => ({
    clusterName: CLUSTER_NAME,
    // It would ask the metadata service otherwise, which pods don't reach.
    region,
    vpcId: VPC_ID,
    nodeSelector: SYSTEM_NODES,
    resources: { requests: CONTROLLER_REQUEST },
    serviceAccount: { name: "aws-load-balancer-controller" },
    // Else each update makes another certificate, which pods of the controller that run already read a minute later: until then
    // the API server refuses the stack's binding, and lets pods of the gateway be ready before the load balancer knows them.
    keepTLSSecret: true,
    // It puts pods into the target group of the stack's load balancer, and has rights for nothing else.
    createIngressClassResource: false,
    ingressClassParams: { create: false },
    enableServiceMutatorWebhook: false,
    // Ingresses of other controllers are none of its business.
    webhookConfig: { disableIngressValidation: true },
    enableBackendSecurityGroup: false,
    controllerConfig: {
      featureGates: { EnableServiceController: false, ALBGatewayAPI: false, NLBGatewayAPI: false },
    },
  }),
  keda: () => ({ nodeSelector: SYSTEM_NODES }),
  "kube-prometheus-stack": monitoringValues,
};

/** One configuration a pool; the label `nvidia.com/device-plugin.config` of its machines chooses it. */
function devicePluginValues({ pools, resourceOf }: ChartInputs): Values {
  const configs = Object.entries(devicePluginConfigs(pools, resourceOf)).flatMap(([pool, config]) =>
    // JSON is YAML too. What the plugin can't be told is a problem of the stack file, found before.
    config === null ? [] : [[pool, JSON.stringify(config)] as const],
  );
  return {
    config: {
      map: Object.fromEntries(configs),
      // The chart refuses several configurations without one for machines that choose none. Those of pools all do; another
      // machine gives its GPUs whole, as the plugin does by itself.
      fallbackStrategies: ["empty"],
    },
    tolerations: GPU_NODES.tolerations,
  };
}

function autoscalerValues({ config, region }: ChartInputs): Values {
  return {
    image: { tag: kubernetesVersions[config.cluster.version].autoscaler },
    autoDiscovery: { clusterName: CLUSTER_NAME },
    awsRegion: region,
    nodeSelector: SYSTEM_NODES,
    resources: { requests: AUTOSCALER_REQUEST },
    rbac: { serviceAccount: { name: "cluster-autoscaler" } },
    extraArgs: {
      // Of two pools that hold a pod, the one that it fills more. A machine whose pods have scratch of their own, as servers and
      // builds have, is never emptied: the autoscaler's default.
      expander: "least-waste",
      // Machines with GPUs take minutes to start.
      "max-node-provision-time": "20m",
    },
  };
}

/**
 * Prometheus reads monitors and rules with the label `release` of this chart's release, in all namespaces, and Grafana dashboards
 * with `grafana_dashboard`: the chart's own defaults. Nothing of it is reached from outside of the cluster.
 */
function monitoringValues({ isRetained }: ChartInputs): Values {
  const onSystemNodes = { nodeSelector: SYSTEM_NODES };
  const managedByEks = { enabled: false };
  return {
    kubeControllerManager: managedByEks,
    kubeEtcd: managedByEks,
    kubeScheduler: managedByEks,
    // Of EKS, it gives its metrics to its own machine only.
    kubeProxy: { enabled: false },
    alertmanager: { alertmanagerSpec: onSystemNodes },
    grafana: onSystemNodes,
    "kube-state-metrics": onSystemNodes,
    prometheusOperator: {
      ...onSystemNodes,
      admissionWebhooks: { patch: onSystemNodes },
    },
    prometheus: {
      prometheusSpec: {
        ...onSystemNodes,
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
