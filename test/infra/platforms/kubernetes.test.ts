import { describe, expect, test } from "vitest";
import type { StackOutputs } from "../../../infra/outputs.ts";
import { kubernetesStack } from "../../../infra/plan/kubernetes/kubernetes-stack.ts";
import { deployCluster } from "../../../infra/platforms/kubernetes.ts";
import { ownStack } from "../../../infra/platforms/program.ts";
import { runProgram } from "../../../scripts/program/run-program.ts";
import type { Properties } from "../../../scripts/program/serialized.ts";
import { readStackFile, stackReference } from "../../../scripts/program/stack-file.ts";
import { renderJson } from "../../../scripts/render.ts";
import {
  clusterPlan,
  clusterValues,
  cpuClusterValues,
  exampleValues,
  first,
  fullValues,
  lockedImages,
  stackFileValues,
  type Values,
} from "../plan/kubernetes/stacks.ts";
import { Engine, last, program, rendered, runtimeConfig } from "./program.ts";

/** A cluster where everything succeeds except the objects that a test names. */
class Cluster extends Engine {
  constructor(failing?: string) {
    super(({ name, inputs }) => {
      if (name === failing) throw new Error(`${name}: BackoffLimitExceeded`);
      const { metadata } = inputs as { readonly metadata?: object };
      return {
        ...inputs,
        ...(metadata === undefined ? {} : { metadata: { ...metadata, uid: `uid-of-${name}` } }),
      };
    });
  }
}

/** `up`, with every image in a registry. */
async function up(file: Values, cluster = new Cluster()): Promise<Cluster> {
  const plan = clusterPlan(file);
  await runProgram({
    stack: "demo",
    config: runtimeConfig(file),
    preview: false,
    owner: cluster,
    program: async () => {
      deployCluster(kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) }), ownStack());
      return {};
    },
  });
  return cluster;
}

const withoutKeys = (text: string) => text.replaceAll(/-[0-9a-f]{12}(?=[- ]|$)/g, "-KEY");

/** Stacks that most tests read, rendered once. */
const stack = await rendered(clusterValues);
const cpuStack = await rendered(cpuClusterValues);
const fullCluster = await up(fullValues);

test("a CPU stack in a cluster has exactly these components, and no Job", () => {
  const { resources } = cpuStack;
  const components = resources.filter(({ type }) => type.startsWith("engine-room:"));
  expect(
    components.map(({ type, name }) => `${type.replace("engine-room:kubernetes:", "")} ${name}`).sort(),
  ).toEqual([
    "Database mongo",
    "Database vector",
    "Encoders encoders",
    "Gateway gateway",
    "Namespace namespace",
    "NetworkPolicies policies",
    "PriorityClasses priorities",
    "Secrets secrets",
    "TritonServer smollm2",
  ]);
  expect(resources.filter(({ type }) => /:(Job|PersistentVolumeClaim)$/.test(type))).toEqual([]);
});

test("outputs of a CPU stack list its models", () => {
  expect(cpuStack.outputs).toMatchObject({
    models: [{ name: "smollm2", model: "smollm2-135m-instruct", engineKey: null, nodePool: "cluster" }],
    engineStore: "image",
  });
});

