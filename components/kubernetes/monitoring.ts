/**
 * What Prometheus' operator and Grafana's sidecar read. Cost: none but their own storage. Needs the operator's CRDs (monitoring.coreos.com)
 * in the cluster, a Prometheus that selects the labels of monitors and rules in this namespace, and a sidecar that looks for
 * dashboards in all namespaces.
 */
import { CustomResource } from "@pulumi/kubernetes/apiextensions/customResource.js";
import { ConfigMap } from "@pulumi/kubernetes/core/v1/configMap.js";
import * as pulumi from "@pulumi/pulumi";
import type {
  AlertPlan,
  DashboardPlan,
  MonitoringPlan,
  MonitorPlan,
  RecordedPlan,
} from "../../infra/plan/kubernetes/monitoring/types.ts";

const API_VERSION = "monitoring.coreos.com/v1";

/**
 * Label `node` of what is read from the pod of a machine. The exporter of GPUs names the machine too, by `Hostname` up to 4.8.2 and by
 * `hostname` after it: https://github.com/NVIDIA/dcgm-exporter/pull/655
 */
const MACHINE_OF_POD = { sourceLabels: ["__meta_kubernetes_pod_node_name"], targetLabel: "node" } as const;

interface MonitoringArgs {
  readonly plan: MonitoringPlan;
  readonly namespace: pulumi.Input<string>;
}

export class Monitoring extends pulumi.ComponentResource {
  constructor(name: string, { plan, namespace }: MonitoringArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:Monitoring", name, {}, opts);

    for (const monitor of plan.monitors) this.#createMonitor(name, monitor, namespace);
    this.#createRules(name, plan.rules, namespace);
    for (const dashboard of plan.dashboards) this.#createDashboard(name, dashboard, namespace);
    this.registerOutputs({});
  }

  #createMonitor(name: string, plan: MonitorPlan, namespace: pulumi.Input<string>): CustomResource {
    const { job, intervalSeconds, port } = plan;
    return new CustomResource(
      `${name}-${plan.name}`,
      {
        apiVersion: API_VERSION,
        kind: "ServiceMonitor",
        metadata: { name: plan.name, namespace, labels: { ...plan.labels } },
        spec: {
          selector: { matchLabels: { ...plan.selector } },
          ...(plan.namespace === null ? {} : { namespaceSelector: { matchNames: [plan.namespace] } }),
          endpoints: [
            {
              port,
              path: "/metrics",
              interval: `${intervalSeconds}s`,
              ...(job === null
                ? {}
                : {
                    honorLabels: true,
                    relabelings: [{ targetLabel: "job", replacement: job }, MACHINE_OF_POD],
                  }),
            },
          ],
        },
      },
      { parent: this },
    );
  }

  #createRules(
    name: string,
    rules: MonitoringPlan["rules"],
    namespace: pulumi.Input<string>,
  ): CustomResource {
    return new CustomResource(
      `${name}-rules`,
      {
        apiVersion: API_VERSION,
        kind: "PrometheusRule",
        metadata: { name: rules.name, namespace, labels: { ...rules.labels } },
        spec: { groups: ruleGroups(rules) },
      },
      { parent: this },
    );
  }

  /** Its name stays, so that Grafana keeps the dashboard's address while its content changes. */
  #createDashboard(name: string, plan: DashboardPlan, namespace: pulumi.Input<string>): ConfigMap {
    return new ConfigMap(
      `${name}-${plan.name}`,
      {
        metadata: { name: plan.name, namespace, labels: { ...plan.labels } },
        data: { [`${plan.name}.json`]: plan.json },
      },
      { parent: this },
    );
  }
}

/** Groups of rules, as a PrometheusRule and a file of Prometheus alike have them. */
export function ruleGroups({ alerts, recorded }: MonitoringPlan["rules"]) {
  return [
    { name: "engine-room-plan", rules: recorded.map(recordingRule) },
    { name: "engine-room-alerts", rules: alerts.map(alertingRule) },
  ];
}

function recordingRule({ record, expression, labels }: RecordedPlan) {
  return { record, expr: expression, labels: { ...labels } };
}

function alertingRule({ name, labels, expression, forSeconds, severity, summary, runbook }: AlertPlan) {
  return {
    alert: name,
    expr: expression,
    ...(forSeconds === 0 ? {} : { for: `${forSeconds}s` }),
    labels: { ...labels, severity },
    annotations: { summary, runbook_url: runbook },
  };
}
