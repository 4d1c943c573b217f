import { expect, test } from "vitest";
import { neededImages } from "../../../../infra/plan/images.ts";
import { networkEdges } from "../../../../infra/plan/kubernetes/network.ts";
import { stackProblems } from "../../thrown-problems.ts";
import { stackOf } from "../docker/stacks.ts";
import {
  clusterPlan,
  clusterStack,
  configOf,
  containerOf,
  cpuClusterValues,
  first,
  podsOf,
  SHA256,
  stackFileValues,
  type Values,
} from "./stacks.ts";

const stack = clusterStack(cpuClusterValues);
const model = first(stack.models);

test("a CPU stack has servers for models and encoders, and neither builds nor store nor GPUs", () => {
  expect(stack.models.map(({ name }) => name)).toEqual(["smollm2"]);
  expect(stack.encoders?.name).toBe("encoders");
  expect([stack.builds, stack.store, stack.prePulls]).toEqual([[], null, []]);
  expect(podsOf(stack).map(({ resources }) => resources.gpus)).toEqual(podsOf(stack).map(() => null));
  expect(stack.priorities.map(({ metadata }) => metadata.name)).toEqual([
    "engine-room-front",
    "engine-room-serving",
  ]);
  expect(Object.keys(stack.quota?.spec?.hard ?? {}).filter((name) => name.includes("nvidia"))).toEqual([]);
});

test("the model repositories of a CPU stack are the same in Kubernetes and Docker", () => {
  const { containers } = stackOf({ ...cpuClusterValues, platform: "docker" });
  const file = "/etc/engine-room/server.json";
  const inDocker = ["encoders", "triton"].map((role) => {
    const text = containers.find(({ container }) => container.role === role)?.container.files[file];
    return JSON.parse(text ?? "").repository;
  });
  expect(
    [stack.encoders, model].map((server) => server && configOf(server.pod, "server.json").repository),
  ).toEqual(inDocker);
});

test("endpoints of a CPU stack have the same names as those of a GPU stack", () => {
  expect(stack.endpoints).toEqual({
    gateway: "http://gateway.engine-room.svc:8080",
    mongo: "mongodb://mongo.engine-room.svc:27017",
    vector: expect.stringMatching(/^http:\/\/vector\.engine-room\.svc:\d+$/),
    encoders: {
      http: "http://encoders.engine-room.svc:8000",
      grpc: "encoders.engine-room.svc:8001",
      metrics: "http://encoders.engine-room.svc:8002/metrics",
    },
    models: {
      smollm2: {
        http: "http://smollm2.engine-room.svc:8000",
        grpc: "smollm2.engine-room.svc:8001",
        metrics: "http://smollm2.engine-room.svc:8002/metrics",
        generate: "http://smollm2.engine-room.svc:8000/v2/models/ensemble/generate",
      },
    },
    gatewayReach: "cluster",
    gatewayDnsName: null,
    reach: "cluster",
  });
  const gateway = configOf(stack.gateway.pod, "gateway.json");
  expect(gateway).toMatchObject({
    models: [{ name: "smollm2", http: "http://smollm2:8000", profile: { tritonModel: "ensemble" } }],
    encoders: { http: "http://encoders:8000" },
  });
});

test("a CPU server requests its threads as CPUs and memory for its contexts", () => {
  const asked = (changes: Values) =>
    first(
      clusterStack({ ...cpuClusterValues, models: [{ ...cpuClusterValues.models[0], ...changes }] }).models,
    ).pod.resources;
  expect(asked({ threads: 3 }).cpuMillis).toBe(3000);
  expect(asked({}).cpuMillis).toBe(1000);
  // 22.5 KiB a token.
  const more = asked({ parallelRequests: 8, contextTokens: 4096 }).memoryMiB;
  expect(more - asked({ parallelRequests: 4, contextTokens: 4096 }).memoryMiB).toBe(360);
});

