import { join } from "node:path";
import { expect, test } from "vitest";
import type { Gpu } from "../../../infra/plan/catalogue/types.ts";
import type { PoolSpec } from "../../../infra/plan/spec.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { poolNodes } from "./nodes.ts";
import type { KubernetesObject } from "./objects.ts";
import { poolsOf } from "./stack-files.ts";

const [pool] = poolsOf(join(projectRoot, "examples/llama-2-7b-chat-kubernetes.yaml")) as [PoolSpec];

test("a node has what the plan counts on: a GPU that two pods share is two", () => {
  const resources = {
    cpu: "8000m",
    memory: "65536Mi",
    pods: "110",
    "ephemeral-storage": "200Gi",
    "nvidia.com/gpu": "2",
  };
  expect(poolNodes(pool)).toEqual([
    {
      apiVersion: "v1",
      kind: "Node",
      metadata: {
        name: "gpu-0",
        labels: {
          "kubernetes.io/hostname": "gpu-0",
          "kubernetes.io/os": "linux",
          "kubernetes.io/arch": "amd64",
        },
      },
      spec: { taints: [{ key: "nvidia.com/gpu", value: "present", effect: "NoSchedule" }] },
      status: { capacity: resources, allocatable: resources },
    },
  ]);
});

test("as many nodes as the pool has at most, with names, labels and taints of their own", () => {
  const nodes = poolNodes(
    { ...pool, name: "a10g", instanceType: "g5.xlarge", nodes: { min: 1, max: 3 } },
    { labels: { pool: "a10g" }, taints: [] },
  );
  expect(
    nodes.map(({ metadata: { name, labels }, spec }) => [name, labels?.["kubernetes.io/hostname"], spec]),
  ).toEqual([
    ["a10g-0", "a10g-0", { taints: [] }],
    ["a10g-1", "a10g-1", { taints: [] }],
    ["a10g-2", "a10g-2", { taints: [] }],
  ]);
  expect(nodes[0]?.metadata.labels).toMatchObject({
    pool: "a10g",
    "node.kubernetes.io/instance-type": "g5.xlarge",
  });
  expect(poolNodes({ ...pool, nodes: { min: 1, max: 3 } }, { count: 1 }).length).toBe(1);
});

test("partitions have a name of their own, and a pool without GPU has neither GPUs nor taint", () => {
  const gpusOf = (changes: Partial<PoolSpec>, options = {}) => {
    const [node] = poolNodes({ ...pool, ...changes }, options) as [KubernetesObject];
    const { capacity } = node.status as { readonly capacity: Readonly<Record<string, string>> };
    return Object.entries(capacity).filter(([name]) => name.startsWith("nvidia.com/"));
  };
  const gpu = { ...(pool.gpu as Gpu), memoryGiB: 80, migProfiles: { "3g.40gb": 39.25 } };
  expect(gpusOf({ gpu, sharing: { mode: "mig", profile: "3g.40gb" } })).toEqual([
    ["nvidia.com/mig-3g.40gb", "2"],
  ]);
  expect(gpusOf({}, { gpuResource: "nvidia.com/gpu.shared" })).toEqual([["nvidia.com/gpu.shared", "2"]]);
  expect(gpusOf({ gpu: null })).toEqual([]);
  expect(poolNodes({ ...pool, gpu: null })[0]?.spec).toEqual({ taints: [] });
});
