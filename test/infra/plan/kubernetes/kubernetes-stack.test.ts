import { describe, expect, test } from "vitest";
import { readStack } from "../../../../infra/config/config.ts";
import { gpuResource } from "../../../../infra/plan/kubernetes/gpu-resource.ts";
import {
  clusterStack,
  clusterValues,
  exampleValues,
  first,
  fullValues,
  podsOf,
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

describe("builds", () => {
  const stack = clusterStack(clusterValues);
  const engine = first(stack.builds);

  test("are named by model and key, and hold their spec", () => {
    expect(stack.builds.map(({ name, kind }) => [name.replace(/[0-9a-f]{12}$/, "KEY"), kind])).toEqual([
      ["gpt2-medium-KEY", "engine"],
      ["encoders-KEY", "encoders"],
    ]);
    expect(engine.name).toBe(`gpt2-medium-${engine.key.slice(0, 12)}`);
    expect(engine.pod.config?.name).toMatch(new RegExp(`^${engine.name}-[0-9a-f]{12}$`));
    expect(JSON.parse(engine.pod.config?.data["engine.json"] ?? "")).toMatchObject({
      version: 1,
      model: "gpt2-medium",
      plan: { key: engine.key },
    });
  });

  test("write into the store, which servers only read", () => {
    const mountsOfStore = podsOf(stack).flatMap(({ role, volumes }) =>
      volumes.filter(({ name }) => name === "store").map(({ readOnly }) => [role, readOnly]),
    );
    expect(mountsOfStore).toEqual([
      ["engineBuild", false],
      ["encoderBuild", false],
      ["triton", true],
      ["encoders", true],
    ]);
    expect(stack.store).toMatchObject({
      claim: "engine-store",
      creation: { storageClass: null, volume: null, accessMode: "ReadWriteMany", sizeGiB: 200 },
    });
  });

  test("are waited for longer than they may take, and may take longer than their estimate", () => {
    for (const { awaitSeconds, deadlineSeconds } of stack.builds)
      expect(awaitSeconds).toBeGreaterThan(deadlineSeconds);
    const two = clusterStack({
      ...clusterValues,
      models: [
        ...clusterValues.models,
        { name: "llama", model: "llama-2-7b-chat", weights: { from: "modelscope" } },
      ],
    });
    const again = two.builds.find(({ name }) => name === engine.name);
    // They may wait for each other's GPU.
    expect(again?.deadlineSeconds).toBeGreaterThan(engine.deadlineSeconds);
  });

  test("may wait for what else their pool builds, engines or encoders", () => {
    const deadlines = (encoders: unknown, pool: Values = {}) =>
      clusterStack({ ...oneGpu(1, pool), encoders }).builds.map(({ deadlineSeconds }) => deadlineSeconds);
    const timeSliced = { sharing: { mode: "timeSlicing", replicas: 2 } };
    const [engineAlone = 0] = deadlines(false);
    // An hour is what the encoders may take.
    expect(deadlines({ device: "gpu" }, timeSliced)).toEqual([engineAlone + 3600, engineAlone + 3600]);
    const apart = { ...clusterValues, pools: [oneGpu(2).pools, clusterValues.pools[1]].flat() };
    expect(clusterStack(apart).builds.map(({ deadlineSeconds }) => deadlineSeconds)).toEqual([
      engineAlone - 300,
      1200 + 3600,
    ]);
  });

  test("that take a server's GPU wait until it has answered", () => {
    const deadline = (requestSeconds: number, whenFull: string) =>
      first(
        clusterStack({ ...clusterValues, engines: { whenFull }, gateway: { limits: { requestSeconds } } })
          .builds,
      ).deadlineSeconds;
    expect(deadline(3600, "stopServer") - deadline(60, "stopServer")).toBe(3540);
    expect(deadline(3600, "fail")).toBe(deadline(60, "fail"));
  });

  test("of one engine for two models are one, and both servers come after it", () => {
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

  test("that only fetch weights take no GPU", () => {
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

  test("another engine is another Job, another ConfigMap and another server, behind the same Service", () => {
    const smaller = clusterStack({
      ...clusterValues,
      models: [{ ...clusterValues.models[0], limits: { maxBatchSize: 2 } }],
    });
    const [was, is] = [first(stack.models), first(smaller.models)];
    expect(first(smaller.builds).name).not.toBe(engine.name);
    expect(is.pod.config?.name).not.toBe(was.pod.config?.name);
    expect(is.after).toEqual([first(smaller.builds).name]);
    expect([is.name, is.pod.selector, is.service]).toEqual([was.name, was.pod.selector, was.service]);
  });

  test("have the hub's token as a file of a Secret", () => {
    const given = first(clusterStack(fullValues).builds).pod;
    expect(given.environment.HF_TOKEN_PATH).toBe("/run/secrets/hub-token/value");
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

describe("GPUs", () => {
  test.each([
    [{ mode: "none" }, null, "nvidia.com/gpu"],
    [{ mode: "timeSlicing", replicas: 2 }, null, "nvidia.com/gpu"],
    [{ mode: "mps", replicas: 4 }, "nvidia.com/gpu.shared", "nvidia.com/gpu.shared"],
    [{ mode: "mig", profile: "3g.20gb" }, null, "nvidia.com/mig-3g.20gb"],
    [{ mode: "mig", profile: "1g.5gb+me" }, null, "nvidia.com/mig-1g.5gb.me"],
  ] as const)("%o of a pool that says %s are %s", (sharing, own, resource) => {
    expect(gpuResource(sharing, own)).toBe(resource);
  });

  test("of all ranks are asked for by server and build alike", () => {
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

  test("that are shared in time are not built on while somebody serves from them", () => {
    const shared = clusterStack(exampleValues("llama-2-7b-chat-kubernetes"));
    expect(first(shared.builds).pod.placement.apartFrom).toEqual(["triton", "engineBuild"]);
    expect(first(clusterStack(clusterValues).builds).pod.placement.apartFrom).toEqual([]);
  });

  test("go to a build before a server only where the stack file says so", () => {
    const building = (values: Values) =>
      clusterStack(values).priorities.map(({ name, value, preempts }) => [name, value, preempts]);
    expect(building(clusterValues)).toEqual([
      ["engine-room-front", 3000, true],
      ["engine-room-serving", 1000, true],
      ["engine-room-building", 500, false],
    ]);
    expect(building(oneGpu(1))[2]).toEqual(["engine-room-building", 2000, true]);
    const none = clusterStack({ ...clusterValues, priorityClasses: "none" });
    expect(none.priorities).toEqual([]);
    expect(podsOf(none).map(({ priorityClass }) => priorityClass)).toEqual(podsOf(none).map(() => null));
  });
});

test("the MPS daemon's shared memory is not hidden by one of the pod's own", () => {
  const mountsIn = (sharing: Values) => {
    const { builds, models } = clusterStack({
      ...clusterValues,
      pools: [{ ...clusterValues.pools[0], sharing }, clusterValues.pools[1]],
    });
    return [first(builds), first(models)].map(({ pod }) =>
      pod.volumes.some(({ path }) => path === "/dev/shm"),
    );
  };
  expect(mountsIn({ mode: "mps", replicas: 2 })).toEqual([false, false]);
  expect(mountsIn({ mode: "none" })).toEqual([true, true]);
});

describe("servers", () => {
  test.each([
    ["surge where the pool has room", oneGpu(2), "surge"],
    ["are replaced in place where it has none", oneGpu(1), "inPlace"],
    [
      "are replaced in place where old and new would share a GPU's memory",
      oneGpu(2, { sharing: { mode: "timeSlicing", replicas: 2 } }),
      "inPlace",
    ],
    // A server takes 2.5 CPUs and 8.75 GiB.
    ["surge where CPUs and memory are just enough", parts({ vcpus: 5, memoryGiB: 18 }), "surge"],
    ["are replaced in place where CPUs are missing", parts({ vcpus: 4, memoryGiB: 32 }), "inPlace"],
    ["are replaced in place where memory is missing", parts({ vcpus: 16, memoryGiB: 12 }), "inPlace"],
    [
      "do what the stack file says",
      { ...oneGpu(2), models: [{ ...clusterValues.models[0], rollout: "inPlace" }] },
      "inPlace",
    ],
  ])("%s", (_, values, rollout) => {
    expect(first(clusterStack(values).models).rollout).toBe(rollout);
  });

  test("without a GPU surge where their machines have room", () => {
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

  test("answer as long as the gateway waits, and are killed after that only", () => {
    const slow = clusterStack({ ...clusterValues, gateway: { limits: { requestSeconds: 900 } } });
    const { args, graceSeconds, preStopSeconds } = first(slow.models).pod;
    expect(args.slice(-2)).toEqual(["--exit-timeout-seconds", "900"]);
    expect(graceSeconds).toBeGreaterThan(900 + preStopSeconds);
  });

  test("may take longer to start the larger their engine is", () => {
    const seconds = (model: Values) => {
      const stack = clusterStack({ ...clusterValues, models: [{ name: "m", ...model }] });
      const { probes } = first(stack.models).pod;
      return (probes?.startup.periodSeconds ?? 0) * (probes?.startup.failureThreshold ?? 0);
    };
    const large = seconds({ model: "llama-2-7b-chat", weights: { from: "modelscope" } });
    expect(large).toBeGreaterThan(seconds({ model: "gpt2-medium" }));
    expect(first(clusterStack(clusterValues).models).progressDeadlineSeconds).toBeGreaterThan(
      seconds({ model: "gpt2-medium" }),
    );
  });

  test("copy their engine to the machine's disk where the stack file says so, and ask for that disk", () => {
    const of = (copyEngine: boolean) =>
      first(
        clusterStack({
          ...clusterValues,
          models: [{ name: "llama", model: "llama-2-7b-chat", weights: { from: "modelscope" }, copyEngine }],
        }).models,
      ).pod;
    const [reads, copies] = [of(false), of(true)];
    expect(copies.args).toEqual([...reads.args, "--copy-engine-to", "/engine-copy"]);
    // 12.55 GiB of engine, and a fifth.
    expect((copies.resources.ephemeralGiB ?? 0) - (reads.resources.ephemeralGiB ?? 0)).toBe(16);
    expect(copies.volumes).toContainEqual({
      name: "engine-copy",
      path: "/engine-copy",
      readOnly: false,
      source: { kind: "disk", sizeMiB: 16 * 1024 },
    });
  });

  test("run where their pool says, and what needs no GPU where there is none", () => {
    const stack = clusterStack(fullValues);
    expect(first(stack.models).pod.placement).toMatchObject({
      nodeSelector: { "nvidia.com/gpu.product": "NVIDIA-A10G" },
      tolerations: [
        { key: "nvidia.com/gpu", operator: "Exists" },
        { key: "team", operator: "Equal", value: "ml", effect: "NoSchedule" },
      ],
    });
    expect(stack.gateway.pod.placement).toMatchObject({ pool: "cpu", tolerations: [] });
    expect(clusterStack(oneGpu(1)).gateway.pod.placement).toMatchObject({
      pool: null,
      tolerations: [{ key: "nvidia.com/gpu" }],
    });
  });
});

describe("the namespace", () => {
  test("is the stack's own, restricted and with a quota", () => {
    const { namespace, quota } = clusterStack(clusterValues);
    expect(namespace).toMatchObject({
      name: "engine-room",
      isCreated: true,
      labels: {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
      },
    });
    // A server that is replaced, and its build.
    expect(quota?.hard["requests.nvidia.com/gpu"]).toBe("3");
    // Those of the other kind of databases may be there still.
    expect(quota?.hard.persistentvolumeclaims).toBe("5");
  });

  test.each<[string, Values]>([
    ["a claim", { engineStore: { existingClaim: "models" } }],
    ["a Secret with the hub's token", { hub: { tokenSecret: { name: "hub" } } }],
    ["a Secret with credentials of the registry", { images: { pullSecrets: ["registry"] } }],
    ["a certificate", { gateway: { hostname: "m.example.org", tls: { secretName: "tls" } } }],
  ])("is somebody else's where %s is in it already", (_, more) => {
    const { namespace, quota } = clusterStack({ ...clusterValues, ...more });
    expect([namespace.isCreated, quota]).toEqual([false, null]);
  });

  test("is taken as the stack file says, whatever is in it", () => {
    expect(clusterStack({ ...NAMESPACE_EXISTS, createNamespace: true }).namespace.isCreated).toBe(true);
    expect(clusterStack({ ...clusterValues, createNamespace: false }).namespace.isCreated).toBe(false);
  });
});

describe("the gateway", () => {
  const stack = clusterStack(fullValues);
  const config = JSON.parse(stack.gateway.pod.config?.data["gateway.json"] ?? "");

  test("finds every Triton and the databases by their Services", () => {
    const { gateway, databases } = clusterStack(clusterValues);
    expect(JSON.parse(gateway.pod.config?.data["gateway.json"] ?? "")).toMatchObject({
      host: "0.0.0.0",
      port: 8080,
      encoders: { http: "http://encoders:8000" },
      models: [{ name: "gpt", http: "http://gpt:8000" }],
      databases: { mongo: { uri: "mongodb://mongo:27017" }, vector: { url: "http://vector:6333" } },
      apiKeys: [],
    });
    expect(databases.map(({ name, service }) => [name, service.name])).toEqual([
      ["mongo", "mongo"],
      ["vector", "vector"],
    ]);
  });

  test("has the hashes of its keys in a Secret, and databases elsewhere in files", () => {
    expect(config).not.toHaveProperty("apiKeys");
    expect(config).toMatchObject({
      apiKeysFile: "/run/secrets/api-keys/value",
      databases: {
        mongo: { uriFile: "/run/secrets/mongo-uri/value" },
        vector: { url: "https://v.example.org:6334", apiKeyFile: "/run/secrets/vector-api-key/value" },
      },
    });
    const [secret] = stack.secrets;
    expect(Object.values(secret?.data ?? {})).toEqual([
      JSON.stringify([{ name: "alice", sha256: "0".repeat(64) }]),
    ]);
    expect(stack.gateway.pod.secretFiles["/run/secrets/api-keys/value"]?.name).toBe(secret?.name);
    expect(stack.databases).toEqual([]);
  });

  test.each([
    ["issuer", "cert-manager.io/issuer"],
    ["clusterIssuer", "cert-manager.io/cluster-issuer"],
  ])("has its certificate of the %s that the stack file names", (key, annotation) => {
    const gateway = { hostname: "models.example.org", tls: { [key]: "letsencrypt" } };
    expect(clusterStack({ ...clusterValues, gateway }).ingress).toMatchObject({
      annotations: { [annotation]: "letsencrypt" },
      tlsSecret: "gateway-tls",
    });
  });

  test("is reached from outside by its name alone", () => {
    expect(stack.ingress).toMatchObject({
      host: "models.example.org",
      className: "nginx",
      tlsSecret: "gateway-tls",
      annotations: { "cert-manager.io/issuer": "letsencrypt" },
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

describe("the claim of the engine store", () => {
  test.each<[string, Values, object]>([
    ["is bound to a volume that is there", { existingVolume: "disk" }, { storageClass: "", volume: "disk" }],
    [
      "has the class of that volume where it has one",
      { existingVolume: "disk", storageClass: "nfs" },
      { storageClass: "nfs", volume: "disk" },
    ],
    ["gets its volume of a class", { storageClass: "nfs" }, { storageClass: "nfs", volume: null }],
  ])("%s", (_, engineStore, creation) => {
    expect(clusterStack({ ...clusterValues, engineStore }).store?.creation).toMatchObject(creation);
  });
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

  test("are those that a pool's servers and builds run, on its machines alone", () => {
    const { prePulls } = clusterStack(pulling("gpu", "cpu"));
    expect(prePulls.map(({ name, pod }) => [name, pod.image, pod.placement.pool])).toEqual([
      ["pre-pull-gpu-trtllm", "trtllm", "gpu"],
      ["pre-pull-cpu-encoders", "encoders", "cpu"],
    ]);
    expect(clusterStack(clusterValues).prePulls).toEqual([]);
  });

  test("take no GPU, and are in the quota once for each machine", () => {
    const pods = (values: Values) => Number(clusterStack(values).quota?.hard.pods);
    expect(clusterStack(pulling("gpu")).prePulls.map(({ pod }) => pod.resources.gpus)).toEqual([null]);
    expect(pods(pulling("gpu")) - pods(clusterValues)).toBe(clusterValues.pools[0].nodes.max);
  });
});

describe("databases", () => {
  test("of the two kinds have volumes of their own, and users that own them", () => {
    const of = (databases: string) =>
      clusterStack({ ...clusterValues, databases, databaseStorage: { sizeGiB: 7 } }).databases.map(
        ({ pod, claim }) => [pod.image, pod.userId, claim.name, claim.sizeGiB],
      );
    expect(of("mock")).toEqual([
      ["services", 1000, "mock-data", 7],
      ["services", 1000, "mock-data", 7],
    ]);
    expect(of("container")).toEqual([
      ["mongo", 999, "container-data", 7],
      ["qdrant", 1000, "container-data", 7],
    ]);
  });
});

test("a stack whose name is no label is refused before anything is planned", () => {
  expect(() => clusterStack(clusterValues, "-demo")).toThrow(/--stack/);
  expect(() => clusterStack(clusterValues, "a".repeat(64))).toThrow(/63/);
});

test("the same file gives the same bytes, whatever the order of its keys", () => {
  const reordered = Object.fromEntries(Object.entries(fullValues).toReversed());
  expect(JSON.stringify(clusterStack(reordered))).toBe(JSON.stringify(clusterStack(fullValues)));
});

test("no secret of the stack file is in it", () => {
  expect(JSON.stringify(clusterStack(fullValues))).not.toContain("hush");
});

describe("a stack file", () => {
  const problemsOf = (values: Values) =>
    readStack({ ...clusterValues, ...values }).problems.map(({ path }) => path);

  test.each<[string, Values, readonly string[]]>([
    ["external databases nowhere", { databases: "external" }, ["externalDatabases"]],
    [
      "an address that is nowhere",
      { databases: "external", externalDatabases: { mongo: {}, vector: { url: "http://10.0.0.5:6333" } } },
      ["externalDatabases.mongo.uri"],
    ],
    [
      "an address in two places",
      {
        databases: "external",
        externalDatabases: {
          mongo: { uri: "mongodb://a", uriSecret: { name: "mongo" } },
          vector: { url: "http://10.0.0.5:6333" },
        },
      },
      ["externalDatabases.mongo.uriSecret"],
    ],
    ["a namespace of the cluster's own", { namespace: "kube-system" }, ["namespace"]],
    [
      "a namespace whose priority classes Kubernetes refuses",
      { namespace: "system-models", createNamespace: false },
      ["namespace"],
    ],
    [
      "images on every machine of the cluster",
      { pools: [{ ...clusterValues.pools[0], prePullImages: true }] },
      ["pools[0].prePullImages"],
    ],
    ["an address for a name", { gateway: { hostname: "https://m.example.org" } }, ["gateway.hostname"]],
    ["a name with a capital", { gateway: { hostname: "Models.example.org" } }, ["gateway.hostname"]],
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
      "labels that are none",
      { pools: [{ ...clusterValues.pools[0], nodeSelector: { "a b": "c" } }] },
      ["pools[0].nodeSelector"],
    ],
    [
      "two mistakes at once",
      { encoders: false, databases: "container", namespace: "A" },
      ["namespace", "databases"],
    ],
  ])("with %s is refused", (_, values, paths) => {
    expect(problemsOf(values).map((path) => path.replace(/(nodeSelector).*/, "$1"))).toEqual(paths);
  });
});