describe("a stack with GPUs", () => {
  const named = (name: string) => first(stack.resources.filter((one) => withoutKeys(one.name) === name));

  test("a GPU stack in a cluster has exactly these resources", () => {
    const resources = stack.resources.map(({ type, name, parent }) =>
      withoutKeys(`${type.replace("engine-room:kubernetes:", "")} ${name} in ${last(parent)}`),
    );
    expect(resources.sort()).toEqual([
      "Database mongo in engine-room-demo",
      "Database vector in engine-room-demo",
      "EncoderBuild encoders-KEY in engine-room-demo",
      "Encoders encoders in engine-room-demo",
      "EngineBuild gpt2-medium-KEY in engine-room-demo",
      "EngineStore store in engine-room-demo",
      "Gateway gateway in engine-room-demo",
      "Namespace namespace in engine-room-demo",
      "NetworkPolicies policies in engine-room-demo",
      "PriorityClasses priorities in engine-room-demo",
      "Secrets secrets in engine-room-demo",
      "TritonServer gpt in engine-room-demo",
      "kubernetes:apps/v1:Deployment encoders-deployment in encoders",
      "kubernetes:apps/v1:Deployment gateway-deployment in gateway",
      "kubernetes:apps/v1:Deployment gpt-deployment in gpt",
      "kubernetes:apps/v1:StatefulSet mongo-set in mongo",
      "kubernetes:apps/v1:StatefulSet vector-set in vector",
      "kubernetes:batch/v1:Job encoders-KEY-job in encoders-KEY",
      "kubernetes:batch/v1:Job gpt2-medium-KEY-job in gpt2-medium-KEY",
      "kubernetes:core/v1:ConfigMap encoders-KEY-spec in encoders-KEY",
      "kubernetes:core/v1:ConfigMap encoders-config in encoders",
      "kubernetes:core/v1:ConfigMap gateway-config in gateway",
      "kubernetes:core/v1:ConfigMap gpt-config in gpt",
      "kubernetes:core/v1:ConfigMap gpt2-medium-KEY-spec in gpt2-medium-KEY",
      "kubernetes:core/v1:Namespace namespace-namespace in namespace",
      "kubernetes:core/v1:PersistentVolumeClaim store-claim in store",
      "kubernetes:core/v1:ResourceQuota namespace-quota in namespace",
      "kubernetes:core/v1:Service encoders-service in encoders",
      "kubernetes:core/v1:Service gateway-service in gateway",
      "kubernetes:core/v1:Service gpt-service in gpt",
      "kubernetes:core/v1:Service mongo-service in mongo",
      "kubernetes:core/v1:Service vector-service in vector",
      ...["bench", "default-deny", "encoder-build", "encoders", "engine-build", "gateway"].map(policyLine),
      ...["mongo", "smoke", "triton", "vector"].map(policyLine),
      "kubernetes:policy/v1:PodDisruptionBudget encoders-budget in encoders",
      "kubernetes:policy/v1:PodDisruptionBudget gateway-budget in gateway",
      "kubernetes:policy/v1:PodDisruptionBudget gpt-budget in gpt",
      "kubernetes:scheduling.k8s.io/v1:PriorityClass priorities-engine-room-building in priorities",
      "kubernetes:scheduling.k8s.io/v1:PriorityClass priorities-engine-room-front in priorities",
      "kubernetes:scheduling.k8s.io/v1:PriorityClass priorities-engine-room-serving in priorities",
      "pulumi:providers:kubernetes cluster in engine-room-demo",
      "pulumi:providers:kubernetes cluster-adopting in engine-room-demo",
      "pulumi:pulumi:Stack engine-room-demo in ",
    ]);
  });

  function policyLine(name: string): string {
    return `kubernetes:networking.k8s.io/v1:NetworkPolicy policies-${name} in policies`;
  }

  test("the provider takes over fields of the stack file that others have changed", () => {
    expect(named("cluster").inputs.enablePatchForce).toBe("true");
  });

  test("`down` keeps the namespace and the engine store, and the next `up` adopts them", () => {
    const kept = stack.resources.filter(({ options }) => options.retainOnDelete);
    expect(kept.map(({ name, provider }) => [name, last(provider ?? "")]).sort()).toEqual([
      ["namespace-namespace", "cluster-adopting"],
      ["store-claim", "cluster-adopting"],
    ]);
    expect(named("cluster-adopting").inputs.upsertExistingObjects).toBe("true");
    expect(named("cluster-adopting").inputs).not.toHaveProperty("enablePatchForce");
    expect(named("cluster").inputs).not.toHaveProperty("upsertExistingObjects");
    // Independent of the `up` that created them.
    for (const { inputs } of kept)
      expect(inputs.metadata).toMatchObject({
        annotations: { "pulumi.com/patchFieldManager": "engine-room-demo" },
      });
    const objects = stack.resources.filter(({ type }) => type.startsWith("kubernetes:"));
    expect(new Set(objects.map(({ provider }) => last(provider ?? "")))).toEqual(
      new Set(["cluster", "cluster-adopting"]),
    );
  });

  test("`down` keeps nothing of a stack that `retain` does not name, and the usual objects of a stack that it names", async () => {
    const claimPolicies = ({ resources }: typeof stack) =>
      resources
        .filter(({ type }) => type === "kubernetes:apps/v1:StatefulSet")
        .map(({ inputs }) => (inputs.spec as Properties).persistentVolumeClaimRetentionPolicy);
    const gone = await rendered({ ...clusterValues, retain: ["prod"] });
    expect(gone.resources.filter(({ options }) => options.retainOnDelete)).toEqual([]);
    expect(claimPolicies(gone)).toEqual(Array(2).fill({ whenDeleted: "Delete", whenScaled: "Retain" }));
    const kept = await rendered({ ...clusterValues, retain: ["prod", "demo"] });
    expect(kept.resources).toEqual(stack.resources);
    expect(claimPolicies(kept)).toEqual(Array(2).fill(undefined));
  });

  test("every namespaced object is in the stack's namespace", () => {
    const clusterWide = ["Namespace", "PriorityClass"];
    for (const { type, inputs } of stack.resources.filter(({ type }) => type.startsWith("kubernetes:")))
      if (!clusterWide.includes(type.split(":").at(-1) ?? ""))
        expect([type, inputs]).toEqual([
          type,
          expect.objectContaining({ metadata: expect.objectContaining({ namespace: "engine-room" }) }),
        ]);
  });

  test("a build's Job has the key in its name, waits as long as planned, and is replaced after a failure", () => {
    const { inputs, options } = named("gpt2-medium-KEY-job");
    expect(inputs.metadata).toMatchObject({
      name: expect.stringMatching(/^gpt2-medium-[0-9a-f]{12}$/),
      annotations: { "pulumi.com/replaceUnready": "true" },
    });
    const spec = inputs.spec as Properties;
    expect(spec).toMatchObject({
      backoffLimit: 0,
      podFailurePolicy: { rules: [{ action: "Ignore" }] },
      activeDeadlineSeconds: expect.any(Number),
    });
    expect(spec).not.toHaveProperty("ttlSecondsAfterFinished");
    expect(options).toMatchObject({
      deleteBeforeReplace: true,
      customTimeouts: { create: `${Number(spec.activeDeadlineSeconds) + 120}s` },
    });
  });

  test("objects have the names that others refer to them by", () => {
    const jobs = named("gpt2-medium-KEY-job").inputs as {
      spec: { template: { spec: { volumes: object[] } } };
    };
    const config = named("gpt2-medium-KEY-spec").inputs.metadata as { name: string };
    expect(jobs.spec.template.spec.volumes).toContainEqual({
      name: "config",
      configMap: { name: config.name },
    });
    const { selector } = named("gpt-budget").inputs.spec as Properties;
    expect(named("gpt-deployment").inputs.spec).toMatchObject({ selector });
  });

  test("a cluster stack is rendered to the same bytes whatever the order of its file", async () => {
    const reordered = Object.fromEntries(Object.entries(clusterValues).toReversed());
    expect(renderJson(await rendered(reordered))).toBe(renderJson(stack));
  });

  test("outputs of a GPU stack have its endpoints, models, release and engine store", () => {
    expect(stack.outputs as unknown as StackOutputs).toMatchObject({
      endpoints: { gateway: "http://gateway.engine-room.svc:8080", reach: "cluster" },
      models: [{ name: "gpt", model: "gpt2-medium", release: "25.07", nodePool: "gpu" }],
      release: "25.07",
      engineStore: "claim engine-room/engine-store",
    });
  });

  test("every address in the outputs has a Service behind it", () => {
    const { endpoints } = stack.outputs as unknown as StackOutputs;
    const services = stack.resources
      .filter(({ type }) => type === "kubernetes:core/v1:Service")
      .map(
        ({ inputs }) =>
          inputs as { metadata: { name: string; namespace: string }; spec: { ports: { port: number }[] } },
      )
      .flatMap(({ metadata, spec }) =>
        spec.ports.map(({ port }) => `${metadata.name}.${metadata.namespace}.svc:${port}`),
      );
    const { gateway, mongo, vector, encoders, models } = endpoints;
    const urls = [
      gateway,
      mongo,
      vector,
      ...Object.values(encoders ?? {}),
      ...Object.values(models.gpt ?? {}),
    ];
    expect(urls).toHaveLength(10);
    for (const url of urls) expect(services).toContain(/[a-z.-]+\.svc:\d+/.exec(String(url))?.[0]);
  });
});

