/** Whole stacks in the cluster: every object that a stack file renders, on nodes like those of its pools, and after a change. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  packPool,
  type Shortage,
  serverRequest,
  shortages,
  waitingBuilds,
} from "../../infra/plan/pool-space.ts";
import type { GpuStackSpec, PoolSpec } from "../../infra/plan/spec.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { applyAll } from "../harness/kubernetes/apply.ts";
import { bringUp, claimVolumes, stackScene } from "../harness/kubernetes/bring-up.ts";
import { failingJob } from "../harness/kubernetes/builds.ts";
import { removeNamespace, restrictedNamespace } from "../harness/kubernetes/cluster-setup.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { SchemaCheck } from "../harness/kubernetes/kubeconform.ts";
import { addNodes, poolNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import type { KubernetesObject, ObjectReference } from "../harness/kubernetes/objects.ts";
import { renderedObjects, stackObjects } from "../harness/kubernetes/rendered.ts";
import { gpuSpecOf, nodesOf } from "../harness/kubernetes/stack-files.ts";
import { removeAndWait, unschedulable } from "../harness/kubernetes/waiting.ts";
import { writtenStackFile } from "../harness/stack-files.ts";
import { claim, database, engineBuild, examplePools, server, service } from "./sample-objects.ts";

/** Stack files of the project, or values if it has no such file. */
const STACKS: Readonly<Record<string, string | Readonly<Record<string, unknown>>>> = {
  "a stack on one shared GPU with an existing claim": "examples/llama-2-7b-chat-kubernetes.yaml",
  "Pulumi.onprem.yaml": "Pulumi.onprem.yaml",
  "Pulumi.kind.yaml": "Pulumi.kind.yaml",
  "a stack that scales by load and by schedule behind a Gateway": {
    platform: "kubernetes",
    tier: "cpu",
    namespace: "sleepers",
    monitoring: "prometheus-operator",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct", replicas: 2, minReplicas: 0 }],
    encoders: { replicas: 2, minReplicas: 1 },
    schedule: { start: "0 8 * * 1-5", end: "0 20 * * 1-5", timeZone: "Europe/Berlin" },
    gateway: {
      hostname: "models.example.org",
      route: { gateway: "shared", namespace: "edge", listener: "https" },
      replicas: 3,
      minReplicas: 1,
    },
  },
  "a stack with GPUs, encoders, databases, TLS and monitoring": {
    platform: "kubernetes",
    namespace: "models",
    createNamespace: true,
    monitoring: "prometheus-operator",
    monitoringOptions: { labels: { release: "kube-prometheus-stack" } },
    engineStore: { existingVolume: "shared-engines", sizeGiB: 300 },
    models: [{ name: "gpt", model: "gpt2-medium", replicas: 2, minReplicas: 0 }],
    pools: [
      {
        name: "gpu",
        instanceType: "g5.12xlarge",
        nodes: { min: 1, max: 2 },
        nodeSelector: { "nvidia.com/gpu.product": "NVIDIA-A10G" },
      },
      { name: "cpu", instanceType: "m7i.xlarge" },
    ],
    gateway: {
      apiKeys: [{ name: "alice", sha256: "0".repeat(64) }],
      hostname: "models.example.org",
      ingressClass: "nginx",
      tls: { issuer: "letsencrypt" },
      replicas: 2,
    },
  },
};

