/** Everything that a cluster runs of a plan. */
import { ConfigError } from "../../problems.ts";
import type { ClusterCpuPlan } from "../cpu-stack.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { autoscalers } from "./autoscaling.ts";
import { builds, engineStore, type GpuContext, prePulls } from "./builds.ts";
import { priorities, quota } from "./capacity.ts";
import { isRetained } from "./cluster.ts";
import { clusterEndpoints, clusterNotes } from "./endpoints.ts";
import { monitoringPlan } from "./monitoring/monitoring.ts";
import { gatewayAccess, networkPolicies } from "./network.ts";
import { type ApiObject, keptAnnotations, objectLabels, podSelector } from "./objects.ts";
import type { PodContext } from "./pods.ts";
import { apiKeysSecret, bucketAccount, secretProviders } from "./secrets.ts";
import { cpuServer, databases, encodersServer, gatewayServer, modelServer } from "./servers.ts";

/** All objects of a stack. */
export type KubernetesStack = ReturnType<typeof kubernetesStack>;

/**
 * Every object of a stack, as data. Pure: same plan and images, same bytes.
 *
 * @throws ConfigError if Kubernetes has no label of the stack's name.
 * @throws Error if an image that a pod needs was not given.
 */
export function kubernetesStack(plan: ClusterPlan, { stack, images }: Omit<PodContext, "plan">) {
  refuseName(stack);
  const { cluster } = plan;
  const context = { stack, plan, images };
  const tier = plan.tier === "cpu" ? cpuParts({ ...context, plan }) : gpuParts({ ...context, plan });
  const gateway = gatewayServer(context);
  const servers = [...tier.models, ...(tier.encoders === null ? [] : [tier.encoders]), gateway];
  const parts = {
    ...tier,
    gateway,
    /** Models and encoders, and the gateway as the last. */
    servers,
    databases: databases(context),
    images,
    autoscalers: autoscalers(stack, plan, servers),
  };
  // All pods at a time, those of servers twice, since old pods may still end while all new pods run.
  const pods = [
    ...servers.map(({ pod, maxReplicas }) => ({ ...pod, count: 2 * maxReplicas })),
    ...parts.prePulls.map(({ pod, nodes }) => ({ ...pod, count: nodes })),
    ...[...parts.databases, ...parts.builds].map(({ pod }) => ({ ...pod, count: 1 })),
  ];
  // Claims of databases outlive them: those of `mock` still exist when `container` creates its own.
  const claims = 2 * parts.databases.length + (parts.store?.object == null ? 0 : 1);
  const { name, isCreated } = cluster.namespace;
  return {
    ...parts,
    /** Context of the kubeconfig; null: the current one. */
    context: cluster.context,
    labels: objectLabels(stack),
    /** Labels of all pods of the stack. */
    selector: podSelector(stack),
    /** `object` is null if the namespace exists already. */
    namespace: { name, object: isCreated ? namespaceObject(stack, plan) : null },
    /** Whether `down` leaves the namespace, the engine store and the databases. */
    isRetained: isRetained(stack, cluster),
    quota: isCreated ? quota(stack, pods, claims) : null,
    priorities: priorities(stack, plan),
    /** Names of Secrets of the type kubernetes.io/dockerconfigjson. */
    imagePullSecrets: cluster.imagePullSecrets,
    ...gatewayAccess(stack, plan),
    /** Hashes of API keys; null: the stack has no keys. */
    apiKeys: apiKeysSecret(stack, plan),
    secretProviders: secretProviders(stack, plan),
    bucketAccount: bucketAccount(stack, plan),
    policies: networkPolicies(stack, plan),
    /** null if Prometheus does not scrape the stack. */
    monitoring: monitoringPlan({ stack, plan, ...parts }),
    endpoints: clusterEndpoints(plan),
    /** For users of any cluster; `ownerNotes` are for the owner of one that the stack did not make. */
    notes: clusterNotes(plan) as readonly string[],
  };
}

function gpuParts(context: GpuContext) {
  const jobs = builds(context);
  return {
    builds: jobs,
    models: context.plan.models.map((model) => modelServer(context, model, jobs)),
    encoders: encodersServer(context, jobs),
    /** Claim of weights and engines; null if nothing is built. */
    store: engineStore(context),
    /** DaemonSets that keep an image on every node of a pool. */
    prePulls: prePulls(context),
  };
}

function cpuParts(context: PodContext<ClusterCpuPlan>) {
  return {
    builds: [],
    models: context.plan.models.map((model) => cpuServer(context, model)),
    encoders: cpuServer(context, null),
    store: null,
    prePulls: [],
  };
}

/** https://kubernetes.io/docs/concepts/security/pod-security-standards/ */
const POD_SECURITY: Readonly<Record<string, string>> = Object.fromEntries(
  ["audit", "enforce", "warn"].map((mode) => [`pod-security.kubernetes.io/${mode}`, "restricted"]),
);

function namespaceObject(stack: string, { cluster: { namespace } }: ClusterPlan): ApiObject<"Namespace"> {
  return {
    kind: "Namespace",
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
        "Labels contain it, and Kubernetes allows at most 63 letters, digits, `_`, `.` and `-`, with a letter or digit at both ends.",
      fix: "Give the stack another name with `--stack`.",
    },
  ]);
}