describe("a stack with monitoring", async () => {
  const watched = await rendered({
    ...clusterValues,
    monitoring: "prometheus-operator",
    monitoringOptions: { labels: { release: "kube-prometheus-stack" } },
  });
  const children = watched.resources.filter(({ parent }) => last(parent) === "monitoring");
  const made = (name: string) => first(children.filter((one) => one.name === `monitoring-${name}`)).inputs;

  test("monitoring adds exactly these resources to a GPU stack", () => {
    const before = new Set(stack.resources.map(({ urn }) => urn));
    const more = watched.resources.filter(({ urn }) => !before.has(urn));
    expect(more.map(({ type, name, parent }) => `${type} ${name} in ${last(parent)}`).sort()).toEqual([
      "engine-room:kubernetes:Monitoring monitoring in engine-room-demo",
      ...["databases", "gpus", "models", "overview"].map(
        (name) => `kubernetes:core/v1:ConfigMap monitoring-dashboard-engine-room-${name} in monitoring`,
      ),
      "kubernetes:monitoring.coreos.com/v1:PrometheusRule monitoring-rules in monitoring",
      ...["encoders", "gateway", "gpus", "mongo", "triton", "vector"].map(
        (name) =>
          `kubernetes:monitoring.coreos.com/v1:ServiceMonitor monitoring-engine-room-${name} in monitoring`,
      ),
    ]);
  });

  test("labels let Prometheus and Grafana's sidecar find the monitoring objects", () => {
    for (const { type, inputs } of children) {
      const isDashboard = type === "kubernetes:core/v1:ConfigMap";
      expect(inputs.metadata).toMatchObject({
        namespace: "engine-room",
        labels: isDashboard ? { grafana_dashboard: "1" } : { release: "kube-prometheus-stack" },
      });
    }
  });

  test("ServiceMonitors scrape the ports with metrics, those of GPUs in the exporter's namespace", () => {
    expect(made("engine-room-triton").spec).toEqual({
      selector: {
        matchLabels: {
          "app.kubernetes.io/component": "triton",
          "app.kubernetes.io/instance": "demo",
          "app.kubernetes.io/name": "engine-room",
        },
      },
      endpoints: [{ port: "metrics", path: "/metrics", interval: "15s" }],
    });
    expect(made("engine-room-gpus").spec).toEqual({
      selector: { matchLabels: { app: "nvidia-dcgm-exporter" } },
      namespaceSelector: { matchNames: ["gpu-operator"] },
      endpoints: [
        {
          port: "gpu-metrics",
          path: "/metrics",
          interval: "15s",
          honorLabels: true,
          relabelings: [
            { targetLabel: "job", replacement: "engine-room-gpus-demo" },
            { sourceLabels: ["__meta_kubernetes_pod_node_name"], targetLabel: "node" },
          ],
        },
      ],
    });
  });

  test("alerts have a summary and a runbook, and the planned cost is recorded", () => {
    const { groups } = made("rules").spec as {
      readonly groups: readonly { readonly name: string; readonly rules: readonly Properties[] }[];
    };
    expect(groups.map(({ name }) => name)).toEqual(["engine-room-plan", "engine-room-alerts"]);
    expect(groups[1]?.rules).toContainEqual({
      alert: "EngineRoomConnectionsClosed",
      expr: 'sum by (pod) (rate(gateway_connections_dropped_total{namespace="engine-room", service="gateway"}[5m])) > 0',
      for: "60s",
      labels: { severity: "warning" },
      annotations: {
        summary: expect.any(String),
        runbook_url: "docs/runbooks/EngineRoomConnectionsClosed.md",
      },
    });
    expect(groups[0]?.rules).toContainEqual({
      record: "engine_room_hourly_usd",
      expr: "vector(0)",
      labels: { stack: "demo", namespace: "engine-room" },
    });
  });
});

