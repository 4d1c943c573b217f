import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { fromRuntimeConfig, parseConfig } from "../../../infra/config/config.ts";
import { schedule } from "../../../infra/config/kubernetes-stacks.ts";
import { ConfigError, type Problem } from "../../../infra/problems.ts";
import { awsValues, customModel } from "../plan/checks/stacks.ts";
import { problemsThrownBy, stackProblems } from "../thrown-problems.ts";

type Values = Record<string, unknown>;

const model = { name: "smollm2", model: "smollm2-135m-instruct" };

const smallest = { platform: "local", models: [model] };

const smallestDocker = {
  platform: "docker",
  models: [{ name: "gpt", model: "gpt2-medium" }],
  host: { instanceType: "g5.xlarge" },
};

function problemsOf(values: Record<string, unknown>): readonly Problem[] {
  return problemsThrownBy(() => parseConfig(values));
}

/**
 * Replaces each refused value by the example of its problem. @returns How many examples there were, and problems of
 * examples.
 */
function withExamples(values: Values): { readonly shown: number; readonly left: readonly Problem[] } {
  const examplesOf = (of: Values) =>
    problemsOf(of).flatMap((problem) => {
      const example = /^Write it like (.*)\.$/.exec(problem.fix)?.[1];
      return example === undefined ? [] : [{ problem, example: example.replaceAll('"', "") }];
    });
  const examples = examplesOf(values);
  const mended = structuredClone(values);
  for (const { problem, example } of examples) {
    const keys = problem.path.match(/[^.[\]]+/g) ?? [];
    const holder = keys.slice(0, -1).reduce<unknown>((inner, key) => (inner as Values)[key], mended);
    Reflect.set(holder as object, keys.at(-1) ?? "", example);
  }
  return { shown: examples.length, left: examplesOf(mended).map(({ problem }) => problem) };
}

test("a stack file without problems gets its defaults", () => {
  const config = parseConfig(smallest);
  expect(config.models[0]).toMatchObject({
    parallelRequests: 4,
    contextTokens: 2048,
    ports: { http: 0, grpc: 0, metrics: 0 },
  });
  expect(config.encoders).toMatchObject({ maxBatchSize: 32, dynamicBatching: true, visionWeights: "auto" });
  expect(config.gateway.limits).toEqual({
    bodyMiB: 10,
    requestSeconds: 300,
    concurrentRequests: 256,
    queuedRequests: 1024,
  });
});

test("a configuration is frozen at every level", () => {
  const config = parseConfig(smallest);
  expect(Object.isFrozen(config)).toBe(true);
  expect(() => Object.assign(config.gateway.limits, { bodyMiB: 1 })).toThrow(TypeError);
});

test("texts of the Pulumi runtime become booleans, and a release stays text", () => {
  const values = fromRuntimeConfig({
    "engine-room:platform": "docker",
    "engine-room:models": JSON.stringify(smallestDocker.models),
    "engine-room:host": JSON.stringify(smallestDocker.host),
    "engine-room:acceptUnverified": "true",
    "engine-room:encoders": "false",
    "engine-room:release": "25.07",
  });
  expect(parseConfig(values)).toMatchObject({ acceptUnverified: true, encoders: false, release: "25.07" });
});

test("models are parsed from text of the Pulumi runtime", () => {
  const values = fromRuntimeConfig({
    "engine-room:platform": "local",
    "engine-room:models": JSON.stringify([model]),
    "aws:region": "eu-west-1",
  });
  expect(parseConfig(values).models[0]?.name).toBe("smollm2");
});

const wrongNames = [
  { name: "alice", sha256: "0".repeat(64) },
  { name: "alice", sha256: "0".repeat(64) },
];

