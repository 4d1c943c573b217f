/** `platform: kubernetes`: the whole service in any cluster that a kubeconfig reaches, and in a cluster that a stack creates. */
import type { Service } from "@pulumi/kubernetes/core/v1/service.js";
import { Provider } from "@pulumi/kubernetes/provider.js";
import * as pulumi from "@pulumi/pulumi";
import { Build } from "../../components/kubernetes/build.ts";
import { Database } from "../../components/kubernetes/database.ts";
import { EngineStore } from "../../components/kubernetes/engine-store.ts";
import { ImagePrePull } from "../../components/kubernetes/image-pre-pull.ts";
import { Monitoring } from "../../components/kubernetes/monitoring.ts";
import { Namespace } from "../../components/kubernetes/namespace.ts";
import {
  Autoscaler,
  NetworkPolicies,
  PriorityClasses,
  SecretProvider,
} from "../../components/kubernetes/objects.ts";
import { Secrets } from "../../components/kubernetes/secrets.ts";
import { Server, type ServerArgs, type ServerRole } from "../../components/kubernetes/server.ts";
import { planClusterImages } from "../image-inputs.ts";
import type { DeployedStack } from "../outputs.ts";
import { SECRET_PATHS, type SecretName } from "../plan/docker/types.ts";
import { kubernetesStack } from "../plan/kubernetes/kubernetes-stack.ts";
import type { KubernetesStack, PodPlan, ServerPlan } from "../plan/kubernetes/types.ts";
import type { ClusterPlan } from "../plan/stack-plan.ts";
import { clusterOutputs } from "../plan-outputs.ts";
import { found, leaveOutStackTraces, refuseUnpulled, secretValues } from "./program.ts";

/**
 * Registers the resources of a stack in a cluster.
 *
 * @throws ConfigError as {@link plannedObjects}.
 */
export function deploy(plan: ClusterPlan): DeployedStack {
  const stack = plannedObjects(plan);
  deployCluster(stack);
  return clusterOutputs(plan, stack);
}

/**
 * Objects of a stack, with images of the lock file.
 *
 * @throws ConfigError where an image has no digest. A preview shows such a stack all the same, and warns: its images can be
 * made after it was looked at.
 */
export function plannedObjects(plan: ClusterPlan): KubernetesStack {
  leaveOutStackTraces();
  const { images, problems } = planClusterImages(plan);
  refuseUnpulled(problems);
  return kubernetesStack(plan, { stack: pulumi.getStack(), images });
}

interface ClusterArgs {
  /** Absent: those of the stack file. */
  readonly secrets?: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
  /** Absent: a cluster that the user's kubeconfig reaches. */
  readonly made?: MadeCluster;
}

/** A cluster that the stack creates. */
export interface MadeCluster {
  readonly kubeconfig: pulumi.Input<string>;
  /** Identity of the cluster for the provider, whatever changes of its address. */
  readonly identifier: pulumi.Input<string>;
  /** Its objects are deleted with it. */
  readonly cluster: pulumi.Resource;
  /** What must be there before the first object: machines, add-ons, definitions of custom resources. */
  readonly after: readonly pulumi.Resource[];
  /**
   * Puts the gateway's Service behind a load balancer.
   *
   * @param provider - Provider of the workloads, which comes after the cluster's own add-ons.
   * @returns What must be there before the gateway's pods.
   */
  readonly bindGateway?: (service: Service, provider: Provider) => readonly pulumi.Resource[];
}