test("monitoring adds exactly these resources to a CPU stack", async () => {
  const before = new Set(cpuStack.resources.map(({ urn }) => urn));
  const { resources } = await rendered({ ...cpuClusterValues, monitoring: "prometheus-operator" });
  const more = resources.filter(({ urn }) => !before.has(urn));
  expect(more.map(({ type, name }) => `${type} ${name}`).sort()).toEqual([
    "engine-room:kubernetes:Monitoring monitoring",
    ...["databases", "models", "overview"].map(
      (name) => `kubernetes:core/v1:ConfigMap monitoring-dashboard-engine-room-${name}`,
    ),
    "kubernetes:monitoring.coreos.com/v1:PrometheusRule monitoring-rules",
    ...["encoders", "gateway", "mongo", "triton", "vector"].map(
      (name) => `kubernetes:monitoring.coreos.com/v1:ServiceMonitor monitoring-engine-room-${name}`,
    ),
  ]);
});

test("the walkthrough's example mounts the existing claim in the existing namespace, and serves as its MLService does", async () => {
  const { resources } = await rendered(exampleValues("llama-2-7b-chat-kubernetes"));
  const types = resources.map(({ type }) => type);
  expect(types).not.toContain("kubernetes:core/v1:PersistentVolumeClaim");
  expect(types).not.toContain("kubernetes:core/v1:Namespace");
  const job = first(resources.filter(({ type }) => type === "kubernetes:batch/v1:Job"));
  expect(job.inputs).toMatchObject({
    metadata: { namespace: "triton-tensorrtllm" },
    spec: {
      template: {
        spec: {
          volumes: expect.arrayContaining([
            { name: "store", persistentVolumeClaim: { claimName: "triton-tensorrtllm" } },
          ]),
        },
      },
    },
  });
  // One GPU, its own claim, port 8000: https://github.com/t9k/examples/tree/master/deployments/triton-tensorrtllm.
  const inputsOf = (name: string) => resources.find((resource) => resource.name === name)?.inputs;
  expect(inputsOf("llama-2-7b-chat-deployment")).toMatchObject({
    metadata: { namespace: "triton-tensorrtllm" },
    spec: {
      replicas: 1,
      template: {
        spec: {
          containers: [
            {
              args: ["triton_entrypoint", "serve", "/etc/engine-room/server.json"],
              resources: { limits: { "nvidia.com/gpu": "1" } },
              volumeMounts: expect.arrayContaining([{ name: "store", mountPath: "/store", readOnly: true }]),
            },
          ],
          volumes: expect.arrayContaining([
            { name: "store", persistentVolumeClaim: { claimName: "triton-tensorrtllm" } },
          ]),
        },
      },
    },
  });
  expect(inputsOf("llama-2-7b-chat-service")).toMatchObject({
    spec: { ports: expect.arrayContaining([expect.objectContaining({ name: "http", port: 8000 })]) },
  });
});

