/** Charts of a cluster: which are installed, with which values and images, and where logs and alerts go. */
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { ChartPlan } from "../../../../infra/plan/aws/cluster-software.ts";
import {
  CHART_NAMES,
  type ChartName,
  LOG_CHART,
  publishedCharts,
} from "../../../../infra/plan/catalogue/aws.ts";
import { eksValues, plannedCluster, shippedCluster } from "./eks-plans.ts";

const ALL_CHARTS: readonly ChartName[] = [...CHART_NAMES, LOG_CHART];

/** One gateway of two is KEDA's to add. */
const SCALED = { gateway: { replicas: 2, minReplicas: 1 } };

test("KEDA is installed only if a server has a KEDA object", () => {
  const names = (changes: Parameters<typeof plannedCluster>[0]) =>
    plannedCluster(changes).cluster.charts.map(({ name }) => name);
  expect(names(SCALED)).toContain("keda");
  expect(names({})).not.toContain("keda");
  expect(names({ ...SCALED, autoscaling: { mechanism: "hpa" } })).not.toContain("keda");
});

test("every chart is installed at a fixed version from an https repository", () => {
  const { charts } = plannedCluster(SCALED).cluster;
  expect(charts.map(({ name }) => name)).toEqual([...CHART_NAMES]);
  for (const { args } of charts) {
    expect(args.version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(args.repositoryOpts?.repo).toMatch(/^https:\/\//);
  }
});

test.each(CHART_NAMES)("the chart %s is not installed if the stack file says `existing`", (name) => {
  const { charts } = plannedCluster({ ...SCALED, cluster: { charts: { [name]: "existing" } } }).cluster;
  expect(charts.map((chart) => chart.name)).toEqual(CHART_NAMES.filter((other) => other !== name));
});

test("autoscalers and monitors use the namespaces and names of the Prometheus and DCGM charts", () => {
  const { cluster, plan } = plannedCluster({ monitoringNamespace: "watch" });
  const place = (name: string) => {
    const chart = cluster.charts.find((one) => one.name === name);
    return [chart?.args.name, chart?.args.namespace];
  };
  expect(place("kube-prometheus-stack")).toEqual(["kube-prometheus-stack", "watch"]);
  expect(plan.cluster.autoscaling.prometheusUrl).toBe("http://prometheus-operated.watch.svc:9090");
  expect(plan.cluster.monitoring?.labels).toEqual({ release: "kube-prometheus-stack" });
  expect(place("dcgm-exporter")).toEqual(["dcgm-exporter", plan.cluster.monitoring?.gpuExporter?.namespace]);
});

const onSystemNodes = { nodeSelector: z.strictObject({ "engine-room/pool": z.literal("system") }) };

const cpu = z.string().regex(/^\d+m?$/);

const memory = z.string().regex(/^\d+[MG]i$/);

const requests = z.strictObject({ requests: z.strictObject({ cpu, memory }) });

const tolerations = z.array(
  z.strictObject({ key: z.string(), operator: z.literal("Exists"), effect: z.literal("NoSchedule") }),
);

const disabled = z.strictObject({ enabled: z.literal(false) });

/**
 * The keys that are set in each chart's values, as `values.yaml` and the templates of that version read them: Helm
 * accepts any other key and ignores it. Another version of a chart must be read again.
 */
const written: Readonly<Record<ChartName, { readonly version: string; readonly values: z.ZodType }>> = {
  "device-plugin": {
    version: "0.20.0",
    values: z.strictObject({
      config: z.strictObject({
        map: z.record(z.string(), z.string()),
        // templates/validation.yml: several configurations require a fallback for machines that choose none.
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
      awsRegion: z.string(),
      autoDiscovery: z.strictObject({ clusterName: z.string() }),
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
      region: z.string(),
      clusterName: z.string(),
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
        // Names of pkg/config/feature_gates.go; the controller ends at an unknown name.
        featureGates: z.strictObject({
          EnableServiceController: z.literal(false),
          ALBGatewayAPI: z.literal(false),
          NLBGatewayAPI: z.literal(false),
        }),
      }),
    }),
  },
  keda: { version: "2.20.2", values: z.strictObject(onSystemNodes) },
  "fluent-bit": {
    version: "0.2.0",
    values: z.strictObject({
      serviceAccount: z.strictObject({ name: z.string() }),
      tolerations: z.tuple([z.strictObject({ operator: z.literal("Exists") })]),
      filter: z.strictObject({ mergeLog: z.literal("Off"), extraFilters: z.string() }),
      cloudWatchLogs: z.strictObject({
        region: z.string(),
        logGroupName: z.string(),
        autoCreateGroup: z.literal(false),
      }),
    }),
  },
  "kube-prometheus-stack": {
    version: "88.5.3",
    values: z.strictObject({
      kubeControllerManager: disabled,
      kubeEtcd: disabled,
      kubeScheduler: disabled,
      kubeProxy: disabled,
      alertmanager: z.strictObject({
        alertmanagerSpec: z.strictObject(onSystemNodes),
        config: z
          .strictObject({
            route: z.strictObject({ receiver: z.string(), routes: z.array(z.json()) }),
            receivers: z.array(z.json()),
          })
          .optional(),
      }),
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

/** Logs to CloudWatch, and alerts to a topic. */
const WATCHED = {
  logs: { cloudwatch: { retentionDays: 7 } },
  monitoringOptions: { snsTopicArn: "arn:aws:sns:us-east-1:111122223333:alerts" },
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
  ["a stack with a divided pool", () => plannedCluster({ ...divided, ...SCALED }).cluster.charts],
  ["a stack with logs and alerts", () => plannedCluster({ ...SCALED, ...WATCHED }).cluster.charts],
];

function valuesOf(charts: readonly ChartPlan[], name: ChartName): unknown {
  return charts.find((chart) => chart.name === name)?.args.values;
}

describe.each(ALL_CHARTS)("%s", (name) => {
  const { version, values } = written[name];

  test(`${name} has the version whose values were read`, () => {
    expect(publishedCharts[name].version).toBe(version);
  });

  test.each(stacks)(`%s gives ${name} only values that it reads`, (_stack, charts) => {
    const told = valuesOf(charts(), name);
    // Neither dev nor prod has an object of KEDA, or logs in CloudWatch.
    if (told === undefined) return expect(["keda", LOG_CHART]).toContain(name);
    expect(values.parse(told)).toEqual(told);
    expect(values.safeParse({ ...(told as object), nodeSelecter: {} }).success).toBe(false);
  });
});

/** ServiceAccount of a role in the values of each chart; Prometheus' chart has its own name. */
const accountOf: Partial<Record<ChartName, (values: never) => string>> = {
  "cluster-autoscaler": ({ rbac }: { rbac: { serviceAccount: { name: string } } }) =>
    rbac.serviceAccount.name,
  "load-balancer-controller": ({ serviceAccount }: { serviceAccount: { name: string } }) =>
    serviceAccount.name,
  "fluent-bit": ({ serviceAccount }: { serviceAccount: { name: string } }) => serviceAccount.name,
  "kube-prometheus-stack": () => "kube-prometheus-stack-alertmanager",
};

test.each(stacks)("charts of %s use the ServiceAccounts of their roles", (stack, charts) => {
  const withRole = charts().filter(({ role }) => role !== null);
  const names = ["cluster-autoscaler", "load-balancer-controller"];
  expect(withRole.map(({ name }) => name)).toEqual(
    stack.includes("alerts") ? [...names, "kube-prometheus-stack", LOG_CHART] : names,
  );
  for (const { name, args, role } of withRole)
    expect(role?.serviceAccount).toEqual({
      namespace: args.namespace,
      serviceAccount: accountOf[name]?.(args.values as never),
    });
});

const mirrored = { cluster: { mirror: { images: "mirror.example.org/copies" } } };

test.each(ALL_CHARTS)("with a mirror every image of %s has the name of its own registry in it", (name) => {
  const [own, copies] = [{}, mirrored].map((changes) => {
    const { charts } = plannedCluster({ ...SCALED, ...WATCHED, ...changes }).cluster;
    return charts.find((chart) => chart.name === name);
  });
  const images = own?.images ?? [];
  expect(images.length).toBeGreaterThan(0);
  expect(JSON.stringify(own?.args.values)).not.toContain("mirror");
  const registries = texts(copies?.args.values).filter((text) =>
    text.startsWith("mirror.example.org/copies/"),
  );
  // Only a registry, or a registry with the image's path.
  for (const image of images) {
    const inMirror = `mirror.example.org/copies/${image.split(":")[0]}`;
    expect(
      registries.some((text) => inMirror === text || inMirror.startsWith(`${text}/`)),
      image,
    ).toBe(true);
  }
  for (const text of registries)
    expect(
      images.some((image) => `mirror.example.org/copies/${image}`.startsWith(text)),
      text,
    ).toBe(true);
});

function texts(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(texts) : [];
}

test("charts come from the OCI registry of the stack file, at the same versions", () => {
  const charts = plannedCluster({
    ...SCALED,
    cluster: { mirror: { charts: "registry.example.org/charts" } },
  }).cluster.charts;
  for (const { name, args } of charts) {
    const { chart, version } = publishedCharts[name];
    expect(args).toMatchObject({ chart: `oci://registry.example.org/charts/${chart}`, version });
    expect(args.repositoryOpts).toBeUndefined();
  }
});

test("values of the stack file are merged over the stack's own, key by key, and lists as a whole", () => {
  const chartValues = {
    "cluster-autoscaler": {
      extraArgs: { expander: "price" },
      nodeSelector: { "kubernetes.io/arch": "amd64" },
      replicaCount: 2,
      resources: null,
    },
    "dcgm-exporter": { tolerations: [{ operator: "Exists" }] },
  };
  const { charts } = plannedCluster({ cluster: { ...mirrored.cluster, chartValues } }).cluster;
  const own = plannedCluster(mirrored).cluster.charts;
  const autoscaler = charts.find(({ name }) => name === "cluster-autoscaler")?.args;
  expect(autoscaler?.values).toMatchObject({
    extraArgs: { expander: "price", "max-node-provision-time": "20m" },
    nodeSelector: { "engine-room/pool": "system", "kubernetes.io/arch": "amd64" },
    replicaCount: 2,
    resources: null,
    image: { repository: "mirror.example.org/copies/registry.k8s.io/autoscaling/cluster-autoscaler" },
  });
  // Without it Pulumi's provider drops `null`, by which Helm removes a key.
  expect(autoscaler?.allowNullValues).toBe(true);
  expect(valuesOf(charts, "dcgm-exporter")).toMatchObject({ tolerations: [{ operator: "Exists" }] });
  for (const name of ["device-plugin", "kube-prometheus-stack"] as const)
    expect(charts.find((chart) => chart.name === name)).toEqual(own.find((chart) => chart.name === name));
});

test("logs of containers go into the stack's log group, and nowhere else", () => {
  const { cluster, context } = plannedCluster(WATCHED);
  const chart = cluster.charts.find(({ name }) => name === LOG_CHART);
  expect(chart?.args.values).toMatchObject({
    cloudWatchLogs: { region: "us-east-1", logGroupName: "engine-room-demo/containers" },
  });
  expect(chart?.role?.statements).toEqual([
    {
      Sid: "WriteContainerLogs",
      Effect: "Allow",
      Action: ["logs:CreateLogStream", "logs:PutLogEvents"],
      Resource: [`arn:aws:logs:us-east-1:${context.account}:log-group:engine-room-demo/containers:*`],
    },
  ]);
});

test("alerts go to the topic of the stack file except those that always fire, and Alertmanager may send to no other topic", () => {
  const { cluster } = plannedCluster(WATCHED);
  const chart = cluster.charts.find(({ name }) => name === "kube-prometheus-stack");
  const topic = WATCHED.monitoringOptions.snsTopicArn;
  expect(chart?.args.values).toMatchObject({
    alertmanager: {
      config: {
        route: {
          receiver: "sns",
          routes: [{ receiver: "null", matchers: ['alertname =~ "InfoInhibitor|Watchdog"'] }],
        },
        receivers: [
          { name: "null" },
          { name: "sns", sns_configs: [{ topic_arn: topic, sigv4: { region: "us-east-1" } }] },
        ],
      },
    },
  });
  expect(chart?.role?.statements).toMatchObject([{ Action: ["sns:Publish"], Resource: [topic] }]);
});
