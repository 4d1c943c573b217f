import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { ChartPlan } from "../../../../infra/plan/aws/types.ts";
import { CHART_NAMES, type ChartName, publishedCharts } from "../../../../infra/plan/catalogue/charts.ts";
import { eksValues, plannedCluster, shippedCluster } from "./eks-plans.ts";

const onSystemNodes = { nodeSelector: z.strictObject({ "engine-room/pool": z.literal("system") }) };
const cpu = z.string().regex(/^\d+m?$/);
const memory = z.string().regex(/^\d+[MG]i$/);
const requests = z.strictObject({ requests: z.strictObject({ cpu, memory }) });
const tolerations = z.array(
  z.strictObject({ key: z.string(), operator: z.literal("Exists"), effect: z.literal("NoSchedule") }),
);
const disabled = z.strictObject({ enabled: z.literal(false) });

/**
 * The part of each chart's values that is written, as `values.yaml` and the templates of that version read it: Helm takes any
 * other key, and nothing comes of it. Another version of a chart is read anew.
 */
const written: Readonly<Record<ChartName, { readonly version: string; readonly values: z.ZodType }>> = {
  "device-plugin": {
    version: "0.20.0",
    values: z.strictObject({
      config: z.strictObject({
        map: z.record(z.string(), z.string()),
        // templates/validation.yml: several configurations are refused without one for machines that choose none.
        fallbackStrategies: z.tuple([z.literal("empty")]),
      }),
      tolerations,
    }),
  },
  "dcgm-exporter": {
    version: "4.8.2",
    values: z.strictObject({
      nodeSelector: z.strictObject({ "nvidia.com/gpu.present": z.literal("true") }),
      tolerations,
      resources: z.strictObject({ limits: z.strictObject({ cpu, memory }) }),
      serviceMonitor: disabled,
    }),
  },
  "cluster-autoscaler": {
    version: "9.59.0",
    values: z.strictObject({
      ...onSystemNodes,
      image: z.strictObject({ tag: z.string().regex(/^v1\.\d+\.\d+$/) }),
      autoDiscovery: z.strictObject({ clusterName: z.string() }),
      awsRegion: z.string(),
      resources: requests,
      rbac: z.strictObject({ serviceAccount: z.strictObject({ name: z.string() }) }),
      // Each is a flag of the program: cluster-autoscaler/FAQ.md.
      extraArgs: z.strictObject({
        expander: z.enum(["random", "most-pods", "least-waste", "least-nodes", "price", "priority"]),
        "max-node-provision-time": z.string().regex(/^\d+m$/),
      }),
    }),
  },
  "load-balancer-controller": {
    version: "3.5.0",
    values: z.strictObject({
      ...onSystemNodes,
      clusterName: z.string(),
      region: z.string(),
      vpcId: z.string(),
      resources: requests,
      serviceAccount: z.strictObject({ name: z.string() }),
      keepTLSSecret: z.literal(true),
      createIngressClassResource: z.literal(false),
      ingressClassParams: z.strictObject({ create: z.literal(false) }),
      enableServiceMutatorWebhook: z.literal(false),
      webhookConfig: z.strictObject({ disableIngressValidation: z.literal(true) }),
      enableBackendSecurityGroup: z.literal(false),
      controllerConfig: z.strictObject({
        // Names of pkg/config/feature_gates.go; the controller ends at another one.
        featureGates: z.strictObject({
          EnableServiceController: z.literal(false),
          ALBGatewayAPI: z.literal(false),
          NLBGatewayAPI: z.literal(false),
        }),
      }),
    }),
  },
  keda: { version: "2.20.2", values: z.strictObject(onSystemNodes) },
  "kube-prometheus-stack": {
    version: "88.5.3",
    values: z.strictObject({
      kubeControllerManager: disabled,
      kubeEtcd: disabled,
      kubeScheduler: disabled,
      kubeProxy: disabled,
      alertmanager: z.strictObject({ alertmanagerSpec: z.strictObject(onSystemNodes) }),
      grafana: z.strictObject(onSystemNodes),
      "kube-state-metrics": z.strictObject(onSystemNodes),
      prometheusOperator: z.strictObject({
        ...onSystemNodes,
        admissionWebhooks: z.strictObject({ patch: z.strictObject(onSystemNodes) }),
      }),
      prometheus: z.strictObject({
        prometheusSpec: z.strictObject({
          ...onSystemNodes,
          resources: requests,
          retention: z.string().regex(/^\d+d$/),
          retentionSize: z.string().regex(/^\d+GiB$/),
          persistentVolumeClaimRetentionPolicy: z
            .strictObject({ whenDeleted: z.literal("Delete"), whenScaled: z.literal("Retain") })
            .optional(),
          storageSpec: z.strictObject({
            volumeClaimTemplate: z.strictObject({
              spec: z.strictObject({
                storageClassName: z.string(),
                accessModes: z.tuple([z.literal("ReadWriteOnce")]),
                resources: z.strictObject({ requests: z.strictObject({ storage: memory }) }),
              }),
            }),
          }),
        }),
      }),
    }),
  },
};

/** Two pools with GPUs, of which one is divided. */
const divided = {
  pools: [
    ...eksValues.pools,
    { name: "shared", instanceType: "g5.4xlarge", sharing: { mode: "mps", replicas: 2 } },
  ],
  models: [{ ...eksValues.models[0], pool: "gpu" }],
};

const stacks: readonly (readonly [string, () => readonly ChartPlan[]])[] = [
  ["dev", () => shippedCluster("dev").cluster.charts],
  ["prod", () => shippedCluster("prod").cluster.charts],
  ["a stack with a divided pool", () => plannedCluster(divided).cluster.charts],
];

function valuesOf(charts: readonly ChartPlan[], name: ChartName): unknown {
  return charts.find((chart) => chart.name === name)?.values;
}

describe.each(CHART_NAMES)("%s", (name) => {
  const { version, values } = written[name];

  test("is of the version whose values were read", () => {
    expect(publishedCharts[name].version).toBe(version);
  });

  test.each(stacks)("is told by %s what it reads, and nothing else", (_stack, charts) => {
    const told = valuesOf(charts(), name);
    expect(values.parse(told)).toEqual(told);
    expect(values.safeParse({ ...(told as object), nodeSelecter: {} }).success).toBe(false);
  });
});

test.each(stacks)(
  "charts of %s run as the ServiceAccounts that their roles are given to",
  (_stack, charts) => {
    const namedBy: Partial<Record<ChartName, (values: never) => string>> = {
      "cluster-autoscaler": ({ rbac }: { rbac: { serviceAccount: { name: string } } }) =>
        rbac.serviceAccount.name,
      "load-balancer-controller": ({ serviceAccount }: { serviceAccount: { name: string } }) =>
        serviceAccount.name,
    };
    const withRole = charts().filter(({ role }) => role !== null);
    expect(withRole.map(({ name }) => name).toSorted()).toEqual(Object.keys(namedBy).toSorted());
    for (const { name, namespace, role, values } of withRole)
      expect(role?.serviceAccount).toEqual({ namespace, name: namedBy[name]?.(values as never) });
  },
);