describeWithCluster("stack files", ({ api, modules }) => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-stacks-"));
  let check: SchemaCheck;
  let clear = async () => {};

  beforeAll(() => {
    check = new SchemaCheck(modules);
  });
  afterEach(async () => {
    await clear();
  });
  afterAll(() => {
    check?.dispose();
    rmSync(folder, { recursive: true });
  });

  test.each(Object.entries(STACKS))(
    "every object and endpoint of %s comes up, and a second time nothing changes",
    async (_, stack) => {
      const file = typeof stack === "string" ? join(projectRoot, stack) : writtenStackFile(folder, stack);
      const { objects, charts, outputs } = await renderedObjects(file);
      expect(charts).toEqual([]);
      expect(await check.faults(objects)).toEqual([]);

      const scene = stackScene(api, nodesOf(file), objects);
      clear = scene.clear;
      await scene.set();
      expect(await bringUp(api, objects)).toEqual({});

      const before = await Promise.all(objects.map((object) => api.get(object)));
      await bringUp(api, objects);
      const generations = (all: typeof before) =>
        all.map((one) => [one?.metadata.uid, one?.metadata.generation]);
      expect(generations(await Promise.all(objects.map((object) => api.get(object))))).toEqual(
        generations(before),
      );

      const addresses = clusterAddresses(outputs.endpoints);
      expect(addresses.length).toBeGreaterThan(0);
      for (const { name, namespace, port } of addresses) {
        const service = await api.get({ apiVersion: "v1", kind: "Service", metadata: { name, namespace } });
        const { ports } = (service ?? { spec: { ports: [] } }).spec as {
          readonly ports: readonly { port: number }[];
        };
        expect(
          ports.map((one) => one.port),
          `${name}.${namespace}`,
        ).toContain(port);
      }
    },
  );
});

/** Services that the values of an output name: `http://gateway.models.svc:8080/v1`. */
function clusterAddresses(value: unknown): { name: string; namespace: string; port: number }[] {
  if (typeof value === "object" && value !== null) return Object.values(value).flatMap(clusterAddresses);
  const match = /^(?:\w+:\/\/)?([a-z0-9-]+)\.([a-z0-9-]+)\.svc[a-z.]*:(\d+)/.exec(`${value}`);
  const [, name = "", namespace = "", port] = match ?? [];
  return match === null ? [] : [{ name, namespace, port: Number(port) }];
}

const CHANGED = "changed";
const NODE_SELECTOR = { pool: "gpu" };

/** Names of resources in pods. */
const RESOURCES = { gpu: "nvidia.com/gpu", cpu: "cpu", memory: "memory" };

/** Room for a second server and for a build: `rollout` is `surge`. */
const stackToChange = (maxBatchSize: number) => ({
  platform: "kubernetes",
  namespace: CHANGED,
  createNamespace: true,
  encoders: false,
  models: [{ name: "gpt", model: "gpt2-medium", limits: { maxBatchSize } }],
  pools: [
    {
      name: "gpu",
      machine: { gpu: "L4", gpus: 2, vcpus: 16, memoryGiB: 64 },
      nodeSelector: NODE_SELECTOR,
    },
    { name: "cpu", machine: { vcpus: 4, memoryGiB: 16 } },
  ],
});

type Objects = readonly KubernetesObject[];

