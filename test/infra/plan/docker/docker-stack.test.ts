import { describe, expect, test } from "vitest";
import { dockerStack, neededImages } from "../../../../infra/plan/docker/docker-stack.ts";
import type { DockerContainer, DockerImage, DockerStack } from "../../../../infra/plan/docker/types.ts";
import { ConfigError } from "../../../../infra/problems.ts";
import {
  containerOf,
  cpuValues,
  dockerPlan,
  exampleValues,
  gpuValues,
  lockedImages,
  stackOf,
  type Values,
} from "./stacks.ts";

const namesOf = ({ containers }: DockerStack) => containers.map(({ name }) => name);
const withoutKeys = (names: readonly string[]) => names.map((name) => name.replace(/-[0-9a-f]{12}$/, "-KEY"));

function json(container: DockerContainer, path: string): Record<string, never> {
  return JSON.parse(container.files[path] ?? "");
}

/** Two models and the encoders on one machine with two GPUs. */
const twoModels: Values = {
  ...gpuValues,
  host: { machine: { gpu: "A10G", gpus: 2, vcpus: 32, memoryGiB: 128 } },
  models: [
    { name: "first", model: "gpt2-medium" },
    { name: "second", model: "gpt2-medium", limits: { maxBatchSize: 2 } },
  ],
};

describe("a stack of the CPU tier", () => {
  const stack = stackOf(cpuValues);

  test("has the services of the local platform, each in a container", () => {
    expect(namesOf(stack)).toEqual([
      "demo-encoders",
      "demo-smollm2",
      "demo-mongo",
      "demo-vector",
      "demo-gateway",
    ]);
    expect(neededImages(dockerPlan(cpuValues))).toEqual(["services", "cpu-models"]);
    expect(stack.volumes.map(({ name, isKept }) => [name, isKept])).toEqual([
      ["demo-mock-mongo", true],
      ["demo-mock-vector", true],
    ]);
  });

  test("answers on loopback alone", () => {
    const addresses = stack.containers.flatMap(({ ports }) => ports.map(({ hostAddress }) => hostAddress));
    expect(addresses).toHaveLength(9);
    expect(new Set(addresses)).toEqual(new Set(["127.0.0.1"]));
    expect(stack.endpoints).toEqual({
      gateway: "http://127.0.0.1:8080",
      mongo: "mongodb://127.0.0.1:27017",
      vector: "http://127.0.0.1:6333",
      encoders: {
        http: "http://127.0.0.1:8500",
        grpc: "127.0.0.1:8501",
        metrics: "http://127.0.0.1:8502/metrics",
      },
      models: {
        smollm2: {
          http: "http://127.0.0.1:8000",
          grpc: "127.0.0.1:8001",
          metrics: "http://127.0.0.1:8002/metrics",
          generate: "http://127.0.0.1:8000/v2/models/ensemble/generate",
        },
      },
      gatewayReach: "host",
      gatewayDnsName: null,
      reach: "host",
    });
  });

  test("asks for neither GPU nor locked memory, which an ordinary Docker engine refuses", () => {
    for (const { gpus, ulimits } of stack.containers) expect([gpus, ulimits]).toEqual([null, {}]);
  });

  test("gives each Triton the repository that it assembles", () => {
    const encoders = containerOf(stack, "encoders");
    expect(encoders.entrypoint).toEqual(["python", "-m", "engine_room_models.container"]);
    expect(encoders.command).toEqual(["/etc/engine-room/repository.json"]);
    const repository = json(encoders, "/etc/engine-room/repository.json");
    expect(Object.keys(repository)).toEqual(["artifacts", "files", "version"]);
    expect(Object.keys(repository.artifacts ?? {})).toEqual(["text_encoder/1", "vision_encoder/1"]);
  });

  test("has the ports that its file asks for", () => {
    const { endpoints } = stackOf({
      ...cpuValues,
      models: [{ name: "smollm2", model: "smollm2-135m-instruct", ports: { grpc: 9001 } }],
      gateway: { port: 80 },
      databasePorts: { vector: 7333 },
    });
    expect(endpoints.models.smollm2?.grpc).toBe("127.0.0.1:9001");
    expect(endpoints.models.smollm2?.http).toBe("http://127.0.0.1:8000");
    expect(endpoints.gateway).toBe("http://127.0.0.1:80");
    expect(endpoints.vector).toBe("http://127.0.0.1:7333");
  });
});

