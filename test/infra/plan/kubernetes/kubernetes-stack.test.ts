import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readStack } from "../../../../infra/config/config.ts";
import type { DockerImage, ImageName } from "../../../../infra/plan/docker/images.ts";
import { clusterImages } from "../../../../infra/plan/images.ts";
import type { BuildPlan } from "../../../../infra/plan/kubernetes/builds.ts";
import { gpuResource } from "../../../../infra/plan/kubernetes/capacity.ts";
import { type KubernetesStack, kubernetesStack } from "../../../../infra/plan/kubernetes/kubernetes-stack.ts";
import { networkEdges } from "../../../../infra/plan/kubernetes/network.ts";
import type { Labels } from "../../../../infra/plan/kubernetes/objects.ts";
import type { PodPlan } from "../../../../infra/plan/kubernetes/pods.ts";
import { planStack } from "../../../../infra/plan/plan-stack.ts";
import { times } from "../../../harness/thorough.ts";
import { stackProblems } from "../../thrown-problems.ts";
import { alertsOf } from "./monitored-stacks.ts";
import { restrictedViolations } from "./restricted.ts";
import {
  clusterPlan,
  clusterStack,
  clusterValues,
  configOf,
  containerOf,
  cpuClusterValues,
  exampleValues,
  first,
  fullValues,
  lockedImages,
  podsOf,
  SHA256,
  type Values,
} from "./stacks.ts";

const NAMESPACE_EXISTS: Values = { ...clusterValues, engineStore: { existingClaim: "models" } };

/** One GPU of the pool serves; `max` machines. */
const oneGpu = (max: number, more: Values = {}): Values => ({
  ...clusterValues,
  encoders: false,
  pools: [{ name: "gpu", instanceType: "g5.4xlarge", nodes: { min: 1, max }, ...more }],
  engines: { whenFull: "stopServer" },
});

/** One machine with two GPUs, all of which is left to pods. */
const parts = (machine: Values): Values =>
  oneGpu(1, { instanceType: undefined, machine: { gpu: "L4", gpus: 2, ...machine } });

const deadlineOf = ({ job }: BuildPlan) => job.spec?.activeDeadlineSeconds ?? Number.NaN;
const mountsOf = (pod: PodPlan) => containerOf(pod).volumeMounts ?? [];
const imageOf = (pod: PodPlan) => /([^/]+)@/.exec(containerOf(pod).image ?? "")?.[1];
const graceSecondsOf = ({ template }: PodPlan) => template.spec?.terminationGracePeriodSeconds ?? Number.NaN;
const preStopSecondsOf = (pod: PodPlan) =>
  Number(containerOf(pod).lifecycle?.preStop?.exec?.command?.[1] ?? 0);

