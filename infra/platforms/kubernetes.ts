/** `platform: kubernetes`: the whole service in any cluster that a kubeconfig reaches, and in a cluster that a stack creates. */
import type { types } from "@pulumi/kubernetes";
import { Provider } from "@pulumi/kubernetes/provider.js";
import * as pulumi from "@pulumi/pulumi";
import { ObjectGroup, type ObjectResource } from "../../components/kubernetes/object-group.ts";
import { pulledImages } from "../image-inputs.ts";
import { clusterOutputs, type DeployedStack } from "../outputs.ts";
import { ownerNotes } from "../plan/kubernetes/endpoints.ts";
import { type KubernetesStack, kubernetesStack } from "../plan/kubernetes/kubernetes-stack.ts";
import type { PodPlan } from "../plan/kubernetes/pods.ts";
import type { ClusterPlan } from "../plan/stack-plan.ts";
import { found, inPlace, leaveOutStackTraces, type Place, refuseUnpulled, secretValues } from "./program.ts";

/** @throws ConfigError if an image has no digest, as {@link plannedObjects}. */
export function deploy(plan: ClusterPlan, place: Place): DeployedStack {
  const stack = plannedObjects(plan, place);
  deployCluster(stack, place);
  return clusterOutputs(plan, { ...stack, notes: [...ownerNotes(plan), ...stack.notes] });
}

/**
 * Objects of a stack, with images of the lock file.
 *
 * @throws ConfigError if an image has no digest. A preview shows such a stack all the same, and warns: its images can be
 * made after it was looked at.
 */
export function plannedObjects(plan: ClusterPlan, place: Place): KubernetesStack {
  leaveOutStackTraces(place);
  const { images, problems } = pulledImages(plan);
  refuseUnpulled(problems);
  return kubernetesStack(plan, { stack: place.name, images });
}

/** A cluster that the stack creates, or finds in its account. */
export interface MadeCluster {
  readonly kubeconfig: pulumi.Input<string>;
  /** Identity of the cluster for the provider, whatever changes of its address. */
  readonly identifier: pulumi.Input<string>;
  /** Its objects are deleted with it; null: it stays. */
  readonly cluster: pulumi.Resource | null;
  /** Dependencies of all objects: machines, add-ons, definitions of custom resources. */
  readonly after: readonly pulumi.Resource[];
  /**
   * Puts the gateway's Service behind a load balancer.
   *
   * @param provider - Provider of the workloads, which comes after the cluster's own add-ons.
   * @returns Dependencies of the gateway's pods.
   */
  readonly bindGateway?: (service: pulumi.Resource, provider: Provider) => readonly pulumi.Resource[];
}

/** Makes a part of a stack. @param options - By default those of the cluster's parts. */
type Part = (type: string, name: string, options?: pulumi.ComponentResourceOptions) => ObjectGroup;

/**
 * Registers every object of a stack.
 *
 * @param made - Absent: a cluster that the user's kubeconfig reaches.
 * @returns All parts.
 */