describe("a stack of the GPU tier", () => {
  test("builds one after the other, then serves", () => {
    const stack = stackOf({ ...twoModels, encoders: { device: "gpu" } });
    const names = namesOf(stack);
    expect(withoutKeys(names)).toEqual([
      "demo-gpt2-medium-KEY",
      "demo-gpt2-medium-KEY",
      "demo-encoders-KEY",
      "demo-first",
      "demo-second",
      "demo-encoders",
      "demo-mongo",
      "demo-vector",
      "demo-gateway",
    ]);
    const [first, second, encoders] = names;
    expect(stack.containers.map(({ after }) => after)).toEqual([
      [],
      [first],
      [second],
      // GPU 0 is that of the first model and of the encoders, which find no GPU of their own.
      [first, encoders],
      [second],
      [first, encoders],
      [],
      [],
      ["demo-mongo", "demo-vector"],
    ]);
    expect(stack.containers.slice(0, 6).map(({ gpus }) => gpus)).toEqual([[0], [1], [0], [0], [1], [0]]);
  });

  test("builds the same engine once, on a GPU that nobody serves from", () => {
    const stack = stackOf(exampleValues("llama-2-7b-tutorial"));
    const builds = stack.containers.filter(({ lifecycle }) => lifecycle === "task");
    expect(builds.map(({ gpus }) => gpus)).toEqual([[2]]);
    const [build] = builds;
    expect(containerOf(stack, "triton", "llama-2-7b").after).toEqual([build?.name]);
    expect(containerOf(stack, "triton", "llama-2-7b-cli").after).toEqual([build?.name]);
  });

  test("writes the store in builds, and reads it in servers", () => {
    const stack = stackOf({ ...gpuValues, engineStore: { path: "/data/store" } });
    expect(stack.volumes.map(({ name }) => name)).not.toContain("demo-store");
    const stores = stack.containers.flatMap(({ lifecycle, mounts }) =>
      mounts
        .filter(({ path }) => path === "/store")
        .map(({ source, readOnly }) => [lifecycle, source, readOnly]),
    );
    const source = { hostPath: "/data/store" };
    expect(stores).toEqual([
      ["task", source, false],
      ["task", source, false],
      ["service", source, true],
      ["service", source, true],
    ]);
    expect(stack.notes.join("\n")).toContain("/data/store of the host as user 1000");
  });

  test("keeps the store and the documents, and not what builds leave over", () => {
    expect(stackOf(gpuValues).volumes.map(({ name, isKept }) => [name, isKept])).toEqual([
      ["demo-store", true],
      ["demo-scratch", false],
      ["demo-mock-mongo", true],
      ["demo-mock-vector", true],
    ]);
  });

  test("has no databases without encoders", () => {
    const stack = stackOf({ ...gpuValues, encoders: false });
    expect(stack.containers.map(({ role }) => role)).toEqual(["engineBuild", "triton", "gateway"]);
    expect(stack.endpoints).toMatchObject({ encoders: null, mongo: null, vector: null });
    expect(neededImages(dockerPlan({ ...gpuValues, encoders: false }))).toEqual(["services", "trtllm"]);
  });

  test("fetches the weights of a model without engine, and needs no GPU for that", () => {
    const models = [{ name: "chat", model: "llama-2-7b-chat", runtime: "llmapi" }];
    const stack = stackOf({ ...gpuValues, models, encoders: false, hub: { token: "hf_abcdefgh" } });
    const build = containerOf(stack, "engineBuild");
    expect(build.gpus).toBeNull();
    expect(json(build, "/etc/engine-room/engine.json").plan).toBeNull();
    expect(containerOf(stack, "triton").after).toEqual([build.name]);
    const inFolder = stackOf({
      ...gpuValues,
      encoders: false,
      models: [{ ...models[0], weights: { from: "folder", path: "/data/llama", revision: "1" } }],
    });
    expect(inFolder.containers.map(({ role }) => role)).toEqual(["triton", "gateway"]);
  });

  test("mounts a folder of weights where it builds and where it serves", () => {
    const weights = { from: "folder", path: "/data/gpt", revision: "1" };
    const stack = stackOf({ ...gpuValues, models: [{ name: "gpt", model: "gpt2-medium", weights }] });
    const mount = { source: { hostPath: "/data/gpt" }, path: "/data/gpt", readOnly: true };
    expect(containerOf(stack, "engineBuild").mounts).toContainEqual(mount);
    expect(containerOf(stack, "triton").mounts).toContainEqual(mount);
  });

  test("gives a build four times its estimate, and half an hour besides", () => {
    const plan = dockerPlan(exampleValues("llava-1.5"));
    const [estimate] = plan.tier === "gpu" ? plan.cost.builds : [];
    const build = containerOf(stackOf(exampleValues("llava-1.5")), "engineBuild");
    expect(build.timeoutSeconds).toBe(1800 + 4 * (estimate?.seconds ?? Number.NaN));
  });

  test("waits for a server twice as long as copy and load are planned to take, and a minute besides", () => {
    const plan = dockerPlan(exampleValues("llava-1.5"));
    const steps = plan.tier === "gpu" ? (plan.models[0]?.coldStart.steps ?? []) : [];
    const planned = steps.filter(({ what }) => what === "engineCopy" || what === "load");
    expect(planned).toHaveLength(2);
    const { health } = containerOf(stackOf(exampleValues("llava-1.5")), "triton");
    expect(health?.startPeriodSeconds).toBe(60 + 2 * planned.reduce((sum, { seconds }) => sum + seconds, 0));
  });

  test("names the model that clients ask", () => {
    const { endpoints } = stackOf(exampleValues("llava-1.5"));
    expect(endpoints.models.llava?.generate).toBe("http://127.0.0.1:8000/v2/models/llava-1.5/generate");
  });
});

