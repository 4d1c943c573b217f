/** What keeps a stack in a cluster at the right size, as data. */
import type { MetricSeries } from "../catalogue/metrics.ts";
import type { Labels } from "./pod-types.ts";

/** One number that an autoscaler looks at. */
interface ScalingMetric {
  /** Of the trigger: `waiting-requests`. */
  readonly name: string;
  /** As Prometheus' operator labels it: with `namespace` and `service`. */
  readonly series: MetricSeries;
  /** PromQL: the sum of the series; an empty answer is an error, never a zero. */
  readonly query: string;
  /** Value of one replica that is as busy as it should be. */
  readonly target: number;
  /** Value above which there is more than no replica at all; null where the least number is not 0. */
  readonly activation: number | null;
}

/** Owns the number of replicas of one Deployment. */
export interface AutoscalerPlan {
  readonly name: string;
  readonly labels: Labels;
  /** Name of the Deployment. */
  readonly deployment: string;
  /** `hpa`: metrics of the cluster's external metrics API. `keda`: a ScaledObject that asks Prometheus itself, and knows zero. */
  readonly mechanism: "hpa" | "keda";
  readonly replicas: { readonly min: number; readonly max: number };
  readonly metrics: readonly ScalingMetric[];
  /** Base URL of Prometheus, for KEDA. */
  readonly prometheusUrl: string | null;
  /** How long the load must stay low before a replica goes. */
  readonly scaleDownSeconds: number;
  /** When there are as many at least, whatever the metrics say; only with KEDA. */
  readonly schedule: ScheduledScaling | null;
}

/** Replicas at a time of the day: a stack that sleeps at night. */
interface ScheduledScaling {
  /** Five fields each, minute first. */
  readonly start: string;
  readonly end: string;
  /** Of the IANA database: `Europe/Berlin`. */
  readonly timeZone: string;
  readonly replicas: number;
}