describeWithCluster("changed stack files", ({ api }) => {
  let spec: GpuStackSpec;
  let rendered: { readonly first: Objects; readonly second: Objects };
  let clear = async () => {};

  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "engine-room-changed-"));
    try {
      const file = writtenStackFile(folder, stackToChange(4));
      spec = gpuSpecOf(file) as GpuStackSpec;
      const { objects: first } = await renderedObjects(file);
      writtenStackFile(folder, stackToChange(2));
      rendered = { first, second: (await renderedObjects(file)).objects };
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
  afterEach(() => clear());

  /** The stack on one machine of each pool, in a namespace of its own: one that was removed ends some time later. */
  async function up(namespace: string, gpuPool: PoolSpec): Promise<typeof rendered> {
    const moved = (objects: Objects): Objects =>
      JSON.parse(JSON.stringify(objects).replaceAll(`"${CHANGED}"`, `"${namespace}"`));
    const { first, second } = { first: moved(rendered.first), second: moved(rendered.second) };
    const nodes = spec.pools.flatMap((pool) =>
      pool.name === gpuPool.name ? poolNodes(gpuPool, { labels: NODE_SELECTOR }) : poolNodes(pool),
    );
    const scene = stackScene(api, nodes, [...first, ...second]);
    clear = scene.clear;
    await scene.set();
    await bringUp(api, first);
    return { first, second };
  }

  test("a changed engine is built in a Job of its own, and the server changes only after that is complete", async () => {
    const { first, second } = await up("changed-engine", gpuPoolOf(spec));
    const [wasBuild, isBuild, server] = [jobOf(first), jobOf(second), deploymentOf(second)];
    expect(isBuild.metadata.name).not.toBe(wasBuild.metadata.name);
    const now = async () => (await api.get(server)) as KubernetesObject;
    const before = await now();

    const failing = second.map((object) => (object === isBuild ? failingJob(object, 3) : object));
    await expect(bringUp(api, failing)).rejects.toThrow(`Job changed-engine/${isBuild.metadata.name} failed`);
    expect((await now()).metadata.generation).toBe(before.metadata.generation);

    await removeAndWait(api, isBuild);
    await bringUp(api, second);
    const after = await now();
    expect(engineOf(after)).toBe(engineOf(server));
    expect(engineOf(after)).not.toBe(engineOf(before));
    // The engine that was served before is still there to go back to.
    expect(await api.get(wasBuild)).toBeDefined();
  });

  test.each([
    ["gpu", { gpus: 1 }],
    ["cpu", { vcpus: 4, memoryGiB: 32 }],
    ["memory", { memoryGiB: 12 }],
  ] as const)(
    "a changed stack on a machine with too little %s waits for the resource that the plan predicts",
    async (short, less) => {
      const pool = gpuPoolOf(spec);
      const small: PoolSpec = { ...pool, machine: { ...pool.machine, ...less } };
      const [model] = spec.models;
      if (model === undefined) throw new Error("The stack has no model.");
      const planned: GpuStackSpec = {
        ...spec,
        pools: spec.pools.map((one) => (one === pool ? small : one)),
      };

      const namespace = `crowded-${short}`;
      const { second } = await up(namespace, small);
      // No wait for the build, which never ends.
      await applyAll(api, second);
      const { name } = jobOf(second).metadata;
      const ofBuild = waitingBuilds(planned, small).flatMap((build) => shortages(build.machines, build));
      const ofServer = shortages(packPool(planned, small).machines, serverRequest(model));
      expect([ofBuild, ofServer].map(resources)).toEqual([[RESOURCES[short]], [RESOURCES[short]]]);
      for (const [selector, predicted] of [
        [`job-name=${name}`, ofBuild],
        [selectorOf(deploymentOf(second)), ofServer],
      ] as const)
        expect(lacked(await unschedulable(api, namespace, selector)), selector).toEqual(resources(predicted));
    },
  );
});

function gpuPoolOf({ pools }: GpuStackSpec): PoolSpec {
  const pool = pools.find(({ gpu }) => gpu !== null);
  if (pool === undefined) throw new Error("The stack has no pool with GPUs.");
  return pool;
}

function jobOf(objects: Objects): KubernetesObject {
  return oneOf(objects, ({ kind }) => kind === "Job");
}

/** That of the model. */
function deploymentOf(objects: Objects): KubernetesObject {
  return oneOf(objects, ({ kind, metadata }) => kind === "Deployment" && metadata.name === "gpt");
}

function oneOf(objects: Objects, isMeant: (object: KubernetesObject) => boolean): KubernetesObject {
  const [found, ...others] = objects.filter(isMeant);
  if (found === undefined || others.length > 0) throw new Error("The stack has none of these, or several.");
  return found;
}

interface DeploymentSpec {
  readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
  readonly template: Pick<KubernetesObject, "metadata">;
}

function selectorOf({ spec }: KubernetesObject): string {
  const { matchLabels } = (spec as DeploymentSpec).selector;
  return Object.entries(matchLabels)
    .map((label) => label.join("="))
    .join(",");
}

/** Key of the engine that a Deployment's pods load. */
function engineOf({ spec }: KubernetesObject): string | undefined {
  return (spec as DeploymentSpec).template.metadata.labels?.["engine-room/key"];
}

/** Resources that the scheduler is short of, by their names in pods. */
function lacked(message: string): readonly string[] {
  return [...message.matchAll(/Insufficient (\S+?)[.,](?=\s|$)/g)]
    .map(([, resource]) => resource ?? "")
    .sort();
}

/** Resources that the plan is short of, by the same names. */
function resources(short: readonly Shortage[]): readonly string[] {
  return short.map(({ resource }) => RESOURCES[resource]).sort();
}

const RENDERED = "rendered";