test("all mistakes of the schema are reported at once, each with path, value, reason and fix", () => {
  const problems = problemsOf({
    platform: "local",
    colour: "blue",
    models: [
      { name: "My Model", model: "smollm2-135m-instruct", paralelRequests: 2 },
      { name: "b", model: "gpt-5", contextTokens: 512, maxTokens: 4000 },
      { name: "b", model: "smollm2-135m-instruct", threads: "four" },
    ],
    encoders: { maxBatchSize: 100_000 },
    gateway: { apiKeys: wrongNames, limits: null },
  });
  expect(problems.map((problem) => [problem.path, problem.value])).toEqual([
    ["models[0].name", '"My Model"'],
    ["models[0].paralelRequests", "2"],
    ["models[1].model", '"gpt-5"'],
    ["models[2].threads", '"four"'],
    ["encoders.maxBatchSize", "100000"],
    ["gateway.limits", "null"],
    ["colour", '"blue"'],
  ]);
  for (const problem of problems) {
    expect(problem.reason).toMatch(/\.$/);
    expect(problem.fix).toMatch(/[.?]$/);
  }
  const byPath = new Map(problems.map((problem) => [problem.path, problem]));
  expect(byPath.get("models[0].paralelRequests")?.fix).toBe("Did you mean `parallelRequests`?");
  expect(byPath.get("encoders.maxBatchSize")?.reason).toContain("256");
  expect(byPath.get("models[2].threads")?.fix).toBe("Write a number.");
  expect(byPath.get("models[1].model")?.fix).toContain("smollm2-135m-instruct");
});

test("all mistakes over several keys of a local stack are reported at once", () => {
  const problems = stackProblems({
    platform: "local",
    models: [
      { ...model, name: "b", contextTokens: 512, maxTokens: 4000, ports: { http: 8000 } },
      { ...model, name: "b" },
    ],
    encoders: { ports: { http: 8000 } },
    gateway: { apiKeys: wrongNames },
  });
  expect(problems.map(({ path, value, reason }) => [path, value, reason])).toEqual([
    ["models[0].ports.http", "8000", expect.stringContaining("encoders.ports.http")],
    ["models[1].name", '"b"', expect.stringContaining("models[0].name")],
    ["gateway.apiKeys[1].name", '"alice"', expect.stringContaining("gateway.apiKeys[0].name")],
    ["models[0].maxTokens", "4000", expect.stringContaining("512")],
  ]);
});

test.each([
  ["absent", { models: [model] }, "local", ["platform"]],
  ["misspelt", { platform: "locl", colour: 1 }, "local", ["platform", "models", "colour"]],
  ["unknown", { platform: "cloud", colour: 1 }, "local", ["platform", "models", "colour"]],
  ["absent, with a region", { region: "us-east-1" }, "aws", ["platform", "account", "models", "pools"]],
  ["absent, with a host", { host: {} }, "docker", ["platform", "models"]],
  [
    "unknown, with pools",
    { platform: "cloud", pools: [{ name: "gpu", instanceType: "g5.xlarge", nodeSelector: {} }] },
    "kubernetes",
    ["platform", "models"],
  ],
  ["misspelt, with a host", { platform: "dokcer", host: {} }, "docker", ["platform", "models"]],
])("a platform that is %s is reported beside the other mistakes", (_title, values, likely, paths) => {
  const problems = problemsOf(values);
  expect(problems.map((problem) => problem.path)).toEqual(paths);
  expect(problems[0]?.fix).toContain(
    `Set \`engine-room:platform: ${likely}\`; valid values are local, docker, kubernetes, aws`,
  );
});

test("an unknown tier beside a misspelt platform is explained for the likely platform", () => {
  const problems = problemsOf({ platform: "Dockr", tier: "tpu", host: {}, models: [] });
  expect(problems.slice(0, 2).map(({ path, reason }) => [path, reason])).toEqual([
    ["platform", "Unknown platform."],
    ["tier", "Unknown tier for platform docker."],
  ]);
});

test.each([
  [25.07, '"25.07"'],
  // The Pulumi runtime reads 25.10 without quotes as this.
  [25.1, '"25.10"'],
  ["25.1", '"25.10"'],
  [25, '"25.00"'],
])("the release %j, written as a number or cut, is reported with how to quote it", (release, written) => {
  const [problem] = problemsOf({ ...smallestDocker, release });
  expect(problem).toMatchObject({ path: "release", fix: `Write \`release: ${written}\`, in quotes.` });
  expect(problem?.reason).toContain("25.10 as 25.1");
});

test.each([
  ["11122223333", "011122223333"],
  [11_122_223_333, "011122223333"],
  ["1122223333", "001122223333"],
])("the account %j, which has lost its zeros, is reported with all twelve digits", (account, written) => {
  const { length } = String(account);
  const [problem] = problemsOf({ platform: "aws", account }).filter(({ path }) => path === "account");
  expect(problem?.reason).toContain(`twelve digits, and this has ${length}: without quotes`);
  expect(problem?.fix).toContain(`Write all twelve digits in quotes: "${written}"`);
});