describe("builds", () => {
  const stack = clusterStack(clusterValues);
  const engine = first(stack.builds);

  test("a build is named by model and engine key, and its ConfigMap has the engine's spec", () => {
    expect(stack.builds.map(({ name, pod }) => [name.replace(/[0-9a-f]{12}$/, "KEY"), pod.role])).toEqual([
      ["gpt2-medium-KEY", "engineBuild"],
      ["encoders-KEY", "encoderBuild"],
    ]);
    expect(engine.name).toBe(`gpt2-medium-${engine.key.slice(0, 12)}`);
    expect(engine.pod.config?.metadata.name).toMatch(new RegExp(`^${engine.name}-[0-9a-f]{12}$`));
    expect(configOf(engine.pod, "engine.json")).toMatchObject({
      version: 1,
      model: "gpt2-medium",
      plan: { key: engine.key },
    });
  });

  test("builds write to the engine store and servers mount it read-only", () => {
    const mountsOfStore = podsOf(stack).flatMap((pod) =>
      mountsOf(pod)
        .filter(({ name }) => name === "store")
        .map(({ readOnly = false }) => [pod.role, readOnly]),
    );
    expect(mountsOfStore).toEqual([
      ["engineBuild", false],
      ["encoderBuild", false],
      ["triton", true],
      ["encoders", true],
    ]);
    expect(stack.store?.claim).toBe("engine-store");
    expect(stack.store?.object).toMatchObject({ metadata: { name: "engine-store" } });
    expect(stack.store?.object?.spec).toEqual({
      accessModes: ["ReadWriteMany"],
      resources: { requests: { storage: "200Gi" } },
    });
  });

  test("a build is waited for longer than its deadline, which grows with other builds on its GPUs", () => {
    for (const build of stack.builds) expect(build.awaitSeconds).toBeGreaterThan(deadlineOf(build));
    const two = clusterStack({
      ...clusterValues,
      models: [
        ...clusterValues.models,
        { name: "llama", model: "llama-2-7b-chat", weights: { from: "modelscope" } },
      ],
    });
    const again = two.builds.find(({ name }) => name === engine.name);
    // They may wait for each other's GPU.
    expect(again && deadlineOf(again)).toBeGreaterThan(deadlineOf(engine));
  });

  test("a build's deadline includes the other builds of its pool", () => {
    const deadlines = (encoders: unknown, pool: Values = {}) =>
      clusterStack({ ...oneGpu(1, pool), encoders }).builds.map(deadlineOf);
    const timeSliced = { sharing: { mode: "timeSlicing", replicas: 2 } };
    const [engineAlone = 0] = deadlines(false);
    // The encoders' build may take an hour.
    expect(deadlines({ device: "gpu" }, timeSliced)).toEqual([engineAlone + 3600, engineAlone + 3600]);
    const apart = { ...clusterValues, pools: [oneGpu(2).pools, clusterValues.pools[1]].flat() };
    expect(clusterStack(apart).builds.map(deadlineOf)).toEqual([engineAlone - 300, 1200 + 3600]);
  });

  test("the deadline of a build that takes a server's GPU includes the server's longest request", () => {
    const deadline = (requestSeconds: number, whenFull: string) =>
      deadlineOf(
        first(
          clusterStack({ ...clusterValues, engines: { whenFull }, gateway: { limits: { requestSeconds } } })
            .builds,
        ),
      );
    expect(deadline(3600, "stopServer") - deadline(60, "stopServer")).toBe(3540);
    expect(deadline(3600, "fail")).toBe(deadline(60, "fail"));
  });

  test("two models with the same engine share a build, and both servers wait for it", () => {
    const twins = clusterStack({
      ...clusterValues,
      encoders: false,
      models: [
        { name: "a", model: "gpt2-medium" },
        { name: "b", model: "gpt2-medium" },
      ],
    });
    expect(twins.builds.map(({ models }) => models)).toEqual([["a", "b"]]);
    expect(twins.models.map(({ after }) => after)).toEqual([
      [first(twins.builds).name],
      [first(twins.builds).name],
    ]);
  });

  test("a build that only downloads weights requests no GPU", () => {
    const stack = clusterStack({
      ...clusterValues,
      encoders: false,
      models: [
        { name: "llama", model: "llama-2-7b-chat", runtime: "llmapi", weights: { from: "modelscope" } },
      ],
    });
    expect(first(stack.builds).pod.resources.gpus).toBeNull();
    expect(first(stack.models).pod.resources.gpus).toEqual({ resource: "nvidia.com/gpu", count: 1 });
  });

  test("a changed engine gets another Job and ConfigMap behind the same Service", () => {
    const smaller = clusterStack({
      ...clusterValues,
      models: [{ ...clusterValues.models[0], limits: { maxBatchSize: 2 } }],
    });
    const [was, is] = [first(stack.models), first(smaller.models)];
    expect(first(smaller.builds).name).not.toBe(engine.name);
    expect(is.pod.config?.metadata.name).not.toBe(was.pod.config?.metadata.name);
    expect(is.after).toEqual([first(smaller.builds).name]);
    expect([is.name, is.pod.selector, is.service]).toEqual([was.name, was.pod.selector, was.service]);
  });

  test("a build reads the hub token from a Secret's file", () => {
    const given = first(clusterStack(fullValues).builds).pod;
    expect(containerOf(given).env).toContainEqual({
      name: "HF_TOKEN_PATH",
      value: "/run/secrets/hub-token/value",
    });
    expect(given.secretFiles).toEqual({
      "/run/secrets/hub-token/value": { name: "hub-token", key: "value", from: "hubToken" },
    });
    const there = first(
      clusterStack({ ...clusterValues, hub: { tokenSecret: { name: "mine", key: "hf" } } }).builds,
    ).pod;
    expect(there.secretFiles).toEqual({
      "/run/secrets/hub-token/value": { name: "mine", key: "hf", from: null },
    });
  });
});

test.each([
  [{ mode: "none" }, null, "nvidia.com/gpu"],
  [{ mode: "timeSlicing", replicas: 2 }, null, "nvidia.com/gpu"],
  [{ mode: "mps", replicas: 4 }, "nvidia.com/gpu.shared", "nvidia.com/gpu.shared"],
  [{ mode: "mig", profile: "3g.20gb" }, null, "nvidia.com/mig-3g.20gb"],
  [{ mode: "mig", profile: "1g.5gb+me" }, null, "nvidia.com/mig-1g.5gb.me"],
] as const)(
  "GPUs shared as %o in a pool with the resource %s are requested as %s",
  (sharing, own, resource) => {
    expect(gpuResource(sharing, own)).toBe(resource);
  },
);

test("server and build request a GPU for each rank", () => {
  const stack = clusterStack({
    ...clusterValues,
    models: [
      {
        name: "llama",
        model: "llama-2-7b-chat",
        tensorParallel: 2,
        weights: { from: "modelscope" },
      },
    ],
  });
  const wanted = { resource: "nvidia.com/gpu", count: 2 };
  expect(first(stack.builds).pod.resources.gpus).toEqual(wanted);
  expect(first(stack.models).pod.resources.gpus).toEqual(wanted);
});

test("a build on time-sliced GPUs is kept apart from servers and other builds", () => {
  const shared = clusterStack(exampleValues("llama-2-7b-chat-kubernetes"));
  const affinityOf = ({ pod }: BuildPlan) => pod.template.spec?.affinity;
  expect(affinityOf(first(shared.builds))).toEqual({
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        {
          labelSelector: {
            matchLabels: { "app.kubernetes.io/instance": "demo" },
            matchExpressions: [
              { key: "app.kubernetes.io/component", operator: "In", values: ["triton", "engineBuild"] },
            ],
          },
          topologyKey: "kubernetes.io/hostname",
        },
      ],
    },
  });
  expect(affinityOf(first(clusterStack(clusterValues).builds))).toBeUndefined();
});

