/** Stacks in a cluster, planned. */

import { join } from "node:path";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../../infra/config/config.ts";
import { neededImages } from "../../../../infra/plan/images.ts";
import { type KubernetesStack, kubernetesStack } from "../../../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { PodPlan } from "../../../../infra/plan/kubernetes/pods.ts";
import type { ClusterPlan } from "../../../../infra/plan/stack-plan.ts";
import { projectRoot, readStackFile } from "../../../../scripts/program/stack-file.ts";

export type Values = Readonly<Record<string, unknown>>;

export const SHA256 = "0".repeat(64);

/** A text model with room for a second server, encoders on machines without GPU, mock databases. */
export const clusterValues = {
  platform: "kubernetes",
  models: [{ name: "gpt", model: "gpt2-medium" }],
  pools: [
    { name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 1, max: 2 } },
    { name: "cpu", instanceType: "m7i.2xlarge" },
  ],
} as const;

/** A stack with every option in addition to its models. */
export const fullValues = {
  ...clusterValues,
  namespace: "models",
  context: "lab",
  pools: [
    {
      ...clusterValues.pools[0],
      nodeSelector: { "nvidia.com/gpu.product": "NVIDIA-A10G" },
      tolerations: [{ key: "team", operator: "Equal", value: "ml", effect: "NoSchedule" }],
      prePullImages: true,
    },
    clusterValues.pools[1],
  ],
  databases: "external",
  externalDatabases: {
    mongo: { uri: "mongodb://u:hush-uri@db.example.org" },
    vector: { url: "https://v.example.org:6334", apiKey: "hush-key" },
  },
  hub: { token: "hush-token" },
  gateway: {
    apiKeys: [{ name: "alice", sha256: SHA256 }],
    imageHosts: ["example.org", "pictures.example.org:8443"],
    hostname: "models.example.org",
    ingressClass: "nginx",
    tls: { issuer: "letsencrypt" },
    replicas: 2,
  },
  images: { pullSecrets: ["registry"] },
  createNamespace: true,
} as const;

/** The same without a GPU: a small text model, encoders and mock databases. */
export const cpuClusterValues = {
  platform: "kubernetes",
  tier: "cpu",
  models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
} as const;

export function exampleValues(example: string): Values {
  return stackFileValues(`examples/${example}.yaml`);
}

/** @param path - Relative to the project's root. */
export function stackFileValues(path: string): Values {
  const configFile = join(projectRoot, path);
  return fromRuntimeConfig(readStackFile({ name: "demo", configFile }).values);
}

export function clusterPlan(values: Values): ClusterPlan {
  const { plan } = checkedPlan(values);
  if (plan.platform !== "kubernetes") throw new Error("This is no stack in a cluster.");
  return plan;
}

export function lockedImages(plan: ClusterPlan): KubernetesStack["images"] {
  return neededImages(plan).map((name) => ({
    name,
    reference: `registry.example.org/${name}@sha256:${SHA256}`,
  }));
}

export function clusterStack(values: Values, stack = "demo"): KubernetesStack {
  const plan = clusterPlan(values);
  return kubernetesStack(plan, { stack, images: lockedImages(plan) });
}

/** The first entry of a list that a test knows to have one. */
export function first<T>(list: readonly T[]): T {
  const [found] = list;
  if (found === undefined) throw new Error("The list is empty.");
  return found;
}

/** The only container of a pod. */
export function containerOf({ template }: PodPlan) {
  return first(template.spec?.containers ?? []);
}

/** Text of a file of a pod's ConfigMap, parsed. */
export function configOf({ config }: PodPlan, file: string) {
  return JSON.parse(config?.data?.[file] ?? "");
}

export function podsOf(stack: KubernetesStack): readonly PodPlan[] {
  const { builds, servers, databases, prePulls } = stack;
  return [...builds, ...servers, ...databases, ...prePulls].map(({ pod }) => pod);
}
