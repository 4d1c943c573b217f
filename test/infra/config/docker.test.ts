import { describe, expect, test } from "vitest";
import { parseConfig } from "../../../infra/config/config.ts";
import { planStack } from "../../../infra/plan/plan-stack.ts";
import { ConfigError, type Problem } from "../../../infra/problems.ts";
import { problemsThrownBy } from "../thrown-problems.ts";

type Values = Readonly<Record<string, unknown>>;

const tiers = {
  gpu: {
    platform: "docker",
    models: [{ name: "gpt", model: "gpt2-medium" }],
    host: { instanceType: "g5.48xlarge" },
  },
  cpu: {
    platform: "docker",
    tier: "cpu",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
  },
} as const;
type Tier = keyof typeof tiers;
const TIERS = Object.keys(tiers) as Tier[];

function stackOf(tier: Tier, changes: Values = {}): Record<string, unknown> {
  const own: Values = tiers[tier];
  return { ...own, ...changes, host: { ...(own.host ?? {}), ...(changes.host ?? {}) } };
}

/** Problems of the schema, or of the checks. */
function problemsOf(values: Record<string, unknown>): readonly Problem[] {
  const problems = problemsThrownBy(() => {
    throw new ConfigError(planStack(parseConfig(values), values).problems);
  });
  for (const { reason, fix } of problems) {
    expect(reason).toMatch(/\.$/);
    expect(fix).toMatch(/[.?]$/);
  }
  return problems;
}

const pathsOf = (values: Record<string, unknown>) => problemsOf(values).map(({ path }) => path);

test("the problem of a GPU stack without a machine shows the lines to add", () => {
  const { host: _host, ...rest } = tiers.gpu;
  const [problem] = problemsOf(rest);
  expect(problem).toMatchObject({ path: "host", fix: expect.stringMatching(/instanceType: g5\.4xlarge/) });
});

test("the default tier is gpu on a Docker host, cpu on this machine and for CPU models", () => {
  expect(parseConfig(stackOf("gpu")).tier).toBe("gpu");
  expect(parseConfig(stackOf("cpu")).tier).toBe("cpu");
  expect(parseConfig({ platform: "local", models: tiers.cpu.models }).tier).toBe("cpu");
});

test("the CPU tier on Docker has the local platform's defaults and publishes every port", () => {
  const config = parseConfig(stackOf("cpu"));
  expect(config.models[0]).toMatchObject({ parallelRequests: 4, contextTokens: 2048, ports: {} });
  expect(config).toMatchObject({
    databases: "mock",
    host: { uri: "unix:///var/run/docker.sock", address: "127.0.0.1" },
    gateway: { port: 8080, exposure: "host" },
  });
});

test.each<[string, Record<string, unknown>, string, string]>([
  ["misspelt", stackOf("cpu", { tier: "cpuu" }), "docker", "cpu"],
  ["a number", stackOf("gpu", { tier: 1 }), "docker", "gpu"],
  [
    "cpu on AWS",
    {
      platform: "aws",
      account: "111122223333",
      tier: "cpu",
      region: "us-east-1",
      models: tiers.gpu.models,
      pools: [{ name: "gpu", instanceType: "g5.xlarge" }],
    },
    "aws",
    "gpu",
  ],
  ["gpu on this machine", { platform: "local", tier: "gpu", models: tiers.cpu.models }, "local", "cpu"],
])("a tier that is %s is the only problem", (_title, values, platform, likely) => {
  expect(problemsOf(values)).toEqual([
    {
      path: "tier",
      value: JSON.stringify(values.tier),
      reason: `Unknown tier for platform ${platform}.`,
      fix: expect.stringContaining(`\`engine-room:tier: ${likely}\``),
    },
  ]);
});

test("the CPU tier on Docker has the local platform's checks of models", () => {
  const models = [
    { name: "gateway", model: "smollm2-135m-instruct", contextTokens: 16_384 },
    { name: "b", model: "smollm2-135m-instruct", contextTokens: 512, maxTokens: 512 },
    {
      name: "b",
      model: "smollm2-135m-instruct",
      maxTokens: 29,
      golden: { prompt: "?", answerContains: ["4"] },
    },
  ];
  expect(pathsOf(stackOf("cpu", { models }))).toEqual([
    "models[0].name",
    "models[2].name",
    "models[1].maxTokens",
    "models[2].golden.maxTokens",
    "models[0].contextTokens",
  ]);
});