test("builds have a higher priority than servers only with `whenFull: stopServer`", () => {
  const building = (values: Values) =>
    clusterStack(values).priorities.map(({ metadata, value, preemptionPolicy }) => [
      metadata.name,
      value,
      preemptionPolicy === "PreemptLowerPriority",
    ]);
  expect(building(clusterValues)).toEqual([
    ["engine-room-front", 3000, true],
    ["engine-room-serving", 1000, true],
    ["engine-room-building", 500, false],
  ]);
  expect(building(oneGpu(1))[2]).toEqual(["engine-room-building", 2000, true]);
  const none = clusterStack({ ...clusterValues, priorityClasses: "none" });
  expect(none.priorities).toEqual([]);
  for (const { template } of podsOf(none)) expect(template.spec?.priorityClassName).toBeUndefined();
});

test("pods on MPS mount no shared memory over the MPS daemon's", () => {
  const mountsIn = (sharing: Values) => {
    const { builds, models } = clusterStack({
      ...clusterValues,
      pools: [{ ...clusterValues.pools[0], sharing }, clusterValues.pools[1]],
    });
    return [first(builds), first(models)].map(({ pod }) =>
      mountsOf(pod).some(({ mountPath }) => mountPath === "/dev/shm"),
    );
  };
  expect(mountsIn({ mode: "mps", replicas: 2 })).toEqual([false, false]);
  expect(mountsIn({ mode: "none" })).toEqual([true, true]);
});

test.each([
  ["surge if the pool has room", oneGpu(2), "surge"],
  ["are replaced in place if the pool has no room", oneGpu(1), "inPlace"],
  [
    "are replaced in place if old and new would share a GPU's memory",
    oneGpu(2, { sharing: { mode: "timeSlicing", replicas: 2 } }),
    "inPlace",
  ],
  // A server takes 2.5 CPUs and 8.75 GiB.
  ["surge if CPUs and memory are just enough", parts({ vcpus: 5, memoryGiB: 18 }), "surge"],
  ["are replaced in place if CPUs are missing", parts({ vcpus: 4, memoryGiB: 32 }), "inPlace"],
  ["are replaced in place if memory is missing", parts({ vcpus: 16, memoryGiB: 12 }), "inPlace"],
  [
    "do what the stack file says",
    { ...oneGpu(2), models: [{ ...clusterValues.models[0], rollout: "inPlace" }] },
    "inPlace",
  ],
])("servers %s", (_, values, rollout) => {
  expect(first(clusterStack(values).models).rollout).toBe(rollout);
});

test("servers without GPUs surge if their nodes have room", () => {
  const rollouts = (machine: Values) => {
    const cpu = { name: "cpu", machine };
    const { encoders, gateway } = clusterStack({
      ...oneGpu(1),
      encoders: {},
      pools: [...(oneGpu(1).pools as Values[]), cpu],
    });
    return [encoders?.rollout, gateway.rollout];
  };
  // Encoders, a gateway and two databases take 1.75 CPUs and 8 GiB.
  expect(rollouts({ vcpus: 4, memoryGiB: 11 })).toEqual(["surge", "surge"]);
  expect(rollouts({ vcpus: 4, memoryGiB: 10 })).toEqual(["inPlace", "surge"]);
  expect(rollouts({ vcpus: 4, memoryGiB: 8 })).toEqual(["inPlace", "inPlace"]);
});

test("a server that is stopped has the gateway's time limit to finish its requests", () => {
  const slow = clusterStack({ ...clusterValues, gateway: { limits: { requestSeconds: 900 } } });
  const { pod } = first(slow.models);
  expect(configOf(pod, "server.json")).toMatchObject({ launch: { exitTimeoutSeconds: 900 } });
  expect(graceSecondsOf(pod)).toBeGreaterThan(900 + preStopSecondsOf(pod));
});

test("a server with a larger engine has more time to start", () => {
  const seconds = (model: Values) => {
    const stack = clusterStack({ ...clusterValues, models: [{ name: "m", ...model }] });
    const { periodSeconds = 0, failureThreshold = 0 } =
      containerOf(first(stack.models).pod).startupProbe ?? {};
    return periodSeconds * failureThreshold;
  };
  const large = seconds({ model: "llama-2-7b-chat", weights: { from: "modelscope" } });
  expect(large).toBeGreaterThan(seconds({ model: "gpt2-medium" }));
  expect(first(clusterStack(clusterValues).models).deployment.spec?.progressDeadlineSeconds).toBeGreaterThan(
    seconds({ model: "gpt2-medium" }),
  );
});

test("a Triton starts and is ready when its models are, and is restarted when it does not answer", () => {
  const ready = { path: "/v2/health/ready", port: 8000 };
  for (const values of [fullValues, cpuClusterValues]) {
    const stack = clusterStack(values);
    const tritons = podsOf(stack).filter(({ role }) => role === "triton" || role === "encoders");
    expect(tritons.length).toBeGreaterThan(1);
    for (const pod of tritons) {
      expect(containerOf(pod)).toMatchObject({
        startupProbe: { httpGet: ready },
        readinessProbe: { httpGet: ready },
        livenessProbe: { httpGet: { path: "/v2/health/live", port: 8000 } },
      });
    }
  }
});

