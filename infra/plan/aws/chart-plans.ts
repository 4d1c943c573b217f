/** Charts that a stack installs into its cluster. Pure. */
import { type ChartName, installedCharts, publishedCharts } from "../catalogue/charts.ts";
import type { EksPlan } from "../gpu-stack.ts";
import { chartValues } from "./chart-values.ts";
import { GPU_EXPORTER_NAMESPACE, MONITORING_RELEASE } from "./names.ts";
import { autoscalerRole, loadBalancerControllerRole, SYSTEM_NAMESPACE } from "./role-plans.ts";
import type { AwsContext, ChartPlan, RolePlan } from "./types.ts";

interface Installation {
  readonly release: string;
  readonly namespace: string;
}

const inSystem = (release: string): Installation => ({ release, namespace: SYSTEM_NAMESPACE });

const installations: Readonly<Record<ChartName, Installation>> = {
  "device-plugin": inSystem("nvidia-device-plugin"),
  "dcgm-exporter": { release: "dcgm-exporter", namespace: GPU_EXPORTER_NAMESPACE },
  "cluster-autoscaler": inSystem("cluster-autoscaler"),
  "load-balancer-controller": inSystem("aws-load-balancer-controller"),
  keda: { release: "keda", namespace: "keda" },
  // Its namespace is where the stack expects Prometheus.
  "kube-prometheus-stack": { release: MONITORING_RELEASE, namespace: "" },
};

const roles: Readonly<Partial<Record<ChartName, (context: AwsContext) => RolePlan>>> = {
  "cluster-autoscaler": autoscalerRole,
  "load-balancer-controller": loadBalancerControllerRole,
};

export function chartPlans({ config, spec, cluster }: EksPlan, context: AwsContext): readonly ChartPlan[] {
  const { region } = context;
  const { pools } = spec;
  const resourceOf = (pool: string) => cluster.pools[pool]?.gpuResource ?? null;
  return installedCharts(config.cluster.charts).map((name) => ({
    name,
    ...publishedCharts[name],
    ...installations[name],
    ...(name === "kube-prometheus-stack" ? { namespace: cluster.monitoringNamespace } : {}),
    values: chartValues[name]({ config, region, pools, resourceOf, isRetained: context.isRetained }),
    role: roles[name]?.(context) ?? null,
    hasDisk: name === "kube-prometheus-stack",
  }));
}
