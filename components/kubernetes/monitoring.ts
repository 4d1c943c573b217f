/**
 * Objects that Prometheus' operator and Grafana's sidecar read. Cost: none but their own storage. Needs the operator's CRDs
 * (monitoring.coreos.com) in the cluster, a Prometheus that selects the labels of monitors and rules in this namespace, and a
 * sidecar that looks for dashboards in all namespaces.
 */
import { CustomResource } from "@pulumi/kubernetes/apiextensions/customResource.js";
import { ConfigMap } from "@pulumi/kubernetes/core/v1/configMap.js";
import * as pulumi from "@pulumi/pulumi";
import type { MonitoringPlan } from "../../infra/plan/kubernetes/monitoring/types.ts";

const apiVersion = "monitoring.coreos.com/v1";

interface MonitoringArgs {
  readonly plan: MonitoringPlan;
  readonly namespace: pulumi.Input<string>;
}

export class Monitoring extends pulumi.ComponentResource {
  constructor(
    name: string,
    { plan: { monitors, rules, dashboards }, namespace }: MonitoringArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:kubernetes:Monitoring", name, {}, opts);
    const parent = { parent: this };

    for (const { name: monitor, labels, spec } of monitors) {
      const metadata = { name: monitor, namespace, labels };
      new CustomResource(
        `${name}-${monitor}`,
        { apiVersion, kind: "ServiceMonitor", metadata, spec },
        parent,
      );
    }
    const metadata = { name: rules.name, namespace, labels: rules.labels };
    new CustomResource(
      `${name}-rules`,
      { apiVersion, kind: "PrometheusRule", metadata, spec: rules.spec },
      parent,
    );
    // The name stays while the content changes, so that Grafana keeps the dashboard's address.
    for (const { name: dashboard, labels, json } of dashboards) {
      new ConfigMap(
        `${name}-${dashboard}`,
        { metadata: { name: dashboard, namespace, labels }, data: { [`${dashboard}.json`]: json } },
        parent,
      );
    }
    this.registerOutputs({});
  }
}