test("each tier refuses the keys of the other", () => {
  expect(problemsOf(stackOf("cpu", { engineStore: { path: "/data" } }))).toMatchObject([
    { path: "engineStore", reason: expect.stringContaining("this stack is docker with `tier: cpu`") },
  ]);
  expect(problemsOf(stackOf("cpu", { encoders: { visionWeigths: "hub" } }))).toMatchObject([
    { path: "encoders.visionWeigths", fix: "Did you mean `visionWeights`?" },
  ]);
  expect(problemsOf(stackOf("gpu", { encoders: { visionWeights: "hub" } }))).toMatchObject([
    {
      path: "encoders.visionWeights",
      reason: expect.stringContaining("this stack is docker with `tier: gpu`"),
    },
  ]);
});

describe.each(TIERS)("ports on the host, tier %s", (tier) => {
  const withModels = (count: number, changes: readonly Values[] = []) =>
    stackOf(tier, {
      models: Array.from({ length: count }, (_, index) => ({
        ...tiers[tier].models[0],
        name: `model-${index}`,
        ...changes[index],
      })),
    });

  test("default ports of eight models don't collide, and the ninth's does, with a free port to write", () => {
    expect(problemsOf(withModels(8))).toEqual([]);
    expect(problemsOf(withModels(9))).toEqual([
      {
        path: "models[8].ports.http",
        value: "(absent)",
        reason: "Port 8080 of the host (the default) is taken by gateway.port (its default).",
        fix: "Use another port, such as 9000.",
      },
    ]);
    const moved = Array.from({ length: 9 }, (_, index) => (index === 8 ? { ports: { http: 9000 } } : {}));
    expect(problemsOf(withModels(9, moved))).toEqual([]);
  });

  test.each<[string, Values, readonly string[]]>([
    ["the gateway and a model", { gateway: { port: 8001 } }, ["models[0].ports.grpc"]],
    ["the encoders and a database", { encoders: { ports: { grpc: 27_017 } } }, ["databasePorts.mongo"]],
    [
      "databases, a model and the encoders",
      { databasePorts: { mongo: 8500, vector: 8000 } },
      ["models[0].ports.http", "encoders.ports.http"],
    ],
    ["two databases", { databasePorts: { mongo: 9000, vector: 9000 } }, ["databasePorts.vector"]],
  ])(
    "a port collision of %s is reported at the key that was left out, or at the later one",
    (_title, changes, paths) => {
      expect(pathsOf(stackOf(tier, changes))).toEqual(paths);
    },
  );

  test("suggested ports are free, and each is suggested once", () => {
    const problems = problemsOf(
      stackOf(tier, { gateway: { port: 9000 }, databasePorts: { mongo: 8500, vector: 8000 } }),
    );
    expect(problems.map(({ fix }) => fix)).toEqual([
      "Use another port, such as 9001.",
      "Use another port, such as 9002.",
    ]);
  });

  test("ports of databases are free if the databases run elsewhere", () => {
    const externalDatabases = { mongo: { uri: "mongodb://db" }, vector: { url: "http://10.0.0.5:6333" } };
    const changes = { databases: "external", externalDatabases, gateway: { port: 27_017 } };
    expect(problemsOf(stackOf(tier, changes))).toEqual([]);
  });

  test.each([0, 65_536, 1.5])("the port %d is refused for every service", (port) => {
    const values = stackOf(tier, {
      gateway: { port },
      encoders: { ports: { http: port } },
      databasePorts: { mongo: port },
    });
    expect(pathsOf(values).toSorted()).toEqual([
      "databasePorts.mongo",
      "encoders.ports.http",
      "gateway.port",
    ]);
  });
});