/** Registers every object of a stack. */
export function deployCluster(stack: KubernetesStack, { secrets: given, made }: ClusterArgs = {}): void {
  const { cluster, adopting } = providers(stack, made);
  // Children inherit it in the engine. Databases are deleted before the cluster, so that their disks are deleted too.
  const opts = {
    providers: { kubernetes: cluster },
    ...(made === undefined ? {} : { deletedWith: made.cluster }),
  };
  const deletedFirst = { providers: { kubernetes: cluster } };

  const namespace = new Namespace("namespace", { ...stack, adopting }, opts).namespaceName;
  const policies = new NetworkPolicies("policies", { ...stack, namespace }, opts);
  const priorities = new PriorityClasses("priorities", stack, opts);
  const references = podsOf(stack).flatMap(({ secretFiles }) => Object.values(secretFiles));
  const named = references.flatMap(({ from }) => from ?? []);
  const values = given ?? secretValues(SECRET_PATHS, named);
  const secrets = new Secrets("secrets", { ...stack, references, values, namespace }, opts);
  /** Only what the pod itself needs: with 50 models that depend on everything, the engine would keep thousands of edges. */
  const before = ({ role, template, secretFiles }: PodPlan): readonly pulumi.Resource[] =>
    [
      ...policies.of(role),
      priorities.classes[template.spec?.priorityClassName ?? ""],
      ...Object.values(secretFiles).flatMap(({ name, provider }) =>
        provider === undefined ? secrets.secrets[name] : secretProviders.get(provider.className),
      ),
    ].filter((resource) => resource !== undefined);
  // Servers hold the claim until the cluster is deleted, so that it can't be deleted first.
  const store =
    stack.store === null
      ? []
      : new EngineStore("store", { ...stack, store: stack.store, namespace, adopting }, opts).claims;
  const secretProviders = new Map(
    stack.secretProviders.map((provider) => {
      const { name } = provider.providerClass.metadata;
      return [name, new SecretProvider(name, { ...provider, namespace }, opts).resources];
    }),
  );

  const builds = new Map(
    stack.builds.map((plan) => {
      const after = [...before(plan.pod), ...store];
      return [plan.name, new Build(plan.name, { plan, namespace, after }, opts).job];
    }),
  );
  const deployments = new Map<string, pulumi.Resource>();
  const addServer = (role: ServerRole, plan: ServerPlan, args: Partial<ServerArgs> = {}) => {
    const stored = role === "gateway" ? [] : [...store, ...plan.after.map((name) => found(builds, name))];
    const after = [...before(plan.pod), ...stored];
    const { deployment } = new Server(
      role,
      plan.name,
      { plan, namespace, secretUids: secrets.uids, after, ...args },
      opts,
    );
    deployments.set(plan.name, deployment);
  };
  for (const plan of stack.models) addServer("triton", plan);
  if (stack.encoders !== null) addServer("encoders", stack.encoders);
  for (const plan of stack.databases)
    new Database(plan.name, { plan, namespace, after: before(plan.pod) }, deletedFirst);
  for (const plan of stack.prePulls)
    new ImagePrePull(plan.name, { plan, namespace, after: before(plan.pod) }, opts);
  addServer("gateway", stack.gateway, {
    ingress: stack.ingress,
    route: stack.route,
    beforePods: (service) => made?.bindGateway?.(service, cluster) ?? [],
  });
  if (stack.monitoring !== null) new Monitoring("monitoring", { plan: stack.monitoring, namespace }, opts);
  for (const plan of stack.autoscalers)
    new Autoscaler(
      `${plan.name}-autoscaler`,
      { plan, namespace, after: found(deployments, plan.name) },
      opts,
    );
}

/**
 * Two providers of the same cluster. Only the second takes over objects that exist: those that an earlier `down` left. Every
 * other object that exists belongs to another owner.
 */
function providers({ context }: KubernetesStack, made: MadeCluster | undefined) {
  const args =
    made === undefined
      ? { context: context ?? undefined }
      : { kubeconfig: made.kubeconfig, clusterIdentifier: made.identifier };
  // Resources of a provider come after its own dependencies.
  const opts = { dependsOn: [...(made?.after ?? [])] };
  return {
    // Fields of the stack file that others have changed, such as the number of a model's servers, are changed back.
    cluster: new Provider("cluster", { ...args, enablePatchForce: true }, opts),
    adopting: new Provider("cluster-adopting", { ...args, upsertExistingObjects: true }, opts),
  };
}

function podsOf({ builds, models, encoders, databases, gateway }: KubernetesStack): readonly PodPlan[] {
  return [...builds, ...models, ...(encoders === null ? [] : [encoders]), ...databases, gateway].map(
    ({ pod }) => pod,
  );
}