test("an account with hyphens is reported with an example", () => {
  const [problem] = problemsOf({ platform: "aws", account: "1111-2222-3333" });
  expect(problem).toMatchObject({ path: "account", fix: 'Write it like "111122223333".' });
});

test.each<[string, Record<string, unknown>, string, string]>([
  [
    "of a list's entry",
    { models: [{ name: "a", model: "x", tensorParalel: 2 }] },
    "models[0].tensorParalel",
    "Did you mean `tensorParallel`?",
  ],
  [
    "of a value with several forms",
    { encoders: { devise: "cpu" } },
    "encoders.devise",
    "Did you mean `device`?",
  ],
  [
    "of weights from S3",
    {
      models: [
        {
          name: "a",
          model: "x",
          weights: { from: "s3", uri: "s3://bucket/a", revision: "1", revison: "2" },
        },
      ],
    },
    "models[0].weights.revison",
    "Did you mean `revision`?",
  ],
  [
    "of a catalogue row",
    { catalogue: { models: { own: { ...customModel, tittle: "b" } } } },
    "catalogue.models.own.tittle",
    "Did you mean `title`?",
  ],
  [
    "that another platform has",
    { host: { instanceType: "g5.xlarge", sharing: { mode: "mps", replicas: 2 } } },
    "host.sharing",
    "Remove it: containers of one host share a GPU by themselves if their gpuIndices say so, and their memory is added up.",
  ],
])("an unknown key %s is reported with what to write", (_title, values, path, fix) => {
  expect(problemsOf({ ...smallestDocker, ...values })).toMatchObject([{ path, fix }]);
});

test.each([
  ["public", "kubernetes"],
  ["internal", "docker"],
  ["private", "docker"],
])(
  "a key of other platforms with the value %s gets one in its fix that takes the value: %s",
  (exposure, platform) => {
    expect(problemsOf({ ...smallest, gateway: { exposure } })).toMatchObject([
      { path: "gateway.exposure", fix: `Remove it, or write \`engine-room:platform: ${platform}\`.` },
    ]);
  },
);

test.each<[string, unknown, string, string]>([
  ["of a wrong choice in a mapping", { device: "tpu" }, "encoders.device", 'Choose one of "cpu", "gpu".'],
  ["that is neither false nor a mapping", "yes", "encoders", "Write false. Or: Write a mapping."],
])("a value %s is explained", (_title, encoders, path, fix) => {
  expect(problemsOf({ ...smallestDocker, encoders })).toMatchObject([{ path, fix }]);
});

test("a form that does not exist is reported with those that do", () => {
  const weights = { from: "disk", path: "/store/a" };
  const values = {
    models: [{ name: "a", model: "x", weights }],
    catalogue: { encoders: { own: { kind: "bert" } } },
  };
  expect(problemsOf({ ...smallestDocker, ...values })).toMatchObject([
    { path: "catalogue.encoders.own.kind", fix: 'Choose one of "clip", "sentence".' },
    { path: "models[0].weights.from", fix: 'Choose one of "hub", "modelscope", "s3", "folder".' },
  ]);
});

test.each<[string, Values, string, string, string]>([
  [
    "with capital letters and spaces",
    { models: [{ name: "My model", model: "x" }] },
    "models[0].name",
    "It must be lower-case letters, digits and hyphens, starting with a letter and not ending with a hyphen.",
    "Write it like llama-2-7b.",
  ],
  [
    "that is not an IPv4 address",
    { host: { instanceType: "g5.xlarge", address: "10.0.0.256" }, gateway: { exposure: "internal" } },
    "host.address",
    "It must be an IPv4 address of the host.",
    "Write it like 10.0.0.5.",
  ],
  [
    "that is not a row's name",
    { catalogue: { models: { "My row": customModel } } },
    "catalogue.models.My row",
    "It must be named with at most 63 lower-case letters, digits, points and hyphens.",
    "Write it like vicuna-7b-v1.5.",
  ],
  [
    "of 1 for a fraction",
    { models: [{ name: "a", model: "x", triton: { kvCacheFreeGpuMemoryFraction: 1 } }] },
    "models[0].triton.kvCacheFreeGpuMemoryFraction",
    "It must be less than 1.",
    "Use less than 1.",
  ],
  [
    "of 0 for a fraction",
    { models: [{ name: "a", model: "x", triton: { kvCacheFreeGpuMemoryFraction: 0 } }] },
    "models[0].triton.kvCacheFreeGpuMemoryFraction",
    "It must be more than 0.",
    "Use more than 0.",
  ],
  [
    "that is too long",
    { models: [{ name: "a".repeat(41), model: "x" }] },
    "models[0].name",
    "Larger than the maximum allowed, 40 characters.",
    "Use 40 characters or less.",
  ],
  [
    "with too many entries",
    { encoders: { device: "gpu", gpuIndices: [0, 1] } },
    "encoders.gpuIndices",
    "More than 1 entry.",
    "Keep 1 entry.",
  ],
])("a value %s is reported with one that is allowed", (_title, values, path, reason, fix) => {
  expect(problemsOf({ ...smallestDocker, ...values })).toMatchObject([{ path, reason, fix }]);
});

