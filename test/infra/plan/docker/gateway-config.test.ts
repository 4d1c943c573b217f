import { describe, expect, test } from "vitest";
import { type GatewayConfig, parseConfig } from "../../../../containers/services/gateway/src/config.ts";
import { containerOf, cpuValues, exampleValues, gpuValues, stackOf, type Values } from "./stacks.ts";

/** The file of the gateway's container, read by the gateway itself. */
function gatewayOf(values: Values): GatewayConfig {
  const { files, command } = containerOf(stackOf(values), "gateway");
  expect(command).toEqual(["gateway", "--config", "/etc/engine-room/gateway.json"]);
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

  test("listens in its container, and asks the others by their names", () => {
    expect([config.host, config.port]).toEqual(["0.0.0.0", 8080]);
    const { containers } = stackOf(values);
    const aliases = new Set(containers.map(({ networkAlias }) => networkAlias));
    const addresses = [config.encoders?.http, ...config.models.map(({ http }) => http)].flatMap((http) =>
      http === undefined ? [] : [new URL(http)],
    );
    expect(addresses.length).toBeGreaterThan(0);
    for (const { hostname, port } of addresses) {
      expect(aliases).toContain(hostname);
      expect(port).toBe("8000");
    }
  });

  test("knows the models by the names of the stack file", () => {
    const names = (values.models as readonly { readonly name: string }[]).map(({ name }) => name);
    expect(config.models.map(({ name }) => name)).toEqual(names);
  });
});

test("a model on a GPU is asked in the way of its repository, within the limits of its engine", () => {
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

test("encoders are known by their dimensions, those on GPUs as those on CPUs", () => {
  const encoders = { modelName: "all-MiniLM-L6-v2", dimension: 384, imageDimension: 512, maxBatchSize: 32 };
  expect(gatewayOf(cpuValues).encoders).toMatchObject(encoders);
  expect(gatewayOf(gpuValues).encoders).toMatchObject(encoders);
  const large = gatewayOf({ ...gpuValues, encoders: { vision: "clip-vit-large-patch14", maxBatchSize: 8 } });
  expect(large.encoders).toMatchObject({ imageDimension: 768, maxBatchSize: 8 });
  expect(gatewayOf({ ...gpuValues, encoders: false })).not.toHaveProperty("encoders");
});

test("databases are the stack's own by their names, or others by files", () => {
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

test("limits and keys are those of the stack file", () => {
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