test("a gateway and a database that do not answer get no requests, and only the gateway is restarted for it", () => {
  const stack = clusterStack(cpuClusterValues);
  const probesOf = (pod: PodPlan) => {
    const { readinessProbe, livenessProbe } = containerOf(pod);
    return [readinessProbe, livenessProbe];
  };
  const health = expect.objectContaining({ httpGet: { path: "/healthz", port: 8080 } });
  expect(probesOf(stack.gateway.pod)).toEqual([health, health]);
  const command = expect.objectContaining({
    exec: { command: expect.arrayContaining([expect.any(String)]) },
  });
  expect(stack.databases.map(({ pod }) => probesOf(pod))).toEqual([
    [command, undefined],
    [command, undefined],
  ]);
});

test("`copyEngine` copies the engine to the node's disk and requests that space", () => {
  const of = (copyEngine: boolean) =>
    first(
      clusterStack({
        ...clusterValues,
        models: [{ name: "llama", model: "llama-2-7b-chat", weights: { from: "modelscope" }, copyEngine }],
      }).models,
    ).pod;
  const [reads, copies] = [of(false), of(true)];
  expect(containerOf(copies).args).toEqual([
    ...(containerOf(reads).args ?? []),
    "--copy-engine-to",
    "/engine-copy",
  ]);
  // 12.55 GiB of engine, and a fifth.
  expect((copies.resources.ephemeralGiB ?? 0) - (reads.resources.ephemeralGiB ?? 0)).toBe(16);
  expect(mountsOf(copies)).toContainEqual({ name: "engine-copy", mountPath: "/engine-copy" });
  expect(copies.template.spec?.volumes).toContainEqual({
    name: "engine-copy",
    emptyDir: { sizeLimit: "16384Mi" },
  });
  expect(mountsOf(reads).map(({ name }) => name)).not.toContain("engine-copy");
});

test("servers have their pool's selector and tolerations, and the gateway prefers nodes without GPUs", () => {
  const stack = clusterStack(fullValues);
  expect(first(stack.models).pod.template.spec).toMatchObject({
    nodeSelector: { "nvidia.com/gpu.product": "NVIDIA-A10G" },
    tolerations: [
      { key: "nvidia.com/gpu", operator: "Exists" },
      { key: "team", operator: "Equal", value: "ml", effect: "NoSchedule" },
    ],
  });
  const { pod } = stack.gateway;
  expect([pod.pool, pod.template.spec?.tolerations]).toEqual(["cpu", undefined]);
  expect(clusterStack(oneGpu(1)).gateway.pod).toMatchObject({
    pool: null,
    template: { spec: { tolerations: [{ key: "nvidia.com/gpu" }] } },
  });
});

test("the namespace is created with a quota and the Pod Security standard restricted", () => {
  const { namespace, quota } = clusterStack(clusterValues);
  expect(namespace).toMatchObject({
    name: "engine-room",
    object: {
      metadata: {
        name: "engine-room",
        labels: {
          "pod-security.kubernetes.io/enforce": "restricted",
          "pod-security.kubernetes.io/warn": "restricted",
        },
      },
    },
  });
  // A server that is replaced, and its build.
  expect(quota?.spec?.hard?.["requests.nvidia.com/gpu"]).toBe("3");
  // Claims of the other kind of databases may still exist.
  expect(quota?.spec?.hard?.persistentvolumeclaims).toBe("5");
});

test.each<[string, Values]>([
  ["a claim", { engineStore: { existingClaim: "models" } }],
  ["a Secret with the hub's token", { hub: { tokenSecret: { name: "hub" } } }],
  ["a Secret with credentials of the registry", { images: { pullSecrets: ["registry"] } }],
  ["a certificate", { gateway: { hostname: "m.example.org", tls: { secretName: "tls" } } }],
])("the namespace is neither created nor limited if %s is in it already", (_, more) => {
  const { namespace, quota } = clusterStack({ ...clusterValues, ...more });
  expect([namespace.object, quota]).toEqual([null, null]);
});

test("`createNamespace` decides whether the namespace is created", () => {
  expect(clusterStack({ ...NAMESPACE_EXISTS, createNamespace: true }).namespace.object).not.toBeNull();
  expect(clusterStack({ ...clusterValues, createNamespace: false }).namespace.object).toBeNull();
});

test("the databases' ports are open to the gateway, and that of the vector database to Prometheus, which reads its metrics", () => {
  const edges = networkEdges(clusterPlan(clusterValues));
  const clientsOf = (role: string, port: number) =>
    edges.filter((edge) => edge.port === port && edge.to === role).map(({ from }) => from);
  expect(clientsOf("mongo", 27_017)).toEqual(["gateway"]);
  expect(clientsOf("vector", 6333)).toEqual(["gateway", { namespace: "monitoring" }]);
});

