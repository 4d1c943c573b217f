/** Stacks in a cluster, on both tiers: names, Secrets, autoscaling, the way to the gateway. */
import type { StackConfig } from "../../config/config.ts";
import { pathParts, secretCommand, showValue, valueAt } from "../../problems.ts";
import { type ClusterConfig, leastReplicas } from "../kubernetes/cluster.ts";
import type { CheckedFile, Checks, Finding } from "./check.ts";

/** Keys that name a certificate. */
export const CERTIFICATE_KEYS =
  "one of gateway.tls.secretName, gateway.tls.issuer, gateway.tls.clusterIssuer";

/** Kubernetes' own, and names of which it keeps those of priority classes for itself. */
const RESERVED_NAMESPACES = /^(default|kube-.*|openshift-.*|system-.*)$/;

type KubernetesConfig = Extract<StackConfig, { platform: "kubernetes" }>;

/** Checks of every stack in a cluster, of one that the stack makes too. */
export const scalingChecks = {
  minReplicasAreReached: ({ config: { models, encoders, gateway, autoscaling } }) => {
    const owners = [
      ...models.map((model, index) => ({ ...model, path: `models[${index}]` })),
      ...(encoders === false ? [] : [{ ...encoders, path: "encoders" }]),
      { ...gateway, path: "gateway" },
    ];
    return owners.map(({ path: owner, minReplicas, replicas }) => {
      const path = `${owner}.minReplicas`;
      if (minReplicas !== undefined && minReplicas > replicas)
        return {
          path,
          reason: `minReplicas is greater than replicas, which is ${replicas}.`,
          fix: `Write ${replicas} or less, or raise replicas.`,
        };
      if (minReplicas !== 0 || autoscaling.mechanism !== "hpa") return [];
      return {
        path,
        reason: "A HorizontalPodAutoscaler can't scale to zero.",
        fix: "Write 1, or autoscaling: { mechanism: keda } with KEDA in the cluster.",
      };
    });
  },

  scheduleIsFollowed: ({ config: { schedule, models, autoscaling } }) => {
    if (schedule === undefined) return [];
    const shown = { path: "schedule", value: "(set)" };
    if (models.every(({ minReplicas }) => minReplicas === undefined))
      return {
        ...shown,
        reason: "No model has minReplicas, so that no server is ever scaled down.",
        fix: "Write minReplicas: 0 for the models that may sleep, or remove schedule.",
      };
    if (autoscaling.mechanism !== "hpa") return [];
    return {
      ...shown,
      reason: "A HorizontalPodAutoscaler does not support schedules.",
      fix: "Write autoscaling: { mechanism: keda } with KEDA in the cluster, or remove schedule.",
    };
  },
} satisfies Checks<CheckedFile<KubernetesConfig | Extract<StackConfig, { compute: "eks" }>>>;

/** Checks of `platform: kubernetes`, on both tiers. */
export const kubernetesChecks = {
  // A namespace that the stack makes gets its labels and a quota, which also hold for other workloads in it.
  namespaceIsOwn: ({ config: { namespace, createNamespace } }) => {
    if (!RESERVED_NAMESPACES.test(namespace)) return [];
    if (createNamespace === false && !namespace.startsWith("system-")) return [];
    return {
      path: "namespace",
      reason:
        "The namespace is reserved for the cluster, and the stack would add Pod Security labels and a quota to it.",
      fix: "Give the stack a namespace of its own, such as engine-room.",
    };
  },

  // A DaemonSet without a selector runs on every machine that takes pods.
  prePullHasSelector: ({ config }) =>
    "pools" in config &&
    config.pools.map(
      ({ prePullImages, nodeSelector }, index) =>
        prePullImages &&
        Object.keys(nodeSelector).length === 0 && {
          path: `pools[${index}].prePullImages`,
          reason:
            "The pool has no nodeSelector, so that its images, of 20 GB and more, would be pulled to every machine of the cluster.",
          fix: "Write the labels of the pool's machines in nodeSelector, such as { nvidia.com/gpu.product: NVIDIA-A10G }.",
        },
    ),

  addressesAreGivenOnce: ({ config }) => {
    const mongo = config.externalDatabases?.mongo;
    return [
      bothGiven(config, "externalDatabases.mongo.uri", "externalDatabases.mongo.uriSecret"),
      bothGiven(config, "externalDatabases.vector.apiKey", "externalDatabases.vector.apiKeySecret"),
      mongo !== undefined &&
        mongo.uri === undefined &&
        mongo.uriSecret === undefined && {
          path: "externalDatabases.mongo.uri",
          value: "(absent)",
          reason: "The address of the document database is in neither mongo.uri nor mongo.uriSecret.",
          fix: `Set it with ${secretCommand("externalDatabases.mongo.uri")}, or name a Secret of the namespace.`,
        },
    ];
  },

  storeIsGivenOnce: ({ config }) =>
    bothGiven(config, "engineStore.existingClaim", "engineStore.existingVolume"),

  tlsHasOneCertificate: ({ config: { gateway } }) => {
    if (gateway.tls === undefined) return [];
    const given = Object.entries(gateway.tls).flatMap(([key, value]) => (value === undefined ? [] : [key]));
    if (given.length === 1) return [];
    return {
      path: "gateway.tls",
      reason:
        given.length === 0
          ? "It names no certificate."
          : `${given.join(" and ")} are both set, and only one can be used.`,
      fix: `Set ${CERTIFICATE_KEYS}.`,
    };
  },

  // A Gateway has the certificate and the class that an Ingress names.
  routeIsWhole: ({ config: { gateway } }) => {
    if (gateway.route === undefined) return [];
    return [
      (["tls", "ingressClass"] as const).map(
        (key) =>
          gateway[key] !== undefined && {
            path: `gateway.${key}`,
            value: "(set)",
            reason: "It configures an Ingress, and gateway.route creates an HTTPRoute instead.",
            fix: "Remove it, and configure the listener of the Gateway.",
          },
      ),
      gateway.hostname === undefined && {
        path: "gateway.hostname",
        reason: "An HTTPRoute needs a host name.",
        fix: "Set the name by which clients reach the gateway.",
      },
    ];
  },
} satisfies Checks<CheckedFile<KubernetesConfig>>;

/** A value, and the name of an object that holds it. */
function bothGiven(config: KubernetesConfig, value: string, object: string): Finding | false {
  if ([value, object].some((path) => valueAt(config, pathParts(path)) === undefined)) return false;
  return {
    path: object,
    value: "(set)",
    reason: `${value} and ${object} are both set, and only one can be used.`,
    fix: "Keep one of them.",
  };
}

/** Autoscalers choose by series that Prometheus must have been told to read; the cluster's owner may have told it. */
export function unreadScaling(config: ClusterConfig): Finding | false {
  const least = leastReplicas(config);
  const scaled = Object.keys(least);
  if (config.monitoring !== "none" || scaled.length === 0) return false;
  const sleepers = Object.values(least).includes(0) ? ", and servers at zero would not start again" : "";
  return {
    severity: "warning",
    path: "monitoring",
    value: showValue(config.monitoring),
    reason: `Autoscalers use metrics from Prometheus, and the stack sets up no scraping: ${scaled.join(", ")} would not scale${sleepers}.`,
    fix: "Write prometheus-operator, or have Prometheus scrape the stack's Services with the labels `namespace` and `service`.",
  };
}
