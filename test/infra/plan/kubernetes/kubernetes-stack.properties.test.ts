import fc from "fast-check";
import { expect, test } from "vitest";
import { networkPolicies } from "../../../../components/kubernetes/network-policy-args.ts";
import { podTemplate } from "../../../../components/kubernetes/pod-args.ts";
import { readStack } from "../../../../infra/config/config.ts";
import { kubernetesStack } from "../../../../infra/plan/kubernetes/kubernetes-stack.ts";
import { podSelector } from "../../../../infra/plan/kubernetes/labels.ts";
import type { Labels } from "../../../../infra/plan/kubernetes/pod-types.ts";
import type { KubernetesStack } from "../../../../infra/plan/kubernetes/types.ts";
import { planStack } from "../../../../infra/plan/stack-plan.ts";
import { restrictedViolations } from "../../../components/kubernetes/restricted.ts";
import { lockedImages, podsOf, SHA256, type Values } from "./stacks.ts";

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

/** External databases have to say where they are, and a stack without encoders has none. */
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

test("whatever the stack file, Kubernetes takes what is planned of it, and no secret is in it", () => {
  let planned = 0;
  fc.assert(
    fc.property(stackFiles, (file) => {
      const stack = stackOf(completed(file));
      if (stack === null) return;
      planned += 1;
      expect(JSON.stringify(stack)).not.toContain("hush");

      const pods = podsOf(stack);
      const classes = stack.priorities.map(({ name }) => name);
      for (const pod of pods) {
        const template = podTemplate(pod, { images: stack.images, imagePullSecrets: [], secretUids: {} });
        expect(restrictedViolations(template.spec as unknown as Values)).toEqual([]);
        expect(badLabels(pod.labels)).toEqual([]);
        expect(pod.graceSeconds).toBeGreaterThanOrEqual(pod.preStopSeconds);
        expect(pod.volumes.map(({ name }) => name).filter((name) => !LABEL.test(name))).toEqual([]);
        if (pod.priorityClass !== null) expect(classes).toContain(pod.priorityClass);
        for (const [name, port] of Object.entries(pod.ports)) {
          expect(name).toMatch(/^[a-z][a-z0-9-]{0,14}$/);
          expect(port).toBeLessThan(65_536);
        }
      }

      const servers = [...stack.models, ...(stack.encoders === null ? [] : [stack.encoders]), stack.gateway];
      const deployments = servers.map(({ name }) => name);
      expect(new Set(deployments).size).toBe(deployments.length);
      for (const name of [...deployments, ...stack.builds.map((build) => build.name)])
        expect(name).toMatch(LABEL);
      for (const { name } of pods.flatMap(({ config }) => (config === null ? [] : [config])))
        expect(name).toMatch(SUBDOMAIN);

      // A server comes after the builds of what it loads, and a pod is found by its own Service and no other.
      const builds = stack.builds.map(({ name }) => name);
      for (const { after } of servers) expect(builds).toEqual(expect.arrayContaining([...after]));
      for (const { service, pod } of servers) {
        const found = pods.filter(({ labels }) =>
          Object.entries(service.selector).every(([key, value]) => labels[key] === value),
        );
        expect(found).toEqual([pod]);
        expect(Object.keys(service.ports)).toEqual(Object.keys(pod.ports));
      }

      // A number has one owner, and each of its series has an alert where anybody watches.
      const owners = new Map(stack.autoscalers.map(({ deployment, replicas }) => [deployment, replicas.max]));
      for (const { name, replicas, maxReplicas } of servers)
        expect(replicas === null ? maxReplicas : null).toBe(owners.get(name) ?? null);
      const asked = stack.autoscalers.flatMap(({ name, metrics }) =>
        metrics.map((metric) => ({ autoscaler: name, scaling_series: metric.name })),
      );
      const missed = stack.monitoring?.rules.alerts.filter(
        ({ name }) => name === "EngineRoomScalingSeriesAbsent",
      );
      if (missed !== undefined) expect(missed.map(({ labels }) => labels)).toEqual(asked);

      // Every pod that talks to anybody has a policy of its own.
      const roles = networkPolicies(stack.edges, podSelector("demo")).map(
        ({ spec }) =>
          (spec.podSelector as { matchLabels: Labels }).matchLabels["app.kubernetes.io/component"],
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
        expect(Number.parseInt(stack.quota.hard["requests.memory"] ?? "0", 10)).toBeGreaterThan(memory);
      }
    }),
    { numRuns: 300 },
  );
  expect(planned).toBeGreaterThan(60);
});