test.each(["docker", "kubernetes", "aws"] as const)(
  "examples in problems of a stack on %s are accepted themselves",
  (platform) => {
    const wrong = "-";
    const values = {
      platform,
      region: wrong,
      release: wrong,
      namespace: wrong,
      host: { instanceType: "g5.xlarge", uri: wrong },
      pools: [{ name: wrong, instanceType: "g5.xlarge" }],
      hub: { tokenFile: wrong, tokenSecretArn: wrong },
      access: { apiCidrs: [wrong] },
      monitoringOptions: { runbookUrl: wrong },
      engineStore: { path: wrong, existing: wrong },
      gateway: { tls: { certificateArn: wrong }, hostname: "llm.example.org" },
      models: [
        // Builds in the user's own cluster have no role that reads buckets.
        ...(platform === "kubernetes"
          ? [{ name: wrong, model: "x" }]
          : [{ name: wrong, model: "x", weights: { from: "s3", uri: wrong, revision: "1" } }]),
        { name: "b", model: "x", weights: { from: "folder", path: wrong, revision: "1" } },
        { name: "c", model: "x", weights: { from: "hub", revision: wrong } },
      ],
    };
    const { shown, left } = withExamples(values);
    expect(shown).toBeGreaterThanOrEqual(7);
    expect(left).toEqual([]);
  },
);

test("other spellings of AWS's own values are reported with the right spelling", () => {
  const stack = {
    platform: "aws",
    account: "111122223333",
    region: "us-east-1",
    pools: [{ name: "gpu", instanceType: "g5.xlarge" }],
    models: [{ name: "a", model: "x" }],
  };
  const asEc2 = "Set `engine-room:compute: ec2`; valid values for platform aws are eks, ec2.";
  const words = (changes: object) =>
    problemsOf({ ...stack, ...changes }).map(({ path, value, fix }) => [path, value, fix]);
  expect(words({ compute: "EC2", pools: [{ name: "gpu", instanceType: "g5.xlarge", zone: "a" }] })).toEqual([
    ["compute", '"EC2"', asEc2],
  ]);
  expect(words({ compute: "ecs" })).toEqual([
    ["compute", '"ecs"', asEc2.replace("compute: ec2", "compute: eks")],
  ]);
  // Only pools of a single machine have `zone`.
  expect(words({ compute: "ecs", pools: [{ name: "gpu", instanceType: "g5.xlarge", zone: "a" }] })).toEqual([
    ["compute", '"ecs"', asEc2],
  ]);
  expect(words({ network: { zones: ["us-east-1a", "b"] } })).toEqual([
    ["network.zones[0]", '"us-east-1a"', "Write a."],
  ]);
  expect(words({ cluster: { version: 1.35 } })).toEqual([
    ["cluster.version", "1.35", 'Write "1.35", in quotes.'],
  ]);
});

test("keys that are required and absent are reported", () => {
  expect(problemsOf({ platform: "local" })[0]).toMatchObject({
    path: "models",
    value: "(absent)",
    reason: "It is required.",
  });
  expect(problemsOf({ platform: "local", models: [{}] }).map((problem) => problem.path)).toEqual([
    "models[0].name",
    "models[0].model",
  ]);
});

test("the problem of a value that is not JSON does not show the value: it may contain a credential", () => {
  const act = () => fromRuntimeConfig({ "engine-room:hub": '{"token": hf_clear' });
  expect(act).toThrow(ConfigError);
  expect(act).toThrow("Invalid JSON");
  expect(act).not.toThrow("hf_clear");
});