describe("gateway", () => {
  const stack = clusterStack(fullValues);
  const config = configOf(stack.gateway.pod, "gateway.json");

  test("the gateway reaches Tritons and databases by their Services", () => {
    const { gateway, databases } = clusterStack(clusterValues);
    expect(configOf(gateway.pod, "gateway.json")).toMatchObject({
      host: "0.0.0.0",
      port: 8080,
      encoders: { http: "http://encoders:8000" },
      models: [{ name: "gpt", http: "http://gpt:8000" }],
      databases: { mongo: { uri: "mongodb://mongo:27017" }, vector: { url: "http://vector:6333" } },
      apiKeys: [],
    });
    expect(databases.map(({ name, service }) => [name, service.metadata.name])).toEqual([
      ["mongo", "mongo"],
      ["vector", "vector"],
    ]);
  });

  test("the gateway reads key hashes and addresses of external databases from Secrets", () => {
    expect(config).not.toHaveProperty("apiKeys");
    expect(config).toMatchObject({
      apiKeysFile: "/run/secrets/api-keys/value",
      databases: {
        mongo: { uriFile: "/run/secrets/mongo-uri/value" },
        vector: { url: "https://v.example.org:6334", apiKeyFile: "/run/secrets/vector-api-key/value" },
      },
    });
    const { apiKeys } = stack;
    expect(Object.values(apiKeys?.stringData ?? {})).toEqual([
      JSON.stringify([{ name: "alice", sha256: "0".repeat(64) }]),
    ]);
    expect(stack.gateway.pod.secretFiles["/run/secrets/api-keys/value"]?.name).toBe(apiKeys?.metadata.name);
    expect(stack.databases).toEqual([]);
  });

  test.each([
    ["issuer", "cert-manager.io/issuer"],
    ["clusterIssuer", "cert-manager.io/cluster-issuer"],
  ])("the ingress has the %s of the stack file as an annotation", (key, annotation) => {
    const gateway = { hostname: "models.example.org", tls: { [key]: "letsencrypt" } };
    expect(clusterStack({ ...clusterValues, gateway }).ingress).toMatchObject({
      metadata: { annotations: { [annotation]: "letsencrypt" } },
      spec: { tls: [{ hosts: ["models.example.org"], secretName: "gateway-tls" }] },
    });
  });

  test("a gateway with a host name has an ingress, and other Services are reached in the cluster only", () => {
    expect(stack.ingress).toMatchObject({
      metadata: { annotations: { "cert-manager.io/issuer": "letsencrypt" } },
      spec: {
        ingressClassName: "nginx",
        tls: [{ hosts: ["models.example.org"], secretName: "gateway-tls" }],
        rules: [{ host: "models.example.org" }],
      },
    });
    expect(stack.endpoints).toMatchObject({ gateway: "https://models.example.org", reach: "cluster" });
    expect(clusterStack(clusterValues).endpoints).toMatchObject({
      gateway: "http://gateway.engine-room.svc:8080",
      encoders: { grpc: "encoders.engine-room.svc:8001" },
      models: { gpt: { generate: "http://gpt.engine-room.svc:8000/v2/models/ensemble/generate" } },
      mongo: "mongodb://mongo.engine-room.svc:27017",
    });
    expect(clusterStack(clusterValues).ingress).toBeNull();
  });
});

test.each<[string, Values, object]>([
  [
    "is bound to an existing volume",
    { existingVolume: "disk" },
    { storageClassName: "", volumeName: "disk" },
  ],
  [
    "has the class of an existing volume",
    { existingVolume: "disk", storageClass: "nfs" },
    { storageClassName: "nfs", volumeName: "disk" },
  ],
  ["gets a volume of its storage class", { storageClass: "nfs" }, { storageClassName: "nfs" }],
])("the claim of the engine store %s", (_, engineStore, wanted) => {
  const { storageClassName, volumeName } =
    clusterStack({ ...clusterValues, engineStore }).store?.object?.spec ?? {};
  expect({ storageClassName, volumeName }).toEqual({ volumeName: undefined, ...wanted });
});

describe("images that are pulled before", () => {
  const pulling = (...names: string[]): Values => ({
    ...clusterValues,
    pools: clusterValues.pools.map((pool) => ({
      ...pool,
      nodeSelector: { pool: pool.name },
      prePullImages: names.includes(pool.name),
    })),
  });

  test("pre-pulled images are those of a pool's servers and builds, on its nodes only", () => {
    const { prePulls } = clusterStack(pulling("gpu", "cpu"));
    expect(prePulls.map(({ name, pod }) => [name, imageOf(pod), pod.pool])).toEqual([
      ["pre-pull-gpu-trtllm", "trtllm", "gpu"],
      ["pre-pull-cpu-encoders", "encoders", "cpu"],
    ]);
    expect(clusterStack(clusterValues).prePulls).toEqual([]);
  });

  test("pre-pull pods request no GPU and are in the quota once for each node", () => {
    const pods = (values: Values) => Number(clusterStack(values).quota?.spec?.hard?.pods);
    expect(clusterStack(pulling("gpu")).prePulls.map(({ pod }) => pod.resources.gpus)).toEqual([null]);
    expect(pods(pulling("gpu")) - pods(clusterValues)).toBe(clusterValues.pools[0].nodes.max);
  });
});

test("mock and real databases have different volumes and users", () => {
  const of = (databases: string) =>
    clusterStack({ ...clusterValues, databases, databaseStorage: { sizeGiB: 7 } }).databases.map(
      ({ pod, claim, statefulSet }) => [
        imageOf(pod),
        pod.template.spec?.securityContext?.runAsUser,
        claim,
        statefulSet.spec?.volumeClaimTemplates?.map(({ spec }) => spec?.resources?.requests?.storage),
      ],
    );
  expect(of("mock")).toEqual([
    ["services", 1000, "mock-data-mongo-0", ["7Gi"]],
    ["services", 1000, "mock-data-vector-0", ["7Gi"]],
  ]);
  expect(of("container")).toEqual([
    ["mongo", 999, "container-data-mongo-0", ["7Gi"]],
    ["qdrant", 1000, "container-data-vector-0", ["7Gi"]],
  ]);
});

