import { test } from "vitest";
import { stringify } from "yaml";
import { diffOfFiles, stackFile, summary } from "./fixtures.ts";

const cluster = {
  platform: "kubernetes",
  namespace: "models",
  images: { registry: "registry.example.org/engine-room" },
  engineStore: { storageClass: "nfs", sizeGiB: 200 },
  pools: [
    { name: "gpu", instanceType: "g5.12xlarge" },
    { name: "cpu", machine: { vcpus: 8, memoryGiB: 32 } },
  ],
  models: [{ name: "gpt", model: "gpt2-medium" }],
};
const two = {
  ...cluster,
  models: [...cluster.models, { name: "chat", model: "llama-2-7b-chat" }],
  hub: { token: "hf_aaaaaaaaaaaaaaaaaaaa" },
};
const m = (x: object) => ({ ...cluster, models: [{ ...cluster.models[0], ...x }] });
const kinds: Record<string, [object, object]> = {
  added: [cluster, { ...cluster, models: [...cluster.models, { name: "second", model: "gpt2-medium" }] }],
  renamed: [cluster, m({ name: "chat" })],
  batch: [cluster, m({ maxBatchSize: 4 })],
  release: [cluster, { ...cluster, release: "25.06" }],
  instance: [
    cluster,
    { ...cluster, pools: [{ name: "gpu", instanceType: "g6.12xlarge" }, cluster.pools[1]] },
  ],
  tp: [m({ model: "llama-2-7b-chat" }), m({ model: "llama-2-7b-chat", tensorParallel: 2 })],
  quant: [cluster, m({ quantization: "int8" })],
  secret: [two, { ...two, hub: { token: "hf_bbbbbbbbbbbbbbbbbbbb" } }],
  tag: [cluster, { ...cluster, tags: { team: "search" } }],
  replicas: [cluster, m({ replicas: 2 })],
  netpol: [cluster, { ...cluster, networkPolicies: false }],
  encoders: [cluster, { ...cluster, encoders: { device: "gpu" } }],
  scale: [m({ minReplicas: 0, replicas: 2 }), m({ minReplicas: 0, replicas: 3 })],
};
for (const [k, [a, b]] of Object.entries(kinds))
  test.skipIf(process.env.K !== undefined && process.env.K !== k)(k, async () => {
    const d = await diffOfFiles(stackFile(a as never), stackFile(b as never));
    console.log(
      k,
      d.base.problems,
      d.head.problems,
      d.base.failure,
      d.head.failure,
      d.resources?.map(summary),
      d.unchanged,
      d.secrets,
      JSON.stringify(d.plan?.engines),
      JSON.stringify(d.plan?.cost),
      d.plan?.fit.length,
    );
  });
void stringify;