test("a number of tokens is not a credential, whatever its form", () => {
  const shown = (maxInputTokens: unknown) =>
    problemsOf({ ...smallestDocker, models: [{ name: "a", model: "x", limits: { maxInputTokens } }] })[0]
      ?.value;
  expect([shown(0), shown("0")]).toEqual(["0", '"0"']);
});

test("a key with a dot is a path that was set without --path", () => {
  const [problem] = problemsOf({ ...smallest, "gateway.port": "8123" });
  expect(problem).toMatchObject({ path: "gateway.port", value: '"8123"' });
  expect(problem?.fix).toContain("`pulumi config set --path engine-room:gateway.port VALUE`");
});

test("an encrypted value that the plan needs is reported as encrypted", () => {
  const [problem] = problemsOf({
    ...smallest,
    pythonVersion: { secure: "v1:a" },
    databases: { secure: "v1:b" },
  });
  expect(JSON.stringify(problem)).not.toContain("v1:");
  const [encrypted] = problemsOf({ ...smallest, models: [{ ...model, name: { secure: "v1:a" } }] });
  expect(encrypted?.reason).toBe("It is encrypted, and only the Pulumi CLI decrypts it.");
});

test("the hash of a key may be encrypted, and a change of it is seen", () => {
  const hashOf = (secure: string) => {
    const gateway = { apiKeys: [{ name: "alice", sha256: { secure } }] };
    return parseConfig({ ...smallest, gateway }).gateway.apiKeys[0]?.sha256;
  };
  expect(hashOf("v1:a")).toMatch(/^[0-9a-f]{64}$/);
  expect(hashOf("v1:a")).toBe(hashOf("v1:a"));
  expect(hashOf("v1:b")).not.toBe(hashOf("v1:a"));
  const gateway = { apiKeys: [{ name: "alice", sha256: "abc" }] };
  expect(problemsOf({ ...smallest, gateway })).toMatchObject([
    { path: "gateway.apiKeys[0].sha256", reason: "It must be 64 lower-case hexadecimal digits." },
  ]);
});

test("a secret at an unknown key is not shown", () => {
  const [problem] = problemsOf({ ...smallest, colour: { secure: "v1:ciphertext" } });
  expect(problem?.value).toBe('"[secret]"');
});

test("maxTokens of 2048 are refused in the default context of 2048", () => {
  expect(stackProblems({ platform: "local", models: [{ ...model, maxTokens: 2048 }] })[0]?.reason).toContain(
    "2048",
  );
});

test("a context longer than the model was trained for is refused", () => {
  const [problem] = stackProblems({ platform: "local", models: [{ ...model, contextTokens: 16_384 }] });
  expect(problem).toMatchObject({ path: "models[0].contextTokens", fix: "Use 8192 or less." });
});

test("a model can't have the name of a service of every stack", () => {
  const problems = stackProblems({ platform: "local", models: [{ ...model, name: "gateway" }] });
  expect(problems.map(({ path, fix }) => [path, fix])).toEqual([
    ["models[0].name", "Give the model another name."],
  ]);
});

test("parsing any values ends in a configuration or in a ConfigError", () => {
  const values = fc.dictionary(
    fc.constantFrom("platform", "models", "encoders", "gateway", "x"),
    fc.jsonValue(),
  );
  fc.assert(
    fc.property(values, (input) => {
      try {
        parseConfig({ platform: "local", ...(input as object) });
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError);
        expect((error as ConfigError).problems).not.toEqual([]);
      }
    }),
  );
});

describe("databases of a local stack", () => {
  const external = {
    mongo: { uriFile: "/etc/engine-room/mongo-uri" },
    vector: { url: "http://10.0.0.5:6333" },
  };

  test.each<[string, string[], object]>([
    ["no word on databases", [], {}],
    ["mock databases", [], { databases: "mock" }],
    ["external databases and their addresses", [], { databases: "external", externalDatabases: external }],
    ["external databases without addresses", ["externalDatabases"], { databases: "external" }],
    [
      "addresses of external databases that it does not use",
      ["externalDatabases"],
      { externalDatabases: external },
    ],
    ["databases in containers", ["databases"], { databases: "container" }],
    [
      "an address that has a password",
      ["externalDatabases.vector.url"],
      {
        databases: "external",
        externalDatabases: { ...external, vector: { url: "http://me:secret@10.0.0.5:6333" } },
      },
    ],
    [
      "one port for both databases",
      ["databasePorts.vector"],
      { databasePorts: { mongo: 27017, vector: 27017 } },
    ],
  ])("a local stack with %s has the problems %j", (_what, paths, values) => {
    expect(stackProblems({ ...smallest, ...values }).map(({ path }) => path)).toEqual(paths);
  });

  test("the example of external databases in docs/platforms/local.md is accepted", () => {
    const page = readFileSync(new URL("../../../docs/platforms/local.md", import.meta.url), "utf8");
    const blocks = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, block]) => block ?? "");
    const example = parse(blocks.find((block) => block.includes("externalDatabases")) ?? "") as object;
    const values = Object.entries(example).map(([key, value]) => [key.replace("engine-room:", ""), value]);
    expect(values.map(([key]) => key)).toEqual(["databases", "externalDatabases"]);
    expect(stackProblems({ ...smallest, ...Object.fromEntries(values) })).toEqual([]);
  });
});

