/** A changed model of a stack that is up, as the stack file renders it: its build, its roll-out, and when neither finds room. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, expect, test } from "vitest";
import { waitingBuilds } from "../../infra/plan/pool-builds.ts";
import { type Shortage, serverRoom, surgeShortages } from "../../infra/plan/pool-space.ts";
import type { GpuStackSpec, PoolSpec } from "../../infra/plan/spec.ts";
import { applyAll } from "../harness/kubernetes/apply.ts";
import { bringUp, stackScene } from "../harness/kubernetes/bring-up.ts";
import { failingJob } from "../harness/kubernetes/builds.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { poolNodes } from "../harness/kubernetes/nodes.ts";
import type { KubernetesObject } from "../harness/kubernetes/objects.ts";
import { renderedObjects } from "../harness/kubernetes/rendered.ts";
import { gpuSpecOf } from "../harness/kubernetes/stack-files.ts";
import { removeAndWait, unschedulable } from "../harness/kubernetes/waits.ts";
import { writtenStackFile } from "../harness/stack-files.ts";

const NAMESPACE = "changed";
const NODE_SELECTOR = { pool: "gpu" };

/** What pods call them. */
const RESOURCES = { gpu: "nvidia.com/gpu", cpu: "cpu", memory: "memory" };

/** Room for a second server and for a build: `rollout` is `surge`. */
const stack = (maxBatchSize: number) => ({
  platform: "kubernetes",
  namespace: NAMESPACE,
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

describeWithCluster("a changed stack file", ({ api }) => {
  let spec: GpuStackSpec;
  let rendered: { readonly first: Objects; readonly second: Objects };
  let clear = async () => {};

  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "engine-room-changed-"));
    try {
      const file = writtenStackFile(folder, stack(4));
      spec = gpuSpecOf(file) as GpuStackSpec;
      const { objects: first } = await renderedObjects(file);
      writtenStackFile(folder, stack(2));
      rendered = { first, second: (await renderedObjects(file)).objects };
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
  afterEach(() => clear());

  /** The stack on one machine of each pool, in a namespace of its own: one that was removed ends some time later. */
  async function up(namespace: string, gpuPool: PoolSpec): Promise<typeof rendered> {
    const moved = (objects: Objects): Objects =>
      JSON.parse(JSON.stringify(objects).replaceAll(`"${NAMESPACE}"`, `"${namespace}"`));
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

  test("builds the new engine in a Job of its own, and the server changes only when that is complete", async () => {
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
    "on a machine with less %s than the file says waits for what the plan of that machine lacks",
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
      const ofBuild = waitingBuilds(planned, small).flatMap((build) => build.short);
      const ofServer = surgeShortages(planned, small, serverRoom(model));
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

/** What the scheduler finds too little of, in the words of pods. */
function lacked(message: string): readonly string[] {
  return [...message.matchAll(/Insufficient (\S+?)[.,](?=\s|$)/g)]
    .map(([, resource]) => resource ?? "")
    .sort();
}

/** What the plan finds too little of, in the same words. */
function resources(short: readonly Shortage[]): readonly string[] {
  return short.map(({ resource }) => RESOURCES[resource]).sort();
}
