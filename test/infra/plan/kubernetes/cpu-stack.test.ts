import { describe, expect, test } from "vitest";
import { readStack } from "../../../../infra/config/config.ts";
import { clusterImageNames } from "../../../../infra/plan/kubernetes/images.ts";
import { stackOf } from "../docker/stacks.ts";
import {
  clusterPlan,
  clusterStack,
  cpuClusterValues,
  first,
  podsOf,
  SHA256,
  stackFileValues,
  type Values,
} from "./stacks.ts";

const stack = clusterStack(cpuClusterValues);
const model = first(stack.models);

describe("a stack on CPUs in a cluster", () => {
  test("has a server for each model and one for the encoders, no build, no store, no GPU", () => {
    expect(stack.models.map(({ name }) => name)).toEqual(["smollm2"]);
    expect(stack.encoders?.name).toBe("encoders");
    expect([stack.builds, stack.store, stack.prePulls]).toEqual([[], null, []]);
    expect(podsOf(stack).map(({ resources }) => resources.gpus)).toEqual(podsOf(stack).map(() => null));
    expect(stack.priorities.map(({ name }) => name)).toEqual(["engine-room-front", "engine-room-serving"]);
    expect(Object.keys(stack.quota?.hard ?? {}).filter((name) => name.includes("nvidia"))).toEqual([]);
  });

  test("serves the repositories of a Docker host's stack, to the byte", () => {
    const { containers } = stackOf({ ...cpuClusterValues, platform: "docker" });
    const inDocker = ["encoders", "triton"].map(
      (role) => containers.find((one) => one.role === role)?.files["/etc/engine-room/repository.json"],
    );
    expect(inDocker.every((text) => typeof text === "string")).toBe(true);
    expect([stack.encoders, model].map((server) => server?.pod.config?.data["repository.json"])).toEqual(
      inDocker,
    );
  });

  test("answers under the names of every other stack in a cluster", () => {
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
    const gateway = JSON.parse(stack.gateway.pod.config?.data["gateway.json"] ?? "");
    expect(gateway).toMatchObject({
      models: [{ name: "smollm2", http: "http://smollm2:8000", tritonModel: "ensemble" }],
      encoders: { http: "http://encoders:8000" },
    });
  });

  test("asks for the threads of each model, and for the memory of its contexts", () => {
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

  test("answers on while it ends for as long as the gateway waits", () => {
    expect(model.pod.args.slice(1)).toEqual(["--exit-timeout-seconds", "300"]);
    expect(model.pod.graceSeconds).toBeGreaterThan(model.pod.preStopSeconds + 300);
  });

  test("runs as many servers as the stack file says, on the machines that it names", () => {
    const placed = clusterStack({
      ...cpuClusterValues,
      models: [{ ...cpuClusterValues.models[0], replicas: 3 }],
      encoders: { replicas: 2 },
      machines: { nodeSelector: { team: "ml" }, tolerations: [{ key: "team" }] },
    });
    expect([first(placed.models).replicas, placed.encoders?.replicas]).toEqual([3, 2]);
    for (const { placement } of podsOf(placed))
      expect(placement).toMatchObject({
        nodeSelector: { team: "ml" },
        tolerations: [{ key: "team", operator: "Exists" }],
      });
  });

  test("lets the encoders fetch weights only where they may come from a hub", () => {
    const toInternet = (visionWeights: string) =>
      clusterStack({ ...cpuClusterValues, encoders: { visionWeights } }).edges.flatMap(({ from, to }) =>
        to.kind === "internet" && from.kind === "role" ? [from.role] : [],
      );
    expect(toInternet("auto")).toEqual(["encoders"]);
    expect(toInternet("seeded")).toEqual([]);
  });

  test.each([
    ["mock", ["services", "cpu-models"]],
    ["container", ["services", "cpu-models", "mongo", "qdrant"]],
    ["external", ["services", "cpu-models"]],
  ])("pulls with databases: %s the images %j", (databases, images) => {
    const external = {
      mongo: { uri: "mongodb://u:hush@db.example.org" },
      vector: { url: "https://v.example.org:6334" },
    };
    const values = {
      ...cpuClusterValues,
      databases,
      ...(databases === "external" ? { externalDatabases: external } : {}),
    };
    expect(clusterImageNames(clusterPlan(values))).toEqual(images);
    const planned = clusterStack(values);
    expect(planned.databases.length).toBe(databases === "external" ? 0 : 2);
    expect(JSON.stringify(planned)).not.toContain("hush");
  });

  test("is what the project's own file for such clusters plans", () => {
    expect(clusterStack(stackFileValues("Pulumi.kind.yaml")).models.map(({ name }) => name)).toEqual([
      "smollm2",
    ]);
  });
});

describe("a stack file for CPUs in a cluster", () => {
  const pathsOf = (changes: Values) =>
    readStack({ ...cpuClusterValues, ...changes }).problems.map(({ path }) => path);

  test("has nothing of GPUs", () => {
    expect(pathsOf({ pools: [] })).toEqual(["pools"]);
    expect(pathsOf({ release: "25.07" })).toEqual(["release"]);
  });

  test("takes a certificate for a name, and from one place", () => {
    expect(pathsOf({ gateway: { tls: { issuer: "letsencrypt" } } })).toEqual(["gateway.hostname"]);
    expect(
      pathsOf({ gateway: { hostname: "m.example.org", tls: { issuer: "a", secretName: "b" } } }),
    ).toEqual(["gateway.tls"]);
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

  test("needs the addresses of databases elsewhere", () => {
    expect(pathsOf({ databases: "external" })).toEqual(["externalDatabases"]);
  });
});