export function deployCluster(
  stack: KubernetesStack,
  place: Place,
  made?: MadeCluster,
): readonly pulumi.Resource[] {
  const { cluster, adopting } = providers(stack, place, made);
  // Children inherit it in the engine. Databases are deleted before the cluster, so that their disks are deleted too.
  const deletedFirst = { ...inPlace(place), providers: { kubernetes: cluster } };
  const opts = { ...deletedFirst, ...(made?.cluster == null ? {} : { deletedWith: made.cluster }) };
  const parts: ObjectGroup[] = [];
  const part: Part = (type, name, options = opts) => {
    const group = new ObjectGroup(type, name, options);
    parts.push(group);
    return group;
  };
  // Takes over what an earlier stack left: engines, documents.
  const left = { provider: adopting, retainOnDelete: stack.isRetained };

  const namespaceGroup = part("Namespace", "namespace");
  const namespace =
    stack.namespace.object === null
      ? pulumi.output(stack.namespace.name)
      : namespaceGroup.add("namespace", stack.namespace.object, null, left).metadata.name;
  if (stack.quota !== null) namespaceGroup.add("quota", stack.quota, namespace);

  const policyGroup = part("NetworkPolicies", "policies");
  const policies = stack.policies.map(({ role, resource, policy }) => ({
    role,
    resource: policyGroup.add(resource, policy, namespace),
  }));
  const priorityGroup = part("PriorityClasses", "priorities");
  const priorities = new Map(
    stack.priorities.map((priority) => {
      const { name } = priority.metadata;
      // The API refuses to change these, which the provider does not know; pods keep the value of their creation.
      const options = { replaceOnChanges: ["value", "preemptionPolicy"], deleteBeforeReplace: true };
      return [name, priorityGroup.add(name, priority, null, options)];
    }),
  );
  const secrets = deploySecrets(stack, place, namespace, part);
  for (const { account, providerClass } of stack.secretProviders) {
    const { name } = providerClass.metadata;
    const group = part("SecretProvider", name);
    secrets.set(name, [
      group.add("account", account, namespace),
      group.add("class", providerClass, namespace),
    ]);
  }
  const account = stack.bucketAccount;
  if (account !== null)
    secrets.set(account.metadata.name, [
      part("BuildAccount", account.metadata.name).add("account", account, namespace),
    ]);
  // Servers hold the claim until the cluster is deleted, so that it can't be deleted first.
  const store: pulumi.Resource[] = [];
  if (stack.store !== null) {
    const group = part("EngineStore", "store");
    if (stack.store.object !== null) store.push(group.add("claim", stack.store.object, namespace, left));
  }

  /** Dependencies of the pod itself: 50 models that depend on all objects would be thousands of edges in the engine. */
  const before = ({ role, template, secretFiles }: PodPlan): readonly pulumi.Resource[] =>
    [
      ...policies.flatMap((policy) => (policy.role === null || policy.role === role ? policy.resource : [])),
      priorities.get(template.spec.priorityClassName ?? ""),
      ...Object.values(secretFiles).flatMap(
        ({ name, provider }) => secrets.get(provider?.className ?? name) ?? [],
      ),
      ...(secrets.get(template.spec.serviceAccountName ?? "") ?? []),
    ].filter((resource) => resource !== undefined);
  /** A ConfigMap's name has a hash of its content, so that the new ConfigMap exists before the old is deleted. */
  const addConfig = (group: ObjectGroup, suffix: string, { config }: PodPlan) =>
    config === null ? [] : [group.add(suffix, config, namespace)];

  const builds = new Map(
    stack.builds.map((plan) => {
      const group = part(found(TYPES, plan.pod.role), plan.name);
      const after = [...before(plan.pod), ...store, ...addConfig(group, "spec", plan.pod)];
      // Its name stays the same.
      const options = { dependsOn: after, deleteBeforeReplace: true, ...awaited(plan) };
      return [plan.name, group.add("job", plan.job, namespace, options)];
    }),
  );
  const deployments = new Map<string, pulumi.Resource>();
  for (const plan of stack.servers) {
    const { name, pod, replicas } = plan;
    const isGateway = plan === stack.gateway;
    const group = part(found(TYPES, pod.role), name);
    const config = addConfig(group, "config", pod);
    const service = group.add("service", plan.service, namespace);
    const bound = isGateway ? (made?.bindGateway?.(service, cluster) ?? []) : store;
    const { spec, ...deployment } = plan.deployment;
    const template = restartingTemplate(pod, secrets);
    deployments.set(
      name,
      group.add("deployment", { ...deployment, spec: { ...spec, template } }, namespace, {
        dependsOn: [...before(pod), ...bound, ...plan.after.map((build) => found(builds, build)), ...config],
        // A field that is left out becomes 1, unless another owner has set it: an autoscaler takes over the number.
        ...(replicas === null ? { ignoreChanges: ["spec.replicas"] } : {}),
        ...awaited(plan),
      }),
    );
    group.add("budget", plan.budget, namespace);
    const behind = { dependsOn: [service] };
    if (isGateway && stack.ingress !== null) group.add("ingress", stack.ingress, namespace, behind);
    if (isGateway && stack.route !== null) group.add("route", stack.route, namespace, behind);
  }
  for (const plan of stack.databases) {
    const group = part("Database", plan.name, deletedFirst);
    const service = group.add("service", plan.service, namespace);
    group.add("set", plan.statefulSet, namespace, {
      dependsOn: [...before(plan.pod), service],
      // Its name stays the same, and its claim is not its own.
      deleteBeforeReplace: true,
      ...awaited(plan),
    });
  }
  for (const { name, pod, daemonSet } of stack.prePulls)
    part("ImagePrePull", name).add("set", daemonSet, namespace, {
      dependsOn: [...before(pod)],
    });
  if (stack.monitoring !== null) {
    const { monitors, rules, dashboards } = stack.monitoring;
    const group = part("Monitoring", "monitoring");
    for (const object of [...monitors, ...dashboards]) group.add(object.metadata.name, object, namespace);
    group.add("rules", rules, namespace);
  }
  for (const { name, mechanism, object } of stack.autoscalers)
    part("Autoscaler", `${name}-autoscaler`).add(
      mechanism === "keda" ? "scaled-object" : "horizontal",
      object,
      namespace,
      { dependsOn: [found(deployments, name)] },
    );
  return parts;
}