test("builds alone are told their image, by digest or by tag", () => {
  const plan = dockerPlan(gpuValues);
  const tag = "engine-room/encoders:25.07-0123456789ab";
  const [built, digest] = [
    { kind: "build", name: "encoders", tag } as DockerImage,
    "example.org/trtllm@sha256:1",
  ];
  const images = lockedImages(plan).map((image): DockerImage => {
    if (image.name === "encoders") return built;
    return image.name === "trtllm" ? { kind: "locked", name: "trtllm", reference: digest } : image;
  });
  const { containers } = dockerStack(plan, { stack: "demo", images });
  const told = containers.flatMap(({ role, environment }) =>
    "ENGINE_ROOM_IMAGE" in environment ? [[role, environment.ENGINE_ROOM_IMAGE]] : [],
  );
  expect(told).toEqual([
    ["engineBuild", digest],
    ["encoderBuild", tag],
  ]);
});

describe("secrets", () => {
  test("of the hub reach builds alone, as a file", () => {
    const stack = stackOf({ ...gpuValues, hub: { token: "hf_TokenOfTheUser" } });
    expect(stack.containers.filter(({ secretFiles }) => Object.keys(secretFiles).length > 0)).toMatchObject([
      {
        role: "engineBuild",
        secretFiles: { "/run/secrets/hub-token": "hubToken" },
        environment: { HF_TOKEN_PATH: "/run/secrets/hub-token" },
      },
      { role: "encoderBuild", secretFiles: { "/run/secrets/hub-token": "hubToken" } },
    ]);
  });

  test("in a file of the host are mounted, and only read", () => {
    const stack = stackOf({ ...gpuValues, hub: { tokenFile: "/etc/hub-token" } });
    expect(containerOf(stack, "engineBuild").mounts).toContainEqual({
      source: { hostPath: "/etc/hub-token" },
      path: "/run/secrets/hub-token",
      readOnly: true,
    });
    for (const { secretFiles } of stack.containers) expect(secretFiles).toEqual({});
  });

  test.each([
    ["cpu", cpuValues],
    ["gpu", gpuValues],
  ])("of databases elsewhere reach the gateway alone, tier %s", (_tier, values) => {
    const externalDatabases = {
      mongo: { uri: "mongodb://user:hunter2@db/" },
      vector: { url: "http://10.0.0.5:6333", apiKey: "hunter3" },
    };
    const stack = stackOf({ ...values, databases: "external", externalDatabases });
    expect(stack.containers.map(({ role }) => role)).not.toContain("mongo");
    expect(containerOf(stack, "gateway").secretFiles).toEqual({
      "/run/secrets/mongo-uri": "mongoUri",
      "/run/secrets/vector-api-key": "vectorApiKey",
    });
    expect(JSON.stringify(stack)).not.toMatch(/hunter/);
    expect(stack.endpoints).toMatchObject({ mongo: null, vector: "http://10.0.0.5:6333" });
    const withoutKey = { ...externalDatabases, vector: { url: "http://10.0.0.5:6333" } };
    expect(
      containerOf(stackOf({ ...values, databases: "external", externalDatabases: withoutKey }), "gateway")
        .secretFiles,
    ).toEqual({ "/run/secrets/mongo-uri": "mongoUri" });
  });
});

