/** Whole stacks in the cluster: every object that a stack file renders, on nodes like those of its pools. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { bringUp, stackScene } from "../harness/kubernetes/bring-up.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { SchemaCheck } from "../harness/kubernetes/kubeconform.ts";
import { renderedObjects } from "../harness/kubernetes/rendered.ts";
import { nodesOf } from "../harness/kubernetes/stack-files.ts";
import { writtenStackFile } from "../harness/stack-files.ts";

/** Stack files, and what is in them where the project has no file of its own. */
const STACKS: Readonly<Record<string, string | Readonly<Record<string, unknown>>>> = {
  "one shared GPU, and a claim that is there": "examples/llama-2-7b-chat-kubernetes.yaml",
  "a cluster of one's own": "Pulumi.onprem.yaml",
  "a cluster without GPUs": "Pulumi.kind.yaml",
  "servers by the load and by the clock, behind a Gateway": {
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
  "GPUs, encoders, databases, host name with TLS, monitoring": {
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

describeWithCluster("a stack file", ({ api, modules }) => {
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
    "%s: all of it comes up, and its endpoints are there",
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
