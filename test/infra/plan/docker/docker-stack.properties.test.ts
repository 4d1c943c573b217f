import fc from "fast-check";
import { expect, test } from "vitest";
import { readStack } from "../../../../infra/config/config.ts";
import { dockerStack } from "../../../../infra/plan/docker/docker-stack.ts";
import type { DockerStack } from "../../../../infra/plan/docker/types.ts";
import { planStack } from "../../../../infra/plan/stack-plan.ts";
import { lockedImages, type Values } from "./stacks.ts";

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

/** null where the stack file has a problem. */
function stackOf(values: Values): DockerStack | null {
  const { config } = readStack(values);
  const plan = config === null ? null : planStack(config).plan;
  if (plan?.platform !== "docker") return null;
  return dockerStack(plan, { stack: "some-stack.1", images: lockedImages(plan) });
}

const OBJECT_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]+$/;

function repeated(values: readonly unknown[]): readonly unknown[] {
  return values.filter((value, index) => values.indexOf(value) !== index);
}

function isSorted(record: object): boolean {
  const keys = Object.keys(record);
  return JSON.stringify(keys) === JSON.stringify(keys.toSorted());
}

function check({ network, volumes, images, containers, endpoints }: DockerStack): void {
  const names = [...containers.map(({ name }) => name), ...volumes.map(({ name }) => name), network];
  expect(names.filter((name) => !OBJECT_NAME.test(name))).toEqual([]);
  expect(repeated(containers.map(({ name }) => name))).toEqual([]);
  expect(repeated(containers.map(({ networkAlias }) => networkAlias))).toEqual([]);
  expect(repeated(volumes.map(({ name }) => name))).toEqual([]);

  const published = containers.flatMap(({ ports: all }) => all.map(({ hostPort }) => hostPort));
  expect(repeated(published)).toEqual([]);
  expect(published.length).toBeGreaterThanOrEqual(4);
  expect(endpoints.gateway).toMatch(/^http:\/\/(127\.0\.0\.1|10\.0\.0\.5):\d+$/);

  const mounted = new Set<string>();
  for (const [index, container] of containers.entries()) {
    const before = containers.slice(0, index).map(({ name }) => name);
    expect(container.after.filter((name) => !before.includes(name))).toEqual([]);
    expect(repeated(container.after)).toEqual([]);
    expect(images.map(({ name }) => name)).toContain(container.image);
    for (const { source } of container.mounts) if ("volume" in source) mounted.add(source.volume);
    // Docker copies no file into a container whose root is read-only.
    if (container.readOnlyRoot) expect([container.files, container.secretFiles]).toEqual([{}, {}]);
    for (const text of Object.values(container.files)) expect(() => JSON.parse(text)).not.toThrow();
    expect(Object.keys(container.secretFiles).every((path) => path.startsWith("/run/secrets/"))).toBe(true);
    expect([container.labels, container.environment].every(isSorted)).toBe(true);
    const isTask = container.lifecycle === "task";
    expect([container.timeoutSeconds !== null, container.health === null]).toEqual([isTask, isTask]);
    const isGateway = container.role === "gateway";
    const elsewhere = container.ports.filter(({ hostAddress }) => hostAddress !== "127.0.0.1");
    if (!isGateway) expect(elsewhere).toEqual([]);
  }
  expect([...mounted].toSorted()).toEqual(volumes.map(({ name }) => name).toSorted());
}

const RUNS = 300;
/** Of each tier: enough to say something. */
const LEAST_PLANNED = 40;

test("whatever the stack file, Docker can run what is planned of it, and no secret is in it", () => {
  const planned = { cpu: 0, gpu: 0 };
  fc.assert(
    fc.property(stackValues, (values) => {
      const stack = stackOf(values);
      if (stack === null) return;
      planned[values.tier === "cpu" ? "cpu" : "gpu"] += 1;
      check(stack);
      const text = JSON.stringify(stack);
      for (const secret of ["TokenOfTheStackFile", "PasswordOfTheStackFile", SECRETS.vectorApiKey]) {
        expect(text).not.toContain(secret);
      }
      expect(JSON.stringify(stackOf(values))).toBe(text);
    }),
    { numRuns: RUNS },
  );
  expect(planned.cpu).toBeGreaterThan(LEAST_PLANNED);
  expect(planned.gpu).toBeGreaterThan(LEAST_PLANNED);
});

test("the order of a stack file's keys changes no byte", () => {
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
      expect(JSON.stringify(stackOf(reversed(values) as Values))).toBe(JSON.stringify(stackOf(values)));
    }),
    { numRuns: RUNS / 10 },
  );
});
