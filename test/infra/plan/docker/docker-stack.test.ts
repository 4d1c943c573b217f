import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { GatewayConfig } from "../../../../containers/services/gateway/src/config.ts";
import { parseConfig } from "../../../../containers/services/gateway/src/config-file.ts";
import { readStack } from "../../../../infra/config/config.ts";
import { isTask } from "../../../../infra/plan/containers/container.ts";
import type { DockerContainer } from "../../../../infra/plan/docker/container-args.ts";
import { type DockerStack, dockerStack } from "../../../../infra/plan/docker/docker-stack.ts";
import type { DockerImage } from "../../../../infra/plan/docker/images.ts";
import { neededImages } from "../../../../infra/plan/images.ts";
import { planStack } from "../../../../infra/plan/plan-stack.ts";
import { ConfigError } from "../../../../infra/problems.ts";
import { times } from "../../../harness/thorough.ts";
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

const namesOf = ({ containers }: DockerStack) => containers.map(({ args }) => args.name);

const withoutKeys = (names: readonly string[]) => names.map((name) => name.replace(/-[0-9a-f]{12}$/, "-KEY"));

function json({ container }: DockerContainer, path: string): Record<string, never> {
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

  test("a CPU stack has a container for each service", () => {
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

  test("every port of a CPU stack is published on loopback only", () => {
    const addresses = stack.containers.flatMap(({ args }) => args.ports.map(({ ip }) => ip));
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

  test("a CPU stack requests neither GPUs nor locked memory", () => {
    for (const { gpus, args } of stack.containers) expect([gpus, args.ulimits]).toEqual([null, []]);
  });

  test("a CPU Triton is started as those of the GPU tier, with its own models", () => {
    const encoders = containerOf(stack, "encoders");
    expect(encoders.args.command).toEqual(["triton_entrypoint", "serve", "/etc/engine-room/server.json"]);
    expect(json(encoders, "/etc/engine-room/server.json")).toMatchObject({
      repository: {
        models: [{ name: "text_encoder" }, { name: "vision_encoder" }, { name: "llava_ensemble" }],
      },
      launch: { mpirun: [], exitTimeoutSeconds: 20 },
    });
  });

  test("containers publish the ports of the stack file", () => {
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
  test("GPU builds run in order before their servers", () => {
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

  test("an engine of two models is built once, on a GPU without a server", () => {
    const stack = stackOf(exampleValues("llama-2-7b-tutorial"));
    const builds = stack.containers.filter(({ container }) => isTask(container));
    expect(builds.map(({ gpus }) => gpus)).toEqual([[2]]);
    const [build] = builds;
    expect(containerOf(stack, "triton", "llama-2-7b").after).toEqual([build?.args.name]);
    expect(containerOf(stack, "triton", "llama-2-7b-cli").after).toEqual([build?.args.name]);
  });

  test("builds mount the store for writing and servers mount it read-only", () => {
    const stack = stackOf({ ...gpuValues, engineStore: { path: "/data/store" } });
    expect(stack.volumes.map(({ name }) => name)).not.toContain("demo-store");
    const stores = stack.containers.flatMap(({ container, args }) =>
      args.mounts
        .filter(({ target }) => target === "/store")
        .map(({ type, source, readOnly }) => [container.role, type, source, readOnly]),
    );
    expect(stores).toEqual([
      ["engineBuild", "bind", "/data/store", false],
      ["encoderBuild", "bind", "/data/store", false],
      ["triton", "bind", "/data/store", true],
      ["encoders", "bind", "/data/store", true],
    ]);
    expect(stack.notes.join("\n")).toContain("/data/store of the host as user 1000");
  });

  test("volumes of store and documents are kept, the scratch volume is not", () => {
    expect(stackOf(gpuValues).volumes.map(({ name, isKept }) => [name, isKept])).toEqual([
      ["demo-store", true],
      ["demo-scratch", false],
      ["demo-mock-mongo", true],
      ["demo-mock-vector", true],
    ]);
  });

  test("a GPU stack without encoders has no databases", () => {
    const stack = stackOf({ ...gpuValues, encoders: false });
    expect(stack.containers.map(({ container }) => container.role)).toEqual([
      "engineBuild",
      "triton",
      "gateway",
    ]);
    expect(stack.endpoints).toMatchObject({ encoders: null, mongo: null, vector: null });
    expect(neededImages(dockerPlan({ ...gpuValues, encoders: false }))).toEqual(["services", "trtllm"]);
  });

  test("weights of a model without an engine are downloaded without a GPU", () => {
    const models = [{ name: "chat", model: "llama-2-7b-chat", runtime: "llmapi" }];
    const stack = stackOf({ ...gpuValues, models, encoders: false, hub: { token: "hf_abcdefgh" } });
    const build = containerOf(stack, "engineBuild");
    expect([build.gpus, build.container.gpus]).toEqual([null, 0]);
    expect(json(build, "/etc/engine-room/engine.json").plan).toBeNull();
    expect(containerOf(stack, "triton").after).toEqual([build.args.name]);
    const inFolder = stackOf({
      ...gpuValues,
      encoders: false,
      models: [{ ...models[0], weights: { from: "folder", path: "/data/llama", revision: "1" } }],
    });
    expect(inFolder.containers.map(({ container }) => container.role)).toEqual(["triton", "gateway"]);
  });

  test("a folder of weights is mounted in build and server", () => {
    const weights = { from: "folder", path: "/data/gpt", revision: "1" };
    const stack = stackOf({ ...gpuValues, models: [{ name: "gpt", model: "gpt2-medium", weights }] });
    const mount = { type: "bind", source: "/data/gpt", target: "/data/gpt", readOnly: true };
    expect(containerOf(stack, "engineBuild").args.mounts).toContainEqual(mount);
    expect(containerOf(stack, "triton").args.mounts).toContainEqual(mount);
  });

  test("a build may take four times its estimate and half an hour more", () => {
    const plan = dockerPlan(exampleValues("llava-1.5"));
    const [estimate] = plan.tier === "gpu" ? plan.cost.builds : [];
    const build = containerOf(stackOf(exampleValues("llava-1.5")), "engineBuild");
    expect(build.container.timeoutSeconds).toBe(1800 + 4 * (estimate?.seconds ?? Number.NaN));
  });

  test("a server may take twice its planned copy and load time and a minute more to start", () => {
    const plan = dockerPlan(exampleValues("llava-1.5"));
    const steps = plan.tier === "gpu" ? (plan.models[0]?.coldStart.steps ?? []) : [];
    const planned = steps.filter(({ what }) => what === "engineCopy" || what === "load");
    expect(planned).toHaveLength(2);
    const { container } = containerOf(stackOf(exampleValues("llava-1.5")), "triton");
    expect(container.startSeconds).toBe(60 + 2 * planned.reduce((sum, { seconds }) => sum + seconds, 0));
  });

  test("the generate endpoint has the name of the Triton model", () => {
    const { endpoints } = stackOf(exampleValues("llava-1.5"));
    expect(endpoints.models.llava?.generate).toBe("http://127.0.0.1:8000/v2/models/llava-1.5/generate");
  });
});

test("only builds have their image's digest or tag in the environment", () => {
  const plan = dockerPlan(gpuValues);
  const tag = "engine-room/encoders:25.07-0123456789ab";
  const [built, digest] = [
    { kind: "build", name: "encoders", reference: tag } as DockerImage,
    "example.org/trtllm@sha256:1",
  ];
  const images = lockedImages(plan).map((image): DockerImage => {
    if (image.name === "encoders") return built;
    return image.name === "trtllm" ? { kind: "locked", name: "trtllm", reference: digest } : image;
  });
  const { containers } = dockerStack(plan, { stack: "demo", images });
  const told = containers.flatMap(({ container, args }) =>
    args.envs.filter((env) => env.startsWith("ENGINE_ROOM_IMAGE=")).map((env) => [container.role, env]),
  );
  expect(told).toEqual([
    ["engineBuild", `ENGINE_ROOM_IMAGE=${digest}`],
    ["encoderBuild", `ENGINE_ROOM_IMAGE=${tag}`],
  ]);
});

test("only builds have the hub token, as a file", () => {
  const stack = stackOf({ ...gpuValues, hub: { token: "hf_TokenOfTheUser" } });
  expect(stack.containers.filter(({ secretFiles }) => Object.keys(secretFiles).length > 0)).toMatchObject([
    {
      container: { role: "engineBuild", environment: { HF_TOKEN_PATH: "/run/secrets/hub-token" } },
      secretFiles: { "/run/secrets/hub-token": "hubToken" },
    },
    { container: { role: "encoderBuild" }, secretFiles: { "/run/secrets/hub-token": "hubToken" } },
  ]);
});

test("a token file of the host is mounted read-only", () => {
  const stack = stackOf({ ...gpuValues, hub: { tokenFile: "/etc/hub-token" } });
  expect(containerOf(stack, "engineBuild").args.mounts).toContainEqual({
    type: "bind",
    source: "/etc/hub-token",
    target: "/run/secrets/hub-token",
    readOnly: true,
  });
  for (const { secretFiles } of stack.containers) expect(secretFiles).toEqual({});
});

test.each([
  ["cpu", cpuValues],
  ["gpu", gpuValues],
])("only the gateway has the secrets of external databases in a %s stack", (_tier, values) => {
  const externalDatabases = {
    mongo: { uri: "mongodb://user:hunter2@db/" },
    vector: { url: "http://10.0.0.5:6333", apiKey: "hunter3" },
  };
  const stack = stackOf({ ...values, databases: "external", externalDatabases });
  expect(stack.containers.map(({ container }) => container.role)).not.toContain("mongo");
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

test("mock and real databases have different volumes", () => {
  const real = stackOf({ ...cpuValues, databases: "container" });
  const mounts = (stack: DockerStack) =>
    (["mongo", "vector"] as const).map((role) => containerOf(stack, role).args.mounts[0]);
  expect(mounts(real)).toMatchObject([
    { type: "volume", source: "demo-mongo", target: "/data/db" },
    { type: "volume", source: "demo-vector", target: "/qdrant/storage" },
  ]);
  expect(mounts(stackOf(cpuValues))).toMatchObject([
    { type: "volume", source: "demo-mock-mongo", target: "/data" },
    { type: "volume", source: "demo-mock-vector", target: "/data" },
  ]);
  expect(neededImages(dockerPlan({ ...cpuValues, databases: "container" }))).toEqual([
    "services",
    "cpu-models",
    "mongo",
    "qdrant",
  ]);
});

test("databases have a read-only root file system, and MongoDB does not run as root", () => {
  for (const databases of ["mock", "container"]) {
    const stack = stackOf({ ...cpuValues, databases });
    for (const role of ["mongo", "vector"] as const) {
      expect(containerOf(stack, role).args).toMatchObject({
        readOnly: true,
        tmpfs: { "/tmp": `size=${64 * 1024 ** 2},mode=1777` },
      });
    }
  }
  expect(containerOf(stackOf({ ...cpuValues, databases: "container" }), "mongo").args.user).toBe("mongodb");
});

test("an internal gateway is published on the host's address with a note about open access", () => {
  const values = { ...cpuValues, gateway: { exposure: "internal" }, host: { address: "10.0.0.5" } };
  const stack = stackOf(values);
  const others = stack.containers
    .filter(({ container }) => container.role !== "gateway")
    .flatMap(({ args }) => args.ports);
  expect(containerOf(stack, "gateway").args.ports[0]?.ip).toBe("10.0.0.5");
  expect(others.every(({ ip }) => ip === "127.0.0.1")).toBe(true);
  expect(stack.endpoints.gateway).toBe("http://10.0.0.5:8080");
  expect(stack.notes[0]).toMatch(/^Everyone who reaches 10\.0\.0\.5:8080/);
  const apiKeys = [{ name: "alice", sha256: "0".repeat(64) }];
  const withKey = stackOf({ ...values, gateway: { exposure: "internal", apiKeys } });
  expect(withKey.notes.join()).not.toContain("Everybody");
});

test("the endpoint of a gateway on 0.0.0.0 is loopback", () => {
  const { endpoints } = stackOf({
    ...cpuValues,
    gateway: { exposure: "internal" },
    host: { address: "0.0.0.0" },
  });
  expect(endpoints.gateway).toBe("http://127.0.0.1:8080");
});

describe("what can't be", () => {
  const plan = dockerPlan(cpuValues);

  test.each(["-demo", "_demo", "a b", ""])("a stack with the name %j is refused", (stack) => {
    expect(() => dockerStack(plan, { stack, images: lockedImages(plan) })).toThrow(ConfigError);
  });

  test("a stack name of one letter is accepted", () => {
    expect(namesOf(stackOf(cpuValues, "x"))).toContain("x-gateway");
  });

  test("a container without an image is refused", () => {
    const [, ...rest] = lockedImages(plan);
    expect(() => dockerStack(plan, { stack: "demo", images: rest })).toThrow("services");
  });
});

test("notes are about the weights of image embeddings and about access to S3", () => {
  const notesOf = (visionWeights: string) =>
    stackOf({ ...cpuValues, encoders: { visionWeights } }).notes.join();
  expect(notesOf("auto")).toContain("the log of the encoders has");
  expect(notesOf("package")).toContain("do not come from CLIP");
  expect(notesOf("hub")).not.toMatch(/CLIP|images/);
  const weights = { from: "s3", uri: "s3://bucket/gpt", revision: "1" };
  const { notes } = stackOf({ ...gpuValues, models: [{ name: "gpt", model: "gpt2-medium", weights }] });
  expect(notes.join()).toContain("HttpPutResponseHopLimit 2");
});

/** The file of the gateway's container, read by the gateway itself. */
function gatewayOf(values: Values): GatewayConfig {
  const { container, args } = containerOf(stackOf(values), "gateway");
  const { files } = container;
  expect(args.command).toEqual(["gateway", "--config", "/etc/engine-room/gateway.json"]);
  return parseConfig(JSON.parse(files["/etc/engine-room/gateway.json"] ?? ""));
}

const examples: readonly (readonly [string, Values])[] = [
  ["llava-1.5", exampleValues("llava-1.5")],
  ["llama-2-7b-tutorial", exampleValues("llama-2-7b-tutorial")],
  ["gpt2-medium-encoders", exampleValues("gpt2-medium-encoders")],
  ["llama-2-7b-chat-kubernetes", exampleValues("llama-2-7b-chat-kubernetes", { instanceType: "g5.4xlarge" })],
  ["multimodal-guide", exampleValues("multimodal-guide", { instanceType: "g6e.48xlarge", diskGiB: 600 })],
  ["the CPU tier", cpuValues],
  ["databases of its own", { ...gpuValues, databases: "container" }],
];

describe.each(examples)("the gateway of %s", (_title, values) => {
  const config = gatewayOf(values);

  test("the gateway reaches other containers by their aliases", () => {
    expect([config.host, config.port]).toEqual(["0.0.0.0", 8080]);
    const { containers } = stackOf(values);
    const aliases = new Set(
      containers.flatMap(({ args }) => args.networksAdvanced.flatMap(({ aliases }) => aliases)),
    );
    const addresses = [config.encoders?.http, ...config.models.map(({ http }) => http)].flatMap((http) =>
      http === undefined ? [] : [new URL(http)],
    );
    expect(addresses.length).toBeGreaterThan(0);
    for (const { hostname, port } of addresses) {
      expect(aliases).toContain(hostname);
      expect(port).toBe("8000");
    }
  });

  test("the gateway's models have the names of the stack file", () => {
    const names = (values.models as readonly { readonly name: string }[]).map(({ name }) => name);
    expect(config.models.map(({ name }) => name)).toEqual(names);
  });
});

test("the gateway has a GPU model's profile, limits and chat template", () => {
  const [llava] = gatewayOf(exampleValues("llava-1.5")).models;
  expect(llava).toMatchObject({
    http: "http://llava:8000",
    profile: { flavour: "llava", tritonModel: "llava-1.5", image: { maxImages: 1 } },
    maxTokens: 512,
    contextTokens: 2560,
  });
  const [llama, cli] = gatewayOf(exampleValues("llama-2-7b-tutorial")).models;
  expect(llama).toMatchObject({ profile: { decoupled: false, promptEcho: "repeated", endId: 2 } });
  expect(cli).toMatchObject({ profile: { tritonModel: "llama-2-7b-cli" } });
  // A base model completes text; it has no template to chat with.
  expect(llama?.chatTemplate).toBeUndefined();
  const [chat] = gatewayOf(
    exampleValues("llama-2-7b-chat-kubernetes", { instanceType: "g5.4xlarge" }),
  ).models;
  expect(chat?.chatTemplate).toContain("[INST]");
  expect(chat?.stopWords).toEqual(["</s>"]);
});

test("the gateway has the dimensions and batch sizes of encoders", () => {
  const encoders = { modelName: "all-MiniLM-L6-v2", dimension: 384, imageDimension: 512, maxBatchSize: 32 };
  expect(gatewayOf(cpuValues).encoders).toMatchObject(encoders);
  expect(gatewayOf(gpuValues).encoders).toMatchObject(encoders);
  const large = gatewayOf({ ...gpuValues, encoders: { vision: "clip-vit-large-patch14", maxBatchSize: 8 } });
  expect(large.encoders).toMatchObject({ imageDimension: 768, maxBatchSize: 8 });
  expect(gatewayOf({ ...gpuValues, encoders: false })).not.toHaveProperty("encoders");
});

test("vectors of other encoders than the default ones have a collection for each encoder", () => {
  const row = {
    kind: "sentence",
    repository: "intfloat/e5-small-v2",
    hiddenSize: 384,
    layers: 12,
    maxTokens: 512,
  };
  const collectionOf = (revision: string, text = "e5", name = "e5", prefixes?: object) =>
    (
      gatewayOf({
        ...gpuValues,
        encoders: { text },
        catalogue: { encoders: { [name]: { ...row, revision, ...(prefixes && { prefixes }) } } },
      }).databases as { vector: { collection?: string } }
    ).vector.collection;
  const [first, second] = [collectionOf("1".repeat(40)), collectionOf("2".repeat(40))];
  expect(first).toMatch(/^documents-[0-9a-f]{12}$/);
  expect(second).not.toBe(first);
  expect(collectionOf("1".repeat(40), "mine", "mine")).toBe(first);
  expect(collectionOf("1".repeat(40), "all-MiniLM-L6-v2")).toBe("documents");
  // No vector of a document has the words before a search.
  const withPrefixes = (prefixes: object) => collectionOf("1".repeat(40), "e5", "e5", prefixes);
  expect(withPrefixes({ query: "query: ", document: "" })).toBe(first);
  const e5 = withPrefixes({ query: "query: ", document: "passage: " });
  expect([first, second]).not.toContain(e5);
  expect(withPrefixes({ query: "other: ", document: "passage: " })).toBe(e5);
  expect(withPrefixes({ document: "other: " })).not.toBe(e5);
  const { databases } = gatewayOf({ ...gpuValues, encoders: { vision: "clip-vit-large-patch14" } });
  expect(databases).toMatchObject({
    vector: { collection: expect.stringMatching(/^documents-[0-9a-f]{12}$/) },
  });
});

test("the gateway has aliases of own databases and files for external ones", () => {
  const own = { mongo: { uri: "mongodb://mongo:27017" }, vector: { url: "http://vector:6333" } };
  for (const values of [cpuValues, gpuValues, { ...cpuValues, databases: "container" }]) {
    expect(gatewayOf(values).databases).toMatchObject(own);
  }
  const external = gatewayOf({
    ...cpuValues,
    databases: "external",
    externalDatabases: {
      mongo: { uri: "mongodb://db/" },
      vector: { url: "https://vectors.example.org", apiKey: "k" },
    },
  });
  expect(external.databases).toMatchObject({
    mongo: { uriFile: "/run/secrets/mongo-uri" },
    vector: { url: "https://vectors.example.org", apiKeyFile: "/run/secrets/vector-api-key" },
  });
  expect(gatewayOf({ ...gpuValues, encoders: false }).databases).toBeUndefined();
});

test("the gateway has the limits and keys of the stack file", () => {
  const config = gatewayOf({
    ...gpuValues,
    gateway: {
      apiKeys: [{ name: "alice", sha256: "a".repeat(64) }],
      requestsPerMinute: 60,
      imageHosts: ["*.example.org"],
      limits: { bodyMiB: 2, requestSeconds: 30 },
    },
  });
  expect(config).toMatchObject({
    apiKeys: [{ name: "alice" }],
    rateLimit: { requestsPerMinute: 60 },
    imageHosts: ["*.example.org"],
    limits: { bodyBytes: 2 * 1024 ** 2, requestSeconds: 30 },
  });
});

const SECRETS = {
  hubToken: "hf_TokenOfTheStackFile",
  mongoUri: "mongodb://user:PasswordOfTheStackFile@db.example.org/",
  vectorApiKey: "VectorKeyOfTheStackFile",
};

const absent = fc.constant(undefined);

const port = fc.oneof(
  { weight: 30, arbitrary: absent },
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 65_535 }) },
  // Defaults of others, so that some collide.
  { weight: 1, arbitrary: fc.constantFrom(8000, 8011, 8080, 8500, 6333, 27_017) },
);

const ports = fc.record({ http: port, grpc: port, metrics: port });

function named(models: fc.Arbitrary<Record<string, unknown>>, most: number) {
  return fc
    .uniqueArray(fc.stringMatching(/^[a-z]([a-z0-9-]{0,10}[a-z0-9])?$/), { minLength: 1, maxLength: most })
    .chain((names) =>
      fc
        .array(models, { minLength: names.length, maxLength: names.length })
        .map((all) => all.map((model, index) => ({ name: names[index], ...model }))),
    );
}

const shared = {
  platform: fc.constant("docker"),
  gateway: fc.record({ port, exposure: fc.constantFrom("host", "internal") }),
  databases: fc.constantFrom("mock", "container", "external"),
  databasePorts: fc.record({ mongo: port, vector: port }),
};

const cpuStacks = fc.record({
  ...shared,
  tier: fc.constant("cpu"),
  models: named(fc.record({ model: fc.constant("smollm2-135m-instruct"), ports }), 9),
  encoders: fc.record({
    visionWeights: fc.constantFrom("auto", "hub", "package", "seeded"),
    ports,
  }),
});

const gpuStacks = fc.record({
  ...shared,
  tier: fc.constantFrom("gpu", undefined),
  models: named(
    fc.oneof(
      fc.record({
        model: fc.constantFrom("gpt2-medium", "blip2-opt-2.7b", "llava-1.5-7b", "llama-2-7b-chat"),
        limits: fc.record({ maxBatchSize: fc.constantFrom(1, 2, undefined) }),
        gpuIndices: fc.oneof({ weight: 3, arbitrary: absent }, fc.constantFrom([0], [7])),
        weights: fc.oneof(
          { weight: 3, arbitrary: absent },
          fc.constant({ from: "folder", path: "/data/weights", revision: "1" }),
        ),
        ports,
      }),
      fc.record({
        model: fc.constantFrom("llama-2-7b-chat"),
        tensorParallel: fc.constantFrom(1, 2, 4),
        ports,
      }),
      fc.record({ model: fc.constantFrom("llama-2-7b"), runtime: fc.constant("llmapi"), ports }),
    ),
    5,
  ),
  encoders: fc.oneof(
    fc.constant(false),
    fc.record({ device: fc.constantFrom("cpu", "gpu"), ports, maxBatchSize: fc.constantFrom(8, 32) }),
  ),
  hub: fc.constantFrom({ token: SECRETS.hubToken }, { tokenFile: "/etc/hub-token" }),
  engineStore: fc.constantFrom(undefined, { path: "/data/store" }),
  hardware: fc.constantFrom("g6e.48xlarge", "p4d.24xlarge"),
});

/** Keys that belong together: no more mistakes than those which the ports make. */
const stackValues: fc.Arbitrary<Values> = fc.oneof(cpuStacks, gpuStacks).map((drawn) => {
  const { hardware, ...rest } = { hardware: undefined, ...drawn };
  const databases = rest.encoders === false ? "mock" : rest.databases;
  return withoutUndefined({
    ...rest,
    databases,
    host: {
      ...(hardware === undefined ? {} : { instanceType: hardware, diskGiB: 2000 }),
      ...(rest.gateway.exposure === "internal" ? { address: "10.0.0.5" } : {}),
    },
    ...(databases === "external"
      ? {
          externalDatabases: {
            mongo: { uri: SECRETS.mongoUri },
            vector: { url: "http://10.0.0.9:6333", apiKey: SECRETS.vectorApiKey },
          },
        }
      : {}),
  });
});

function withoutUndefined(values: object): Values {
  return JSON.parse(JSON.stringify(values));
}

/** null if the stack file has a problem. */
function stackIfValid(values: Values): DockerStack | null {
  const { config } = readStack(values);
  const plan = config === null ? null : planStack(config).plan;
  if (plan?.platform !== "docker") return null;
  return dockerStack(plan, { stack: "some-stack.1", images: lockedImages(plan) });
}

const OBJECT_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]+$/;

function repeated(values: readonly unknown[]): readonly unknown[] {
  return values.filter((value, index) => values.indexOf(value) !== index);
}

function check({ network, volumes, images, containers, endpoints }: DockerStack): void {
  const names = [...containers.map(({ args }) => args.name), ...volumes.map(({ name }) => name), network];
  expect(names.filter((name) => !OBJECT_NAME.test(name))).toEqual([]);
  expect(repeated(containers.map(({ args }) => args.name))).toEqual([]);
  expect(repeated(containers.map(({ container }) => container.name))).toEqual([]);
  expect(repeated(volumes.map(({ name }) => name))).toEqual([]);

  const published = containers.flatMap(({ args }) => args.ports.map(({ external }) => external));
  expect(repeated(published)).toEqual([]);
  expect(published.length).toBeGreaterThanOrEqual(4);
  expect(endpoints.gateway).toMatch(/^http:\/\/(127\.0\.0\.1|10\.0\.0\.5):\d+$/);

  const mounted = new Set<string>();
  for (const [index, { container, args, after, secretFiles }] of containers.entries()) {
    const before = containers.slice(0, index).map((planned) => planned.args.name);
    expect(after.filter((name) => !before.includes(name))).toEqual([]);
    expect(repeated(after)).toEqual([]);
    expect(images.map(({ name }) => name)).toContain(container.image);
    for (const { type, source = "" } of args.mounts) if (type === "volume") mounted.add(source);
    // Docker copies no file into a container whose root is read-only.
    if (args.readOnly) expect([container.files, secretFiles]).toEqual([{}, {}]);
    for (const text of Object.values(container.files)) expect(() => JSON.parse(text)).not.toThrow();
    expect(Object.keys(secretFiles).every((path) => path.startsWith("/run/secrets/"))).toBe(true);
    const labels = args.labels.map(({ label }) => label);
    const variables = args.envs.map((env) => env.slice(0, env.indexOf("=")));
    expect([labels, variables]).toEqual([labels.toSorted(), variables.toSorted()]);
    const { restart, mustRun, healthcheck, wait } = args;
    expect({ restart, mustRun, hasCheck: healthcheck !== undefined, waits: wait === true }).toEqual(
      isTask(container)
        ? { restart: "no", mustRun: false, hasCheck: false, waits: false }
        : { restart: "unless-stopped", mustRun: true, hasCheck: true, waits: true },
    );
    const elsewhere = args.ports.filter(({ ip }) => ip !== "127.0.0.1");
    if (container.role !== "gateway") expect(elsewhere).toEqual([]);
  }
  expect([...mounted].toSorted()).toEqual(volumes.map(({ name }) => name).toSorted());
}

const RUNS = times(100, 300);

/** Least number of generated plans of each tier. */
const LEAST_PLANNED = RUNS / 8;

test("Docker can run the plan of any stack file, and the plan has no secrets", () => {
  const planned = { cpu: 0, gpu: 0 };
  fc.assert(
    fc.property(stackValues, (values) => {
      const stack = stackIfValid(values);
      if (stack === null) return;
      planned[values.tier === "cpu" ? "cpu" : "gpu"] += 1;
      check(stack);
      const text = JSON.stringify(stack);
      for (const secret of ["TokenOfTheStackFile", "PasswordOfTheStackFile", SECRETS.vectorApiKey]) {
        expect(text).not.toContain(secret);
      }
      expect(JSON.stringify(stackIfValid(values))).toBe(text);
    }),
    { numRuns: RUNS },
  );
  expect(planned.cpu).toBeGreaterThan(LEAST_PLANNED);
  expect(planned.gpu).toBeGreaterThan(LEAST_PLANNED);
});

test("the order of keys in a stack file does not change the plan", () => {
  const reversed = (tree: unknown): unknown => {
    if (Array.isArray(tree)) return tree.map(reversed);
    if (typeof tree !== "object" || tree === null) return tree;
    return Object.fromEntries(
      Object.entries(tree)
        .reverse()
        .map(([key, value]) => [key, reversed(value)]),
    );
  };
  fc.assert(
    fc.property(stackValues, (values) => {
      expect(JSON.stringify(stackIfValid(reversed(values) as Values))).toBe(
        JSON.stringify(stackIfValid(values)),
      );
    }),
    { numRuns: RUNS / 10 },
  );
});