const namespace = restrictedNamespace(RENDERED);
const store = claim(RENDERED);
const deployment = server(RENDERED, "llama");
const mongo = database(RENDERED, "mongo");
const secret: KubernetesObject = {
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name: "hub-token", namespace: RENDERED },
  stringData: "[secret]",
};

/** The objects of a stack whose server has an engine, through the resources of a graph. */
function objectsOf(engine: string, build: KubernetesObject): readonly KubernetesObject[] {
  const served = server(RENDERED, "llama", { engine });
  // In alphabetical order, as the command prints them.
  const graph: readonly (readonly [object: KubernetesObject, after: readonly KubernetesObject[]])[] = [
    [served, [namespace, store, build]],
    [build, [namespace, store, secret]],
    [namespace, []],
    [store, [namespace]],
    [secret, [namespace]],
    [service(RENDERED, "llama"), [namespace]],
    [mongo, [namespace]],
  ];
  const resources = graph.map(([object, after]) => ({
    type: `kubernetes:${object.kind}`,
    name: object.metadata.name,
    urn: urn(object),
    parent: "",
    custom: true,
    inputs: { ...object },
    dependencies: after.map(urn),
    propertyDependencies: {},
    options: {},
  }));
  return stackObjects({ resources, outputs: {} }).objects;
}

function urn({ kind, metadata }: KubernetesObject): string {
  return `urn:pulumi:tests::engine-room::kubernetes:${kind}::${metadata.name}`;
}

describeWithCluster("rendered graphs", ({ api, modules }) => {
  const firstBuild = engineBuild(RENDERED, "llama-aaaaaaaaaaaa", 1);
  const secondBuild = engineBuild(RENDERED, "llama-bbbbbbbbbbbb", 1);
  const first = objectsOf("aaaaaaaaaaaa", firstBuild);
  const nodes = examplePools.flatMap((pool) => poolNodes(pool));
  let check: SchemaCheck;

  beforeAll(async () => {
    check = new SchemaCheck(modules);
    await addNodes(api, nodes);
  });

  afterAll(async () => {
    check?.dispose();
    await removeNamespace(api, RENDERED);
    for (const volume of claimVolumes(first)) await api.remove(volume);
    await removeNodes(api, nodes);
  });

  const state = async (reference: ObjectReference) => {
    const { metadata } = (await api.get(reference)) ?? {};
    return [reference.kind, metadata?.uid, metadata?.generation];
  };
  async function servedEngine(): Promise<string | undefined> {
    const now = (await api.get(deployment)) as KubernetesObject;
    const { template } = now.spec as { readonly template: Pick<KubernetesObject, "metadata"> };
    return template.metadata.annotations?.engine;
  }

  test("the schemas find no fault in the objects of a rendered graph", async () => {
    expect(await check.faults(first)).toEqual([]);
  });

  test("volumes, build, server and database of a rendered graph come up", async () => {
    expect(await bringUp(api, first)).toEqual({});
    expect(await servedEngine()).toBe("aaaaaaaaaaaa");
  });

  test("a rendered graph that is brought up a second time changes nothing", async () => {
    const kinds = [store, firstBuild, deployment, mongo];
    const before = await Promise.all(kinds.map(state));
    expect(await bringUp(api, first)).toEqual({});
    expect(await Promise.all(kinds.map(state))).toEqual(before);
  });

  test("a failed build of a new engine leaves the server unchanged, and its retry changes the server", async () => {
    const failing = objectsOf("bbbbbbbbbbbb", failingJob(secondBuild, 3));
    await expect(bringUp(api, failing)).rejects.toThrow(
      /^batch\/v1 Job rendered\/llama-bbbbbbbbbbbb failed: PodFailurePolicy/,
    );
    expect(await servedEngine()).toBe("aaaaaaaaaaaa");

    await removeAndWait(api, secondBuild);
    await bringUp(api, objectsOf("bbbbbbbbbbbb", secondBuild));
    expect(await servedEngine()).toBe("bbbbbbbbbbbb");
    // The engine that was served before is still there to go back to.
    expect((await state(firstBuild))[1]).toBeDefined();
  });
});