test("a stack name that is not a Kubernetes label is refused", () => {
  expect(() => clusterStack(clusterValues, "-demo")).toThrow(/--stack/);
  expect(() => clusterStack(clusterValues, "a".repeat(64))).toThrow(/63/);
});

test("the order of keys in a stack file does not change the plan", () => {
  const reordered = Object.fromEntries(Object.entries(fullValues).toReversed());
  expect(JSON.stringify(clusterStack(reordered))).toBe(JSON.stringify(clusterStack(fullValues)));
});

test("a plan has no secrets of the stack file", () => {
  expect(JSON.stringify(clusterStack(fullValues))).not.toContain("hush");
});

const problemsOf = (values: Values) => stackProblems({ ...clusterValues, ...values }).map(({ path }) => path);

test.each<[string, Values, readonly string[]]>([
  ["external databases without addresses", { databases: "external" }, ["externalDatabases"]],
  [
    "a MongoDB without an address",
    { databases: "external", externalDatabases: { mongo: {}, vector: { url: "http://10.0.0.5:6333" } } },
    ["externalDatabases.mongo.uri"],
  ],
  [
    "two addresses of a MongoDB",
    {
      databases: "external",
      externalDatabases: {
        mongo: { uri: "mongodb://a", uriSecret: { name: "mongo" } },
        vector: { url: "http://10.0.0.5:6333" },
      },
    },
    ["externalDatabases.mongo.uriSecret"],
  ],
  ["a namespace of Kubernetes", { namespace: "kube-system" }, ["namespace"]],
  [
    "a namespace for which Kubernetes refuses priority classes",
    { namespace: "system-models", createNamespace: false },
    ["namespace"],
  ],
  [
    "images pulled onto every node of the cluster",
    { pools: [{ ...clusterValues.pools[0], prePullImages: true }] },
    ["pools[0].prePullImages"],
  ],
  ["a URL as the host name", { gateway: { hostname: "https://m.example.org" } }, ["gateway.hostname"]],
  [
    "a capital letter in the host name",
    { gateway: { hostname: "Models.example.org" } },
    ["gateway.hostname"],
  ],
  [
    "more requests than the gateway takes",
    { gateway: { limits: { concurrentRequests: 65_537 } } },
    ["gateway.limits.concurrentRequests"],
  ],
  [
    "a claim and a volume for another claim",
    { engineStore: { existingClaim: "models", existingVolume: "disk" } },
    ["engineStore.existingVolume"],
  ],
  ["databases without encoders", { encoders: false, databases: "container" }, ["databases"]],
  [
    "an invalid label",
    { pools: [{ ...clusterValues.pools[0], nodeSelector: { "a b": "c" } }] },
    ["pools[0].nodeSelector"],
  ],
  [
    "two mistakes",
    { encoders: false, databases: "container", namespace: "default" },
    ["databases", "namespace"],
  ],
])("a stack file with %s is refused", (_, values, paths) => {
  expect(problemsOf(values).map((path) => path.replace(/(nodeSelector).*/, "$1"))).toEqual(paths);
});

const routed = (route: Values) =>
  clusterStack({ ...cpuClusterValues, gateway: { hostname: "models.example.org", route } });

test("an HTTPRoute to an existing Gateway replaces the Ingress", () => {
  const { ingress, route, endpoints } = routed({ gateway: "shared", namespace: "edge", listener: "https" });
  expect(ingress).toBeNull();
  expect(route?.spec).toEqual({
    parentRefs: [{ name: "shared", namespace: "edge", sectionName: "https" }],
    hostnames: ["models.example.org"],
    rules: [
      {
        matches: [{ path: { type: "PathPrefix", value: "/" } }],
        timeouts: { request: "300s" },
        backendRefs: [{ name: "gateway", port: 8080 }],
      },
    ],
  });
  expect(endpoints.gateway).toBe("https://models.example.org");
});

test("an HTTPRoute to a Gateway without TLS has an http URL", () => {
  const { route, endpoints } = routed({ gateway: "shared", tls: false });
  expect(route?.spec.parentRefs).toEqual([{ name: "shared", namespace: "engine-room" }]);
  expect(endpoints.gateway).toBe("http://models.example.org");
});

test("TLS and ingress class beside an HTTPRoute are refused", () => {
  const pathsOf = (gateway: Values) =>
    stackProblems({ ...cpuClusterValues, gateway: { route: { gateway: "shared" }, ...gateway } }).map(
      ({ path }) => path,
    );
  expect(pathsOf({ hostname: "m.example.org" })).toEqual([]);
  expect(pathsOf({})).toEqual(["gateway.hostname"]);
  expect(
    pathsOf({ hostname: "m.example.org", ingressClass: "nginx", tls: { issuer: "letsencrypt" } }),
  ).toEqual(["gateway.tls", "gateway.ingressClass"]);
});

const triton = { release: "25.07" };

const locked = (name: ImageName, reference: string): DockerImage => ({ kind: "locked", name, reference });

const missing = (name: ImageName): DockerImage => ({
  kind: "build",
  name,
  reference: `engine-room/${name}:local`,
  contentHash: "abcdef0123456789".repeat(4),
  dockerfile: "Dockerfile",
  buildArguments: {},
});

const services = locked("services", `r.example.org/services@sha256:${SHA256}`);

