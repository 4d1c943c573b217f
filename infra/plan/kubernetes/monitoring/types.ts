/** What Prometheus' operator and Grafana's sidecar read, as data. */
import type { Labels } from "../pod-types.ts";

/** A ServiceMonitor: the Services that Prometheus reads metrics of. */
export interface MonitorPlan {
  readonly name: string;
  readonly labels: Labels;
  /** Namespace of the Services; null: the stack's. */
  readonly namespace: string | null;
  /** Labels of the Services. */
  readonly selector: Labels;
  /** Name of a port of the Services. */
  readonly port: string;
  readonly intervalSeconds: number;
  /**
   * Value of the label `job`, where the series tell of other pods than the one that they are read from; those keep their own
   * labels then, and `node` is the machine that they were read on. null: the name of the Service.
   */
  readonly job: string | null;
}

/** An alert, and what to do then. */
export interface AlertPlan {
  readonly name: AlertName;
  /** Tell rules of one name apart; sorted. */
  readonly labels: Labels;
  /** PromQL; alerts while it has a value. */
  readonly expression: string;
  readonly forSeconds: number;
  readonly severity: "critical" | "warning";
  /** With Prometheus' own templates: `{{ $labels.model }}`. */
  readonly summary: string;
  /** URL of {@link ALERT_NAMES}'s file in docs/runbooks, or its path where no URL is configured. */
  readonly runbook: string;
}

/** A series that says something of the plan itself. */
export interface RecordedPlan {
  readonly record: string;
  readonly expression: string;
  readonly labels: Labels;
}

/** One of Grafana's dashboards. */
export interface DashboardPlan {
  /** Of its ConfigMap. */
  readonly name: string;
  readonly labels: Labels;
  /** Grafana's JSON: same plan, same bytes. */
  readonly json: string;
}

/** All of it. */
export interface MonitoringPlan {
  readonly monitors: readonly MonitorPlan[];
  readonly rules: {
    readonly name: string;
    readonly labels: Labels;
    readonly alerts: readonly AlertPlan[];
    readonly recorded: readonly RecordedPlan[];
  };
  readonly dashboards: readonly DashboardPlan[];
}

/** Each has a file of its name in docs/runbooks. */
export const ALERT_NAMES = [
  "EngineRoomBuildFailed",
  "EngineRoomConnectionsRefused",
  "EngineRoomDatabaseFails",
  "EngineRoomFirstTokenSlow",
  "EngineRoomGatewayFull",
  "EngineRoomGpuError",
  "EngineRoomGpuMemoryFault",
  "EngineRoomKvCacheFull",
  "EngineRoomModelAway",
  "EngineRoomRequestsFail",
  "EngineRoomRequestsWait",
  "EngineRoomScalingSeriesAbsent",
  "EngineRoomTargetAbsent",
  "EngineRoomTargetDown",
  "EngineRoomTritonFails",
  "EngineRoomVolumeFull",
] as const;
type AlertName = (typeof ALERT_NAMES)[number];
