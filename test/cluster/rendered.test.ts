/** A graph as `npm run render` prints it comes up in the cluster: how examples are shown. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { bringUp, claimVolumes } from "../harness/kubernetes/bring-up.ts";
import { failingJob } from "../harness/kubernetes/builds.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { SchemaCheck } from "../harness/kubernetes/kubeconform.ts";
import { addNodes, poolNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import type { KubernetesObject, ObjectReference } from "../harness/kubernetes/objects.ts";
import { stackObjects } from "../harness/kubernetes/rendered.ts";
import { removeNamespace, restrictedNamespace } from "../harness/kubernetes/scenes.ts";
import { removeAndWait } from "../harness/kubernetes/waits.ts";
import { examplePools } from "./example.ts";
import { claim, database, engineBuild, server, service } from "./shapes.ts";

const NAMESPACE = "rendered";

const namespace = restrictedNamespace(NAMESPACE);
const store = claim(NAMESPACE);
const deployment = server(NAMESPACE, "llama");
const mongo = database(NAMESPACE, "mongo");
const secret: KubernetesObject = {
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name: "hub-token", namespace: NAMESPACE },
  stringData: "[secret]",
};

/** The objects of a stack whose server has an engine, through the resources of a graph. */
function objectsOf(engine: string, build: KubernetesObject): readonly KubernetesObject[] {
  const served = server(NAMESPACE, "llama", { engine });
  // By what comes first in the alphabet, as the command prints them.
  const graph: readonly (readonly [object: KubernetesObject, after: readonly KubernetesObject[]])[] = [
    [served, [namespace, store, build]],
    [build, [namespace, store, secret]],
    [namespace, []],
    [store, [namespace]],
    [secret, [namespace]],
    [service(NAMESPACE, "llama"), [namespace]],
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

describeWithCluster("a rendered stack", ({ api, modules }) => {
  const firstBuild = engineBuild(NAMESPACE, "llama-aaaaaaaaaaaa", 1);
  const secondBuild = engineBuild(NAMESPACE, "llama-bbbbbbbbbbbb", 1);
  const first = objectsOf("aaaaaaaaaaaa", firstBuild);
  const nodes = examplePools.flatMap((pool) => poolNodes(pool));
  let check: SchemaCheck;

  beforeAll(async () => {
    check = new SchemaCheck(modules);
    await addNodes(api, nodes);
  });

  afterAll(async () => {
    check?.dispose();
    await removeNamespace(api, NAMESPACE);
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

  test("has no fault that schemas find", async () => {
    expect(await check.faults(first)).toEqual([]);
  });

  test("comes up: volumes, build, server, database", async () => {
    expect(await bringUp(api, first)).toEqual({});
    expect(await servedEngine()).toBe("aaaaaaaaaaaa");
  });

  test("brought up once more it changes nothing", async () => {
    const kinds = [store, firstBuild, deployment, mongo];
    const before = await Promise.all(kinds.map(state));
    expect(await bringUp(api, first)).toEqual({});
    expect(await Promise.all(kinds.map(state))).toEqual(before);
  });

  test("a build of a new engine that fails leaves the server alone; the next try changes it", async () => {
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