describe.each(TIERS)("reach of the gateway, tier %s", (tier) => {
  test.each<[string, readonly string[], Values]>([
    ["the host", [], {}],
    ["a network", [], { gateway: { exposure: "internal" }, host: { address: "10.0.0.5" } }],
    ["all networks", [], { gateway: { exposure: "internal" }, host: { address: "0.0.0.0" } }],
    ["a network without an address", ["host.address"], { gateway: { exposure: "internal" } }],
    [
      "a network at the loopback address",
      ["host.address"],
      { gateway: { exposure: "internal" }, host: { address: "127.0.0.1" } },
    ],
    ["the host alone at an address of a network", ["host.address"], { host: { address: "10.0.0.5" } }],
    ["the world", ["gateway.exposure"], { gateway: { exposure: "public" } }],
    [
      "a network at a host name",
      ["host.address"],
      { gateway: { exposure: "internal" }, host: { address: "gpu.example" } },
    ],
  ])("a gateway for %s has the problems %j", (_title, paths, changes) => {
    expect(pathsOf(stackOf(tier, changes))).toEqual(paths);
  });

  test.each(["tls", "hostname", "replicas"])(
    "a gateway with %s is refused with what to do instead",
    (key) => {
      expect(problemsOf(stackOf(tier, { gateway: { [key]: 2 } }))).toMatchObject([
        { path: `gateway.${key}`, fix: expect.stringMatching(/^Remove it(, and let a proxy|: one gateway)/) },
      ]);
    },
  );
});

describe.each(TIERS)("databases on the host, tier %s", (tier) => {
  const external = {
    mongo: { uri: "mongodb://user:hunter2@db.example.org/" },
    vector: { url: "http://10.0.0.5:6333", apiKey: "vector-key-of-the-user" },
  };

  test.each<[string, readonly string[], Values]>([
    ["mock databases", [], { databases: "mock" }],
    ["databases in containers", [], { databases: "container" }],
    ["external databases and their addresses", [], { databases: "external", externalDatabases: external }],
    [
      "external databases and an encrypted address",
      [],
      {
        databases: "external",
        externalDatabases: { mongo: { uri: { secure: "v1:a" } }, vector: { url: "http://10.0.0.5:6333" } },
      },
    ],
    ["external databases without addresses", ["externalDatabases"], { databases: "external" }],
    [
      "addresses of external databases that it does not use",
      ["externalDatabases"],
      { externalDatabases: external },
    ],
    [
      "a password in the address that is no secret",
      ["externalDatabases.vector.url"],
      {
        databases: "external",
        externalDatabases: { ...external, vector: { url: "http://me:hunter2@10.0.0.5" } },
      },
    ],
  ])("a stack with %s has the problems %j", (_title, paths, changes) => {
    expect(pathsOf(stackOf(tier, changes))).toEqual(paths);
  });

  test("problems show no credential, also if it is at a wrong key", () => {
    const wrong: readonly Values[] = [
      { externalDatabases: external },
      { databases: "external", externalDatabases: { mongo: external.mongo.uri, vector: external.vector } },
      { databases: "external", externalDatabases: { mongo: [external.mongo.uri], vector: { apiKey: 1 } } },
      { externalDatabase: { mongo: external.mongo } },
      { host: { uri: external.mongo.uri } },
    ];
    for (const changes of wrong) {
      const problems = problemsOf(stackOf(tier, changes));
      expect(problems).not.toEqual([]);
      expect(JSON.stringify(problems)).not.toMatch(/hunter2|vector-key/);
    }
  });
});

test("databases need encoders", () => {
  expect(problemsOf(stackOf("gpu", { encoders: false }))).toEqual([]);
  expect(pathsOf(stackOf("gpu", { encoders: false, databases: "container" }))).toEqual(["databases"]);
  // Neither has a port then.
  expect(problemsOf(stackOf("gpu", { encoders: false, gateway: { port: 6333 } }))).toEqual([]);
});

test.each([
  ["ghcr.io/example/engine-room", true],
  ["localhost:5000", true],
  ["111122223333.dkr.ecr.us-east-1.amazonaws.com/engine-room", true],
  ["https://ghcr.io/example", false],
  ["ghcr.io/Example", false],
  ["ghcr.io/example/", false],
])("images.registry of %s is accepted: %s", (registry, isRight) => {
  const paths = pathsOf(stackOf("cpu", { images: { registry } }));
  expect(paths).toEqual(isRight ? [] : ["images.registry"]);
});