test("Pulumi.onprem.yaml has every model, the encoders and the databases, and a free GPU for updates", async () => {
  const { resources } = await rendered(stackFileValues("Pulumi.onprem.yaml"));
  const deployments = resources.filter(({ type }) => type === "kubernetes:apps/v1:Deployment");
  expect(deployments.map(({ name }) => name).sort()).toEqual([
    "encoders-deployment",
    "gateway-deployment",
    "llava-deployment",
  ]);
  const llava = first(deployments.filter(({ name }) => name === "llava-deployment"));
  expect(llava.inputs.spec).toMatchObject({
    strategy: { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
  });
  const images = resources
    .filter(({ type }) => type === "kubernetes:apps/v1:StatefulSet")
    .map(({ inputs }) => JSON.stringify(inputs.spec).match(/"image":"([^"]*)"/)?.[1]);
  expect(images.sort()).toEqual([
    "docker.io/library/mongo:8.0.26",
    "docker.io/qdrant/qdrant:v1.17.1-unprivileged",
  ]);
});

describe("`up` in a cluster", async () => {
  const cluster = await up(clusterValues);

  test("`up` creates policies and priority classes, then builds, then servers", async () => {
    const { made } = cluster;
    const order = made.map(({ name }) => withoutKeys(name));
    const place = (name: string) => order.indexOf(name);
    for (const name of [
      "policies-default-deny",
      "policies-engine-build",
      "priorities-engine-room-building",
      "store-claim",
    ])
      expect(place(name)).toBeLessThan(place("gpt2-medium-KEY-job"));
    expect(place("gpt2-medium-KEY-job")).toBeLessThan(place("gpt-deployment"));
    expect(place("encoders-KEY-job")).toBeLessThan(place("encoders-deployment"));
    expect(order).toContain("gateway-deployment");
  });

  test("`up` creates all servers except those of failed builds", async () => {
    const job = cluster.made.find(({ name }) => name.startsWith("gpt2-medium") && name.endsWith("-job"));
    const failing = new Cluster(job?.name);
    await expect(up(clusterValues, failing)).rejects.toThrow("BackoffLimitExceeded");
    const made = failing.made.map(({ name }) => name);
    expect(made).not.toContain("gpt-deployment");
    expect(made).toContain("encoders-deployment");
  });

  test("`up` puts secrets into Secrets only, marked as secrets", async () => {
    const { made } = fullCluster;
    const holders = made.filter(({ inputs }) => JSON.stringify(inputs).includes("hush"));
    expect(holders.map(({ type, name }) => `${type} ${name}`).sort()).toEqual([
      "kubernetes:core/v1:Secret secrets-hub-token",
      "kubernetes:core/v1:Secret secrets-mongo-uri",
      "kubernetes:core/v1:Secret secrets-vector-api-key",
    ]);
    // The SDK's mark of a secret: the engine encrypts what has it.
    for (const { inputs } of holders)
      expect(inputs.stringData).toMatchObject({
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
      });
    expect(renderJson(await rendered(fullValues))).not.toContain("hush");
  });

  test("a changed secret restarts the gateway, and no build", async () => {
    const { made } = fullCluster;
    const template = (name: string) => {
      const { inputs } = first(made.filter((one) => withoutKeys(one.name) === name));
      return (inputs.spec as { template: { metadata: { annotations?: object } } }).template.metadata
        .annotations;
    };
    expect(template("gateway-deployment")).toEqual({
      "engine-room/secrets": "uid-of-secrets-mongo-uri uid-of-secrets-vector-api-key",
    });
    expect(template("gpt2-medium-KEY-job")).toBeUndefined();
  });

  test("a server without a build depends on the engine store's claim", async () => {
    const weights = { from: "folder", path: "/store/own/llama", revision: "1" };
    const model = { name: "own", model: "llama-2-7b-chat", runtime: "llmapi", weights };
    const { made } = await up({ ...clusterValues, encoders: false, models: [model] });
    expect(made.filter(({ type }) => type === "kubernetes:batch/v1:Job")).toEqual([]);
    const server = first(made.filter(({ name }) => name === "own-deployment"));
    expect(server.dependencies.map(last)).toContain("store-claim");
  });

  test("images are pulled to nodes in advance, and `up` does not wait for it", async () => {
    const { made } = fullCluster;
    const set = first(made.filter(({ type }) => type === "kubernetes:apps/v1:DaemonSet"));
    expect(set.inputs).toMatchObject({
      metadata: { name: "pre-pull-gpu-trtllm", annotations: { "pulumi.com/skipAwait": "true" } },
      spec: { template: { spec: { nodeSelector: { "nvidia.com/gpu.product": "NVIDIA-A10G" } } } },
    });
  });

  test("a stack with a host name has an Ingress with TLS for it", async () => {
    const { made } = fullCluster;
    const ingress = first(made.filter(({ type }) => type === "kubernetes:networking.k8s.io/v1:Ingress"));
    expect(ingress.inputs).toMatchObject({
      spec: {
        ingressClassName: "nginx",
        tls: [{ hosts: ["models.example.org"], secretName: "gateway-tls" }],
        rules: [{ host: "models.example.org" }],
      },
    });
    expect(first(made.filter(({ name }) => name === "cluster")).inputs.context).toBe("lab");
  });

  test("an autoscaler sets the number of encoders, and is created after their Deployment", async () => {
    for (const values of [clusterValues, cpuClusterValues]) {
      const { made } = await up({ ...values, encoders: { replicas: 2, minReplicas: 1 } });
      const named = (name: string) => first(made.filter((one) => one.name === name));
      expect(named("encoders-deployment").inputs.spec).not.toHaveProperty("replicas");
      expect(named("encoders-deployment").options.ignoreChanges).toEqual(["spec.replicas"]);
      const scaled = named("encoders-autoscaler-scaled-object");
      expect(scaled.inputs.spec).toMatchObject({
        scaleTargetRef: { name: "encoders" },
        minReplicaCount: 1,
        maxReplicaCount: 2,
        triggers: [{ type: "prometheus", metadata: { ignoreNullValues: "false" } }],
      });
      expect(scaled.dependencies.map(last)).toContain("encoders-deployment");
    }
  });

  test("an autoscaler sets the number of servers, and an HTTPRoute replaces the Ingress", async () => {
    const { made } = await up({
      ...cpuClusterValues,
      models: [{ ...cpuClusterValues.models[0], replicas: 2, minReplicas: 0 }],
      gateway: { hostname: "models.example.org", route: { gateway: "shared" } },
    });
    const spec = (name: string) => first(made.filter((one) => one.name === name)).inputs.spec as Properties;
    expect(spec("smollm2-deployment")).not.toHaveProperty("replicas");
    expect(spec("encoders-deployment")).toMatchObject({ replicas: 1 });
    expect(spec("smollm2-autoscaler-scaled-object")).toMatchObject({
      scaleTargetRef: { name: "smollm2" },
      minReplicaCount: 0,
      maxReplicaCount: 2,
    });
    expect(spec("gateway-route")).toEqual({
      parentRefs: [{ name: "shared", namespace: "engine-room" }],
      hostnames: ["models.example.org"],
      rules: [
        {
          matches: [{ path: { type: "PathPrefix", value: "/" } }],
          timeouts: { request: "300s" },
          backendRefs: [{ name: "gateway", port: 8080 }],
        },
      ],
    });
    expect(made.filter(({ type }) => type.endsWith(":Ingress"))).toEqual([]);
  });

  test("`up` creates no object while an image has no digest", async () => {
    const config = runtimeConfig(clusterValues);
    const empty = new Cluster();
    const run = runProgram({
      stack: "demo",
      config,
      preview: false,
      owner: empty,
      program: program(config),
    });
    await expect(run).rejects.toThrow(/images\.lock\.json has no digest .* for services, trtllm, encoders/);
    expect(empty.made.filter(({ type }) => type.startsWith("kubernetes:"))).toEqual([]);
  });
});

test.each(["kind", "dev"])(
  "%s, a stack in a cluster, is registered without stack traces, and later errors have them again",
  async (stack) => {
    const before = Error.stackTraceLimit;
    const limits = new Set<number>();
    const config = readStackFile(stackReference(stack));
    await runProgram({
      stack,
      config,
      program: program(config),
      preview: true,
      owner: {
        async register({ type, inputs }) {
          if (type.startsWith("kubernetes:")) limits.add(Error.stackTraceLimit);
          return { outputs: inputs };
        },
        registerOutputs() {},
      },
    });
    expect([...limits]).toEqual([0]);
    expect(before).toBeGreaterThan(0);
    expect(Error.stackTraceLimit).toBe(before);
  },
);