/** Types of the components of builds and servers. */
const TYPES: ReadonlyMap<PodPlan["role"], string> = new Map([
  ["engineBuild", "EngineBuild"],
  ["encoderBuild", "EncoderBuild"],
  ["triton", "TritonServer"],
  ["encoders", "Encoders"],
  ["gateway", "Gateway"],
]);

/** Limits of the wait for a workload. */
function awaited({ awaitSeconds }: { readonly awaitSeconds: number }): pulumi.CustomResourceOptions {
  const limit = `${awaitSeconds}s`;
  return { customTimeouts: { create: limit, update: limit } };
}

/** By name of the Secret, or of the SecretProviderClass: dependencies of pods that mount it. */
type MountedSecrets = Map<string, readonly ObjectResource[]>;

/** Secrets with values of the stack file, and with hashes of API keys. */
function deploySecrets(
  { apiKeys, builds, servers, databases, labels }: KubernetesStack,
  place: Place,
  namespace: pulumi.Input<string>,
  part: Part,
): MountedSecrets {
  const workloads = [...builds, ...servers, ...databases];
  const references = workloads.flatMap(({ pod }) => Object.values(pod.secretFiles));
  const named = new Map(references.flatMap(({ from, ...secret }) => (from === null ? [] : [[from, secret]])));
  const values = secretValues(place, named.keys());
  const group = part("Secrets", "secrets");
  const secrets: MountedSecrets = new Map();
  if (apiKeys !== null) secrets.set(apiKeys.metadata.name, [group.add("api-keys", apiKeys, namespace)]);
  for (const [from, { name, key }] of named) {
    const content = { immutable: true, type: "Opaque", stringData: { [key]: values[from] } };
    const object = { kind: "Secret", metadata: { name, labels }, ...content };
    // Its name stays the same.
    secrets.set(name, [group.add(name, object, namespace, { deleteBeforeReplace: true })]);
  }
  return secrets;
}

/** Template of pods that are replaced when a secret of theirs has changed: another value is another Secret, with another uid. */
function restartingTemplate(
  { template, secretFiles }: PodPlan,
  secrets: MountedSecrets,
): types.input.core.v1.PodTemplateSpec {
  const uids = Object.values(secretFiles)
    .filter(({ from }) => from !== null)
    .flatMap(({ name }) => found(secrets, name).map(({ metadata }) => metadata.uid));
  if (uids.length === 0) return template;
  const annotations = { "engine-room/secrets": pulumi.all(uids).apply((all) => all.join(" ")) };
  return { ...template, metadata: { ...template.metadata, annotations } };
}

/**
 * Two providers of the same cluster. Only the second takes over objects that exist: those that an earlier `down` left. Every
 * other object that exists belongs to another owner.
 */
function providers({ context }: KubernetesStack, place: Place, made: MadeCluster | undefined) {
  const { kubeconfig } = place;
  const args =
    made === undefined
      ? { context: context ?? undefined, ...(kubeconfig === undefined ? {} : { kubeconfig }) }
      : { kubeconfig: made.kubeconfig, clusterIdentifier: made.identifier };
  // Resources of a provider come after its own dependencies.
  const opts = { ...inPlace(place), dependsOn: [...(made?.after ?? [])] };
  return {
    // Fields of the stack file that others have changed, such as the number of a model's servers, are changed back.
    cluster: new Provider("cluster", { ...args, enablePatchForce: true }, opts),
    adopting: new Provider("cluster-adopting", { ...args, upsertExistingObjects: true }, opts),
  };
}