test("images are pulled by the digests of the lock file", () => {
  expect(clusterImages([services], { triton, registry: null, isMirror: false })).toEqual({
    images: [{ name: "services", reference: `r.example.org/services@sha256:${SHA256}` }],
    problems: [],
  });
});

test("the project's images are pulled from a mirror, official images are not", () => {
  const mongo = locked("mongo", `docker.io/library/mongo@sha256:${SHA256}`);
  const { images } = clusterImages([services, mongo], {
    triton,
    registry: "own.example.org/room",
    isMirror: true,
  });
  expect(images.map(({ reference }) => reference)).toEqual([
    `own.example.org/room/services@sha256:${SHA256}`,
    `docker.io/library/mongo@sha256:${SHA256}`,
  ]);
});

test("images that were never pushed are reported in one problem and planned under the tag of a push", () => {
  const { images, problems } = clusterImages([services, missing("trtllm"), missing("encoders")], {
    triton,
    registry: "r.example.org/room",
    isMirror: false,
  });
  expect(images.map(({ reference }) => reference).slice(1)).toEqual([
    "r.example.org/room/trtllm:25.07-abcdef012345",
    "r.example.org/room/encoders:25.07-abcdef012345",
  ]);
  expect(problems).toEqual([
    {
      path: "(images.lock.json)",
      value: "r.example.org/room",
      reason: expect.stringContaining("no digest of this content for trtllm, encoders."),
      fix: expect.stringMatching(/^Run `npx engine-room images --push`/),
    },
  ]);
});

test("images that were never pushed need a registry in the stack file", () => {
  const { problems } = clusterImages([missing("services")], { triton, registry: null, isMirror: false });
  expect(problems).toMatchObject([
    { path: "images.registry", fix: expect.stringMatching(/^Name a registry/) },
  ]);
});

test("an official image without a digest counts as missing", () => {
  const { images, problems } = clusterImages([locked("mongo", "docker.io/library/mongo:8.0.26")], {
    triton,
    registry: null,
    isMirror: false,
  });
  expect(images).toEqual([{ name: "mongo", reference: "docker.io/library/mongo:8.0.26" }]);
  expect(problems).toMatchObject([{ path: "(images.lock.json)" }]);
});

const SECRETS = { token: "hush-token", uri: "hush-uri", key: "hush-key" };

const absent = fc.constant(undefined);

const maybe = <T>(values: fc.Arbitrary<T>) => fc.oneof(absent, values);

const model = fc.record({
  model: fc.constantFrom("gpt2-medium", "llava-1.5-7b", "llama-2-7b-chat", "llama-3.2-11b-vision"),
  weights: maybe(fc.constantFrom({ from: "folder", path: "/store/own", revision: "1" })),
  limits: fc.record({ maxBatchSize: fc.constantFrom(1, 2, undefined) }),
  tensorParallel: fc.constantFrom(1, 1, 2),
  replicas: fc.constantFrom(1, 1, 2, 3),
  minReplicas: fc.constantFrom(undefined, 0, 1),
  rollout: fc.constantFrom(undefined, "surge", "inPlace"),
  memoryFit: fc.constant({ accept: "measured on this very machine" }),
});

const stackFiles = fc.record({
  platform: fc.constant("kubernetes"),
  release: fc.constantFrom("25.07", "25.06"),
  models: fc
    .array(model, { minLength: 1, maxLength: 3 })
    .map((all) => all.map((one, index) => ({ name: `model-${index}`, pool: "gpu", ...one }))),
  encoders: fc.oneof(
    fc.constant(false),
    fc.record({
      device: fc.constantFrom("cpu", "gpu"),
      pool: maybe(fc.constant("gpu")),
      replicas: fc.constantFrom(1, 2),
      minReplicas: maybe(fc.constant(1)),
    }),
  ),
  pools: fc
    .tuple(
      fc
        .record({
          name: fc.constant("gpu"),
          instanceType: fc.constantFrom("g5.12xlarge", "g6e.12xlarge", "p4d.24xlarge"),
          nodes: fc.constantFrom({ min: 1, max: 1 }, { min: 0, max: 4 }),
          sharing: maybe(
            fc.constantFrom(
              { mode: "timeSlicing", replicas: 2 },
              { mode: "mps", replicas: 2 },
              { mode: "mig", profile: "3g.20gb" },
            ),
          ),
          diskGiB: fc.constant(500),
          nodeSelector: maybe(fc.constant({ kind: "gpu" })),
          prePullImages: maybe(fc.boolean()),
        })
        .map((pool) => (pool.nodeSelector === undefined ? { ...pool, prePullImages: false } : pool)),
      maybe(fc.constant({ name: "cpu", instanceType: "m7i.2xlarge" })),
    )
    .map((pools) => pools.filter((pool) => pool !== undefined)),
  engines: fc.constantFrom({ whenFull: "stopServer" }, { whenFull: "fail" }),
  tritonClients: fc.constantFrom([], ["notebooks"]),
  engineStore: fc.constantFrom({ sizeGiB: 2000 }, { existingClaim: "models" }, { existingVolume: "disk" }),
  hub: fc.constantFrom({ token: SECRETS.token }, { tokenSecret: { name: "hub" } }),
  priorityClasses: fc.constantFrom("create", "create", "none"),
  databases: fc.constantFrom("mock", "container", "external"),
  monitoring: fc.constantFrom("prometheus-operator", "none"),
  gateway: fc.record({
    replicas: fc.constantFrom(1, 3),
    apiKeys: fc.constantFrom([], [{ name: "alice", sha256: SHA256 }]),
    imageHosts: fc.constantFrom([], ["example.org", "*.example.net:8443"]),
    hostname: maybe(fc.constant("m.example.org")),
  }),
});