const accepts = (change: object) =>
  schedule.safeParse({ start: "0 8 * * 1-5", end: "0 20 * * 1-5", timeZone: "Europe/Berlin", ...change })
    .success;

test.each(["0 8 * * 1-5", "*/15 0,12 1-15/2 jan-MAR Mon", "59 23 31 12 6", "0 0 ? * sun"])(
  "the schedule takes the time %s",
  (start) => expect(accepts({ start })).toBe(true),
);

test.each([
  "99 8 * * *",
  "0 24 * * *",
  "0 8 0 * *",
  "0 8 * 13 *",
  "0 8 * * 7",
  "0 8 * * fri-mon",
  "0 8 * *",
  "0 8 * * * *",
  "x 8 * * *",
  "0 8 * * 1-2-3",
  "*/0 8 * * *",
  "@daily",
])("the schedule refuses the time %s", (start) => expect(accepts({ start })).toBe(false));

test.each([
  ["UTC", true],
  ["America/Argentina/Buenos_Aires", true],
  ["Europe/Berlim", false],
  ["", false],
])("the time zone %j is known to the schedule: %s", (timeZone, isOne) =>
  expect(accepts({ timeZone })).toBe(isOne),
);

const awsProblems = (changes: object) =>
  problemsThrownBy(() => parseConfig({ ...awsValues, ...changes })).map(({ path, reason }) => [path, reason]);

const inSecrets = (secret: string) => ({
  hub: { tokenSecretArn: `arn:aws:secretsmanager:us-east-1:111122223333:secret:${secret}` },
});

test.each(["hub-token", "hub-token-", "hub-token-AbCdE", "hub-token-AbCdEfG", "hub-token-AbCd_f", "AbCdEf"])(
  "a token secret's ARN without the ending that AWS gives it is refused: %s",
  (secret) => {
    expect(awsProblems(inSecrets(secret))).toEqual([
      [
        "hub.tokenSecretArn",
        "It must be the ARN of a secret with the hyphen and the six characters that AWS ends it with.",
      ],
    ]);
  },
);

test.each(["hub-token-AbCdEf", "team/hub.token-Ab12Ef"])(
  "a token secret's ARN with its ending is accepted: %s",
  (secret) => {
    expect(() => parseConfig({ ...awsValues, ...inSecrets(secret) })).not.toThrow();
  },
);

const inIam = (resource: string, account = "111122223333") => ({
  access: { apiCidrs: ["203.0.113.7/32"], admins: [`arn:aws:iam::${account}:${resource}`] },
});

test.each(["root", "policy/admins", "group/admins", "role/", "roles/team", "instance-profile/team"])(
  "an administrator who is neither an IAM user nor a role is refused: %s",
  (resource) => {
    expect(awsProblems(inIam(resource))).toEqual([
      ["access.admins[0]", "It must be the ARN of an IAM user or of an IAM role."],
    ]);
  },
);

test.each(["role/team", "role/of/a/path/team", "user/me@example.org"])(
  "the administrator %s is accepted",
  (resource) => {
    expect(() => parseConfig({ ...awsValues, ...inIam(resource) })).not.toThrow();
  },
);

test.each(["300.1.1.1/8", "10.1.1.1/33"])("the network %s of an API's clients is refused", (cidr) => {
  expect(awsProblems({ access: { apiCidrs: [cidr] } })).toEqual([
    ["access.apiCidrs[0]", "Each of the four numbers is 0 to 255, and the length 0 to 32."],
  ]);
});
