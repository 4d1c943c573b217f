/** Objects of Prometheus' operator, and ConfigMaps that Grafana's sidecar reads. */
import type { Labels } from "../labels.ts";

export interface MonitoringPlan {
  readonly monitors: readonly OperatorObject<ServiceMonitorSpec>[];
  readonly rules: OperatorObject<{ readonly groups: readonly RuleGroup[] }>;
  /** Grafana's JSON in one line with sorted keys: same plan, same bytes. */
  readonly dashboards: readonly { readonly name: string; readonly labels: Labels; readonly json: string }[];
}

/** In the namespace of the stack. */
interface OperatorObject<Spec> {
  readonly name: string;
  readonly labels: Labels;
  readonly spec: Spec;
}

/** https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.ServiceMonitor */
interface ServiceMonitorSpec {
  readonly selector: { readonly matchLabels: Labels };
  readonly namespaceSelector?: { readonly matchNames: readonly string[] };
  readonly endpoints: readonly ({ readonly port: string } & Readonly<Record<string, unknown>>)[];
}

export interface RuleGroup {
  readonly name: string;
  readonly rules: readonly Rule[];
}

/** https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/#rule */
interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Labels;
  readonly annotations?: Labels;
}