/** Adds addresses of external databases, and removes databases from a stack without encoders. */
function completed({ databases, encoders, ...file }: Values): Values {
  const kind = encoders === false ? undefined : databases;
  const values = {
    ...file,
    encoders,
    databases: kind,
    ...(kind === "external"
      ? {
          externalDatabases: {
            mongo: { uri: SECRETS.uri },
            vector: { url: "https://v.example.org", apiKey: SECRETS.key },
          },
        }
      : {}),
  };
  return JSON.parse(JSON.stringify(values)) as Values;
}

function stackOf(values: Values): KubernetesStack | null {
  const { config, problems } = readStack(values);
  expect(problems).toEqual([]);
  if (config === null) return null;
  const { plan } = planStack(config);
  if (plan?.platform !== "kubernetes") return null;
  return kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
}

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

const SUBDOMAIN = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;

function badLabels(labels: Labels): readonly string[] {
  return Object.values(labels).filter((value) => !LABEL_VALUE.test(value));
}

const RUNS = times(60, 300);

test("Kubernetes accepts the plan of any stack file, and the plan has no secrets", () => {
  let planned = 0;
  fc.assert(
    fc.property(stackFiles, (file) => {
      const stack = stackOf(completed(file));
      if (stack === null) return;
      planned += 1;
      expect(JSON.stringify(stack)).not.toContain("hush");

      const pods = podsOf(stack);
      const classes = stack.priorities.map(({ metadata }) => metadata.name);
      for (const pod of pods) {
        const spec = pod.template.spec ?? { containers: [] };
        expect(restrictedViolations({ ...spec })).toEqual([]);
        expect(badLabels(pod.labels)).toEqual([]);
        expect(graceSecondsOf(pod)).toBeGreaterThanOrEqual(preStopSecondsOf(pod));
        expect(mountsOf(pod).filter(({ name }) => !LABEL.test(name))).toEqual([]);
        if (spec.priorityClassName !== undefined) expect(classes).toContain(spec.priorityClassName);
        for (const { name, containerPort } of containerOf(pod).ports ?? []) {
          expect(name).toMatch(/^[a-z][a-z0-9-]{0,14}$/);
          expect(containerPort).toBeLessThan(65_536);
        }
      }

      const { servers } = stack;
      const deployments = servers.map(({ name }) => name);
      expect(new Set(deployments).size).toBe(deployments.length);
      for (const name of [...deployments, ...stack.builds.map((build) => build.name)])
        expect(name).toMatch(LABEL);
      for (const { metadata } of pods.flatMap(({ config }) => (config === null ? [] : [config])))
        expect(metadata.name).toMatch(SUBDOMAIN);

      // A server comes after the builds that it needs, and only its own Service selects a pod.
      const builds = stack.builds.map(({ name }) => name);
      for (const { after } of servers) expect(builds).toEqual(expect.arrayContaining([...after]));
      for (const { service, pod } of servers) {
        const found = pods.filter(({ labels }) =>
          Object.entries(service.spec?.selector ?? {}).every(([key, value]) => labels[key] === value),
        );
        expect(found).toEqual([pod]);
        expect(service.spec?.ports?.map(({ targetPort }) => targetPort)).toEqual(
          containerOf(pod).ports?.map(({ name }) => name),
        );
      }

      // A number has one owner, and each of its series has an alert in a stack with monitoring.
      const owners = new Map(stack.autoscalers.map(({ name, replicas }) => [name, replicas.max]));
      for (const { name, replicas, maxReplicas } of servers)
        expect(replicas === null ? maxReplicas : null).toBe(owners.get(name) ?? null);
      const asked = stack.autoscalers.flatMap(({ name, metrics }) =>
        metrics.map((metric) => ({ autoscaler: name, scaling_series: metric.name })),
      );
      if (stack.monitoring !== null) {
        const missed = alertsOf(stack.monitoring).filter(
          ({ name }) => name === "EngineRoomScalingSeriesAbsent",
        );
        expect(missed.map(({ labels }) => labels)).toEqual(asked);
      }

      // Every pod with connections has a policy of its own.
      const roles = stack.policies.map(
        ({ policy }) => policy.spec?.podSelector?.matchLabels?.["app.kubernetes.io/component"],
      );
      const talking = pods.map(({ role }) => role).filter((role) => role !== "prePull");
      expect(roles).toEqual(expect.arrayContaining([...new Set(talking)]));

      const sets = stack.prePulls.map(({ pod }) => JSON.stringify(pod.selector));
      expect(new Set(sets).size).toBe(sets.length);

      // The quota holds all that runs at a time.
      if (stack.quota !== null) {
        const memory = servers.reduce(
          (sum, { pod, replicas }) => sum + pod.resources.memoryMiB * (replicas ?? 0),
          0,
        );
        expect(Number.parseInt(stack.quota.spec?.hard?.["requests.memory"] ?? "0", 10)).toBeGreaterThan(
          memory,
        );
      }
    }),
    { numRuns: RUNS },
  );
  expect(planned).toBeGreaterThan(RUNS / 5);
});