test("a CPU server that is stopped finishes its requests within the gateway's time limit", () => {
  const { lifecycle } = containerOf(model.pod);
  expect(configOf(model.pod, "server.json")).toMatchObject({ launch: { exitTimeoutSeconds: 300 } });
  expect(lifecycle).toEqual({ preStop: { exec: { command: ["sleep", "10"] } } });
  expect(model.pod.template.spec?.terminationGracePeriodSeconds).toBeGreaterThan(10 + 300);
});

test("CPU servers have the replicas, node selector and tolerations of the stack file", () => {
  const placed = clusterStack({
    ...cpuClusterValues,
    models: [{ ...cpuClusterValues.models[0], replicas: 3 }],
    encoders: { replicas: 2 },
    machines: { nodeSelector: { team: "ml" }, tolerations: [{ key: "team" }] },
  });
  expect([first(placed.models).replicas, placed.encoders?.replicas]).toEqual([3, 2]);
  for (const { template } of podsOf(placed))
    expect(template.spec).toMatchObject({
      nodeSelector: { team: "ml" },
      tolerations: [{ key: "team", operator: "Exists" }],
    });
});

test("encoders may reach the internet only if their weights may come from a hub", () => {
  const toInternet = (visionWeights: string) =>
    networkEdges(clusterPlan({ ...cpuClusterValues, encoders: { visionWeights } }))
      .filter(({ to }) => to === "internet")
      .map(({ from }) => from);
  expect(toInternet("auto")).toEqual(["encoders"]);
  expect(toInternet("seeded")).toEqual([]);
});

test.each([
  ["mock", ["services", "cpu-models"]],
  ["container", ["services", "cpu-models", "mongo", "qdrant"]],
  ["external", ["services", "cpu-models"]],
])("a CPU stack with `databases: %s` needs the images %j", (databases, images) => {
  const external = {
    mongo: { uri: "mongodb://u:hush@db.example.org" },
    vector: { url: "https://v.example.org:6334" },
  };
  const values = {
    ...cpuClusterValues,
    databases,
    ...(databases === "external" ? { externalDatabases: external } : {}),
  };
  expect(neededImages(clusterPlan(values))).toEqual(images);
  const planned = clusterStack(values);
  expect(planned.databases.length).toBe(databases === "external" ? 0 : 2);
  expect(JSON.stringify(planned)).not.toContain("hush");
});

test("Pulumi.kind.yaml plans the model smollm2", () => {
  expect(clusterStack(stackFileValues("Pulumi.kind.yaml")).models.map(({ name }) => name)).toEqual([
    "smollm2",
  ]);
});

const pathsOf = (changes: Values) =>
  stackProblems({ ...cpuClusterValues, ...changes }).map(({ path }) => path);

test("a CPU stack file with pools or a release is refused", () => {
  expect(pathsOf({ pools: [] })).toEqual(["pools"]);
  expect(pathsOf({ release: "25.07" })).toEqual(["release"]);
});

test("a CPU stack file with an incomplete or ambiguous certificate is refused", () => {
  expect(pathsOf({ gateway: { tls: { issuer: "letsencrypt" } } })).toEqual(["gateway.hostname"]);
  expect(pathsOf({ gateway: { hostname: "m.example.org", tls: { issuer: "a", secretName: "b" } } })).toEqual([
    "gateway.tls",
  ]);
  expect(pathsOf({ gateway: { exposure: "public" } })).toEqual(["gateway.apiKeys", "gateway.tls"]);
  expect(
    pathsOf({
      gateway: {
        exposure: "public",
        hostname: "m.example.org",
        tls: { issuer: "letsencrypt" },
        apiKeys: [{ name: "alice", sha256: SHA256 }],
      },
    }),
  ).toEqual([]);
});

test("a CPU stack file with external databases without addresses is refused", () => {
  expect(pathsOf({ databases: "external" })).toEqual(["externalDatabases"]);
});
