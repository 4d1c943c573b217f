/** Owns the number of pods of a Deployment. Cost: none; `keda` needs KEDA's operator, `hpa` an adapter of metrics. */
import { CustomResource } from "@pulumi/kubernetes/apiextensions/customResource.js";
import { HorizontalPodAutoscaler } from "@pulumi/kubernetes/autoscaling/v2/horizontalPodAutoscaler.js";
import * as pulumi from "@pulumi/pulumi";
import type { AutoscalerPlan } from "../../infra/plan/kubernetes/operations-types.ts";

interface AutoscalerArgs {
  readonly plan: AutoscalerPlan;
  readonly namespace: pulumi.Input<string>;
  /** The Deployment, which is there once its engine is. */
  readonly after: readonly pulumi.Resource[];
}

/** How often KEDA asks: twice in the time between two of Prometheus' looks. */
const POLLING_SECONDS = 15;

export class Autoscaler extends pulumi.ComponentResource {
  constructor(name: string, args: AutoscalerArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:Autoscaler", name, {}, opts);

    const own = { parent: this, dependsOn: [...args.after] };
    if (args.plan.mechanism === "keda") createScaledObject(name, args, own);
    else createHorizontal(name, args, own);
    this.registerOutputs({});
  }
}

function createScaledObject(
  name: string,
  { plan, namespace }: AutoscalerArgs,
  opts: pulumi.CustomResourceOptions,
): CustomResource {
  const { min, max } = plan.replicas;
  return new CustomResource(
    `${name}-scaled-object`,
    {
      apiVersion: "keda.sh/v1alpha1",
      kind: "ScaledObject",
      metadata: { name: plan.name, namespace, labels: { ...plan.labels } },
      spec: {
        scaleTargetRef: { name: plan.deployment },
        minReplicaCount: min,
        maxReplicaCount: max,
        pollingInterval: POLLING_SECONDS,
        cooldownPeriod: plan.scaleDownSeconds,
        advanced: { horizontalPodAutoscalerConfig: { behavior: behavior(plan) } },
        triggers: [...metricTriggers(plan), ...scheduleTriggers(plan)],
      },
    },
    opts,
  );
}

function metricTriggers({ metrics, prometheusUrl }: AutoscalerPlan) {
  return metrics.map(({ name, query, target, activation }) => ({
    type: "prometheus",
    name,
    metadata: {
      serverAddress: prometheusUrl,
      query,
      threshold: String(target),
      ...(activation === null ? {} : { activationThreshold: String(activation) }),
      // A series that is away is an error: servers stay as they are.
      ignoreNullValues: "false",
    },
  }));
}

function scheduleTriggers({ schedule }: AutoscalerPlan) {
  if (schedule === null) return [];
  const { start, end, timeZone, replicas } = schedule;
  return [
    {
      type: "cron",
      name: "schedule",
      metadata: { timezone: timeZone, start, end, desiredReplicas: String(replicas) },
    },
  ];
}

function createHorizontal(
  name: string,
  { plan, namespace }: AutoscalerArgs,
  opts: pulumi.CustomResourceOptions,
): HorizontalPodAutoscaler {
  return new HorizontalPodAutoscaler(
    `${name}-horizontal`,
    {
      metadata: {
        name: plan.name,
        namespace,
        labels: { ...plan.labels },
        // It is ready once metrics have come, which may be after the first request.
        annotations: { "pulumi.com/skipAwait": "true" },
      },
      spec: {
        scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: plan.deployment },
        minReplicas: plan.replicas.min,
        maxReplicas: plan.replicas.max,
        behavior: behavior(plan),
        metrics: plan.metrics.map(({ series, target }) => ({
          type: "External",
          external: {
            metric: { name: series.name, selector: { matchLabels: { ...series.labels } } },
            target: { type: "AverageValue", averageValue: String(target) },
          },
        })),
      },
    },
    opts,
  );
}

function behavior({ scaleDownSeconds }: AutoscalerPlan) {
  return { scaleDown: { stabilizationWindowSeconds: scaleDownSeconds } };
}
