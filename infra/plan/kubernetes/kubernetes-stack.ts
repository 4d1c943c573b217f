/** What a cluster runs of a plan. */
import { ConfigError } from "../../problems.ts";
import type { ClusterGpuPlan } from "../gpu-stack.ts";
import { imageNamed } from "../image-named.ts";
import { autoscalers, withoutOwnedReplicas } from "./autoscaling.ts";
import { builds } from "./builds.ts";
import type { ClusterPlan } from "./cluster-plan.ts";
import { cpuEncodersServer, cpuModelServer } from "./cpu-servers.ts";
import { databases } from "./databases.ts";
import { clusterEndpoints, clusterNotes } from "./endpoints.ts";
import { apiKeysSecret, gateway, gatewayIngress, gatewayRoute } from "./gateway.ts";
import { clusterImageNames } from "./images.ts";
import { objectLabels, podSelector } from "./labels.ts";
import { monitoringPlan } from "./monitoring/monitoring.ts";
import { networkEdges } from "./network-edges.ts";
import { prePulls } from "./pre-pulls.ts";
import { priorities } from "./priorities.ts";
import { quota } from "./quota.ts";
import { isRetained } from "./retention.ts";
import { encodersServer, modelServer } from "./servers.ts";
import type { ClusterImage, KubernetesStack, NamespacePlan } from "./types.ts";
import { storePlan } from "./volumes.ts";

interface KubernetesStackOptions {
  /** Name of the stack: labels carry it. */
  readonly stack: string;
  /** Of at least {@link clusterImageNames}; others are left out. */
  readonly images: readonly ClusterImage[];
}

/**
 * Every object of a stack, as data. Pure: same plan and images, same bytes.
 *
 * @throws ConfigError where Kubernetes has no label of the stack's name.
 * @throws Error where an image that a pod needs was not given.
 */
export function kubernetesStack(
  plan: ClusterPlan,
  { stack, images }: KubernetesStackOptions,
): KubernetesStack {
  refuseName(stack);
  const { cluster } = plan;
  const { jobs, models, encoders, store, pulls } = tierParts(stack, plan);
  const kept = databases(stack, plan);
  const door = gateway(stack, plan);
  const keys = apiKeysSecret(stack, plan);
  const pulled = clusterImageNames(plan).map((name) => imageNamed(name, images));
  const servers = [...models, ...(encoders === null ? [] : [encoders]), door];
  const owners = autoscalers(stack, plan, servers);
  return {
    context: cluster.context,
    labels: objectLabels(stack),
    selector: podSelector(stack),
    namespace: namespacePlan(stack, plan),
    quota: cluster.namespace.isCreated
      ? quota(stack, {
          servers,
          databases: kept,
          prePulls: pulls,
          builds: jobs.map(({ pod }) => pod),
          // Claims of databases outlive them: those of `mock` are there still when `container` makes its own.
          claims: 2 * kept.length + (store?.creation == null ? 0 : 1),
        })
      : null,
    priorities: priorities(stack, plan),
    images: pulled,
    imagePullSecrets: cluster.imagePullSecrets,
    store,
    builds: jobs,
    models: models.map((model) => withoutOwnedReplicas(model, owners)),
    encoders: encoders === null ? null : withoutOwnedReplicas(encoders, owners),
    databases: kept,
    prePulls: pulls,
    gateway: withoutOwnedReplicas(door, owners),
    ingress: gatewayIngress(stack, plan),
    route: gatewayRoute(stack, plan),
    secrets: keys === null ? [] : [keys],
    secretProviders: cluster.secretProviders.map((one) => ({ ...one, labels: objectLabels(stack) })),
    edges: networkEdges(plan),
    autoscalers: owners,
    monitoring: monitoringPlan({
      ...{ stack, plan, models, encoders, gateway: door },
      ...{ databases: kept, builds: jobs, store, images: pulled, autoscalers: owners },
    }),
    endpoints: clusterEndpoints(plan),
    notes: clusterNotes(plan),
  };
}

/** What the tiers have each in its own way. */
interface TierParts extends Pick<KubernetesStack, "models" | "encoders" | "store"> {
  readonly jobs: KubernetesStack["builds"];
  readonly pulls: KubernetesStack["prePulls"];
}

function tierParts(stack: string, plan: ClusterPlan): TierParts {
  if (plan.tier === "gpu") return gpuParts(stack, plan);
  return {
    jobs: [],
    models: plan.models.map((model) => cpuModelServer(stack, plan, model)),
    encoders: cpuEncodersServer(stack, plan),
    store: null,
    pulls: [],
  };
}

function gpuParts(stack: string, plan: ClusterGpuPlan): TierParts {
  const jobs = builds(stack, plan);
  return {
    jobs,
    models: plan.models.map((model) => modelServer(stack, plan, model, jobs)),
    encoders: encodersServer(stack, plan, jobs),
    store: storePlan(stack, plan),
    pulls: prePulls(stack, plan),
  };
}

/** https://kubernetes.io/docs/concepts/security/pod-security-standards/ */
const POD_SECURITY: Readonly<Record<string, string>> = Object.fromEntries(
  ["audit", "enforce", "warn"].map((mode) => [`pod-security.kubernetes.io/${mode}`, "restricted"]),
);

function namespacePlan(stack: string, plan: ClusterPlan): NamespacePlan {
  const { name, isCreated, labels } = plan.cluster.namespace;
  return {
    name,
    isCreated,
    isRetained: isRetained(stack, plan),
    labels: { ...objectLabels(stack), ...POD_SECURITY, ...labels },
  };
}

/** Value of a label: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ */
const STACK_NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;

function refuseName(stack: string): void {
  if (STACK_NAME.test(stack)) return;
  throw new ConfigError([
    {
      path: "(name of the stack)",
      value: JSON.stringify(stack),
      reason:
        "Labels carry it, and Kubernetes wants at most 63 letters, digits, `_`, `.` and `-`, with a letter or digit at both ends.",
      fix: "Give the stack another name with `--stack`.",
    },
  ]);
}