describe("databases", () => {
  test("of the mocks and of the real ones have volumes of their own", () => {
    const real = stackOf({ ...cpuValues, databases: "container" });
    const mounts = (stack: DockerStack) =>
      (["mongo", "vector"] as const).map((role) => containerOf(stack, role).mounts[0]);
    expect(mounts(real)).toMatchObject([
      { source: { volume: "demo-mongo" }, path: "/data/db" },
      { source: { volume: "demo-vector" }, path: "/qdrant/storage" },
    ]);
    expect(mounts(stackOf(cpuValues))).toMatchObject([
      { source: { volume: "demo-mock-mongo" }, path: "/data" },
      { source: { volume: "demo-mock-vector" }, path: "/data" },
    ]);
    expect(neededImages(dockerPlan({ ...cpuValues, databases: "container" }))).toEqual([
      "services",
      "cpu-models",
      "mongo",
      "qdrant",
    ]);
  });

  test("run as other users than root, and write to their volume and to memory alone", () => {
    for (const databases of ["mock", "container"]) {
      const stack = stackOf({ ...cpuValues, databases });
      for (const role of ["mongo", "vector"] as const) {
        expect(containerOf(stack, role)).toMatchObject({
          readOnlyRoot: true,
          tmpfsBytes: { "/tmp": 64 * 1024 ** 2 },
        });
      }
    }
    expect(containerOf(stackOf({ ...cpuValues, databases: "container" }), "mongo").user).toBe("mongodb");
  });
});

describe("the gateway of a stack", () => {
  test("is bound to the host's address where others may reach it, and says who may use it", () => {
    const values = { ...cpuValues, gateway: { exposure: "internal" }, host: { address: "10.0.0.5" } };
    const stack = stackOf(values);
    const others = stack.containers.filter(({ role }) => role !== "gateway").flatMap(({ ports }) => ports);
    expect(containerOf(stack, "gateway").ports[0]?.hostAddress).toBe("10.0.0.5");
    expect(others.every(({ hostAddress }) => hostAddress === "127.0.0.1")).toBe(true);
    expect(stack.endpoints.gateway).toBe("http://10.0.0.5:8080");
    expect(stack.notes[0]).toMatch(/^Everybody who reaches 10\.0\.0\.5:8080/);
    const apiKeys = [{ name: "alice", sha256: "0".repeat(64) }];
    const withKey = stackOf({ ...values, gateway: { exposure: "internal", apiKeys } });
    expect(withKey.notes.join()).not.toContain("Everybody");
  });

  test("is asked on loopback where it listens on all addresses", () => {
    const { endpoints } = stackOf({
      ...cpuValues,
      gateway: { exposure: "internal" },
      host: { address: "0.0.0.0" },
    });
    expect(endpoints.gateway).toBe("http://127.0.0.1:8080");
  });
});

describe("what can't be", () => {
  const plan = dockerPlan(cpuValues);

  test.each(["-demo", "_demo", "a b", ""])("a stack with the name %j", (stack) => {
    expect(() => dockerStack(plan, { stack, images: lockedImages(plan) })).toThrow(ConfigError);
  });

  test("a stack of one letter is all right", () => {
    expect(namesOf(stackOf(cpuValues, "x"))).toContain("x-gateway");
  });

  test("a container without its image", () => {
    const [, ...rest] = lockedImages(plan);
    expect(() => dockerStack(plan, { stack: "demo", images: rest })).toThrow("services");
  });
});

test("users hear whose weights make image embeddings, and how weights from S3 are fetched", () => {
  const notesOf = (visionWeights: string) =>
    stackOf({ ...cpuValues, encoders: { visionWeights } }).notes.join();
  expect(notesOf("auto")).toContain("the log of the encoders says");
  expect(notesOf("package")).toContain("do not come from CLIP");
  expect(notesOf("hub")).not.toMatch(/CLIP|images/);
  const weights = { from: "s3", uri: "s3://bucket/gpt", revision: "1" };
  const { notes } = stackOf({ ...gpuValues, models: [{ name: "gpt", model: "gpt2-medium", weights }] });
  expect(notes.join()).toContain("HttpPutResponseHopLimit 2");
});
