/** Everything that a cluster runs of a plan. */
import { ConfigError } from "../../problems.ts";
import { imageNamed } from "../image-named.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { autoscalers } from "./autoscaling.ts";
import { builds, engineStore, prePulls } from "./builds.ts";
import { priorities, quota } from "./capacity.ts";
import { isRetained } from "./cluster.ts";
import { clusterEndpoints, clusterNotes, ownerNotes } from "./endpoints.ts";
import { clusterImageNames } from "./images.ts";
import { gatewayIngress, gatewayRoute } from "./ingress.ts";
import { keptAnnotations, objectLabels, podSelector } from "./labels.ts";
import { monitoringPlan } from "./monitoring/monitoring.ts";
import { networkPolicies } from "./network.ts";
import type { PodContext } from "./pods.ts";
import { apiKeysSecret, secretProviders } from "./secrets.ts";
import { cpuServer, databases, encodersServer, gatewayServer, modelServer } from "./servers.ts";
import type { ClusterImage, KubernetesStack, Namespace } from "./types.ts";

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
  const pulled = clusterImageNames(plan).map((name) => imageNamed(name, images));
  const context = { stack, plan, images: pulled };
  const tier = tierParts(context);
  const front = { gateway: gatewayServer(context), databases: databases(context) };
  const servers = [...tier.models, ...(tier.encoders === null ? [] : [tier.encoders]), front.gateway];
  const scalers = autoscalers(stack, plan, servers);
  const pods = { ...tier, ...front, servers, hasStore: tier.store?.object != null };
  const { name, isCreated } = cluster.namespace;
  return {
    context: cluster.context,
    labels: objectLabels(stack),
    selector: podSelector(stack),
    namespace: { name, object: isCreated ? namespaceObject(stack, plan) : null },
    isRetained: isRetained(stack, cluster),
    quota: isCreated ? quota(stack, pods) : null,
    priorities: priorities(stack, plan),
    images: pulled,
    imagePullSecrets: cluster.imagePullSecrets,
    ...tier,
    ...front,
    ingress: gatewayIngress(stack, plan),
    route: gatewayRoute(stack, plan),
    apiKeys: apiKeysSecret(stack, plan),
    secretProviders: secretProviders(context),
    policies: networkPolicies(stack, plan),
    autoscalers: scalers,
    monitoring: monitoringPlan({ stack, plan, ...tier, ...front, images: pulled, autoscalers: scalers }),
    endpoints: clusterEndpoints(plan),
    notes: [...ownerNotes(plan), ...clusterNotes(plan)],
  };
}

type TierParts = Pick<KubernetesStack, "builds" | "models" | "encoders" | "store" | "prePulls">;

function tierParts({ plan, ...pods }: PodContext): TierParts {
  if (plan.tier === "cpu") {
    const context = { ...pods, plan };
    return {
      builds: [],
      models: plan.models.map((model) => cpuServer(context, model)),
      encoders: cpuServer(context, null),
      store: null,
      prePulls: [],
    };
  }
  const context = { ...pods, plan };
  const jobs = builds(context);
  return {
    builds: jobs,
    models: plan.models.map((model) => modelServer(context, model, jobs)),
    encoders: encodersServer(context, jobs),
    store: engineStore(context),
    prePulls: prePulls(context),
  };
}

/** https://kubernetes.io/docs/concepts/security/pod-security-standards/ */
const POD_SECURITY: Readonly<Record<string, string>> = Object.fromEntries(
  ["audit", "enforce", "warn"].map((mode) => [`pod-security.kubernetes.io/${mode}`, "restricted"]),
);

function namespaceObject(stack: string, { cluster: { namespace } }: ClusterPlan): Namespace {
  return {
    metadata: {
      name: namespace.name,
      labels: { ...objectLabels(stack), ...POD_SECURITY, ...namespace.labels },
      annotations: keptAnnotations(stack),
    },
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
