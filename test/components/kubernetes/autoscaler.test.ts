import { expect, test } from "vitest";
import { Autoscaler } from "../../../components/kubernetes/autoscaler.ts";
import type { AutoscalerPlan } from "../../../infra/plan/kubernetes/operations-types.ts";
import type { Registration } from "../../../scripts/program/monitor.ts";
import { runProgram } from "../../../scripts/program/run-program.ts";

const plan: AutoscalerPlan = {
  name: "gpt",
  labels: { "app.kubernetes.io/instance": "demo" },
  deployment: "gpt",
  mechanism: "keda",
  replicas: { min: 0, max: 4 },
  metrics: [
    {
      name: "waiting-requests",
      series: { name: "waiting", labels: { namespace: "models", service: "gpt" } },
      query: 'sum(waiting{namespace="models",service="gpt"})',
      target: 16,
      activation: 0,
    },
  ],
  prometheusUrl: "http://prometheus.monitoring.svc:9090",
  scaleDownSeconds: 300,
  schedule: null,
};

/** What one autoscaler registers, without itself. */
async function objectsOf(changes: Partial<AutoscalerPlan>): Promise<readonly Registration[]> {
  const made: Registration[] = [];
  await runProgram({
    stack: "demo",
    config: { values: {}, secretKeys: [] },
    preview: false,
    owner: {
      register: async (registration) => {
        made.push(registration);
        return { id: registration.name, outputs: registration.inputs };
      },
      registerOutputs: () => undefined,
      fail: (error) => {
        throw error;
      },
    },
    program: async () => {
      new Autoscaler("gpt-autoscaler", { plan: { ...plan, ...changes }, namespace: "models", after: [] });
      return {};
    },
  });
  return made.filter(({ type }) => type.startsWith("kubernetes:"));
}

test("KEDA gets a ScaledObject for which an absent series is an error", async () => {
  const objects = await objectsOf({});
  expect(objects.map(({ type }) => type)).toEqual(["kubernetes:keda.sh/v1alpha1:ScaledObject"]);
  expect(objects[0]?.inputs).toMatchObject({
    metadata: { name: "gpt", namespace: "models" },
    spec: {
      scaleTargetRef: { name: "gpt" },
      minReplicaCount: 0,
      maxReplicaCount: 4,
      cooldownPeriod: 300,
      advanced: {
        horizontalPodAutoscalerConfig: { behavior: { scaleDown: { stabilizationWindowSeconds: 300 } } },
      },
      triggers: [
        {
          type: "prometheus",
          name: "waiting-requests",
          metadata: {
            serverAddress: "http://prometheus.monitoring.svc:9090",
            query: 'sum(waiting{namespace="models",service="gpt"})',
            threshold: "16",
            activationThreshold: "0",
            ignoreNullValues: "false",
          },
        },
      ],
    },
  });
});

test("a schedule is one more trigger", async () => {
  const schedule = { start: "0 8 * * 1-5", end: "0 20 * * 1-5", timeZone: "Europe/Berlin", replicas: 2 };
  const [object] = await objectsOf({ schedule });
  expect(object?.inputs.spec).toMatchObject({
    triggers: [
      { type: "prometheus" },
      {
        type: "cron",
        name: "schedule",
        metadata: {
          timezone: "Europe/Berlin",
          start: "0 8 * * 1-5",
          end: "0 20 * * 1-5",
          desiredReplicas: "2",
        },
      },
    ],
  });
});

test("without KEDA the same metrics are external ones of a HorizontalPodAutoscaler", async () => {
  const objects = await objectsOf({
    mechanism: "hpa",
    replicas: { min: 1, max: 4 },
    prometheusUrl: null,
  });
  expect(objects.map(({ type }) => type)).toEqual(["kubernetes:autoscaling/v2:HorizontalPodAutoscaler"]);
  expect(objects[0]?.inputs).toMatchObject({
    spec: {
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "gpt" },
      minReplicas: 1,
      maxReplicas: 4,
      metrics: [
        {
          type: "External",
          external: {
            metric: {
              name: "waiting",
              selector: { matchLabels: { namespace: "models", service: "gpt" } },
            },
            target: { type: "AverageValue", averageValue: "16" },
          },
        },
      ],
    },
  });
});
