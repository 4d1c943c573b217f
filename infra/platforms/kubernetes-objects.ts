/** Everything that a cluster runs, as components: `platform: kubernetes`, and the upper half of a cloud's cluster. */
import type { Service } from "@pulumi/kubernetes/core/v1/service.js";
import { Provider } from "@pulumi/kubernetes/provider.js";
import type * as pulumi from "@pulumi/pulumi";
import { Autoscaler } from "../../components/kubernetes/autoscaler.ts";
import { Database } from "../../components/kubernetes/database.ts";
import { EncoderBuild } from "../../components/kubernetes/encoder-build.ts";
import { Encoders } from "../../components/kubernetes/encoders.ts";
import { EngineBuild } from "../../components/kubernetes/engine-build.ts";
import { EngineStore } from "../../components/kubernetes/engine-store.ts";
import { Gateway } from "../../components/kubernetes/gateway.ts";
import { ImagePrePull } from "../../components/kubernetes/image-pre-pull.ts";
import { Monitoring } from "../../components/kubernetes/monitoring.ts";
import { Namespace } from "../../components/kubernetes/namespace.ts";
import { NetworkPolicies } from "../../components/kubernetes/network-policies.ts";
import type { WorkloadArgs } from "../../components/kubernetes/pod-args.ts";
import { PriorityClasses } from "../../components/kubernetes/priority-classes.ts";
import { SecretProvider } from "../../components/kubernetes/secret-provider.ts";
import { Secrets } from "../../components/kubernetes/secrets.ts";
import { TritonServer } from "../../components/kubernetes/triton-server.ts";
import type { PodPlan, SecretName, SecretReference } from "../plan/kubernetes/pod-types.ts";
import type { BuildPlan, KubernetesStack, ServerPlan } from "../plan/kubernetes/types.ts";

interface ClusterArgs {
  /** Of all secrets that {@link secretReferences} take from the stack file. */
  readonly secrets: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
  /** Absent: a cluster that the kubeconfig of who runs the program reaches. */
  readonly made?: MadeCluster;
}

/** A cluster that the stack makes itself. */
export interface MadeCluster {
  readonly kubeconfig: pulumi.Input<string>;
  /** By which the provider knows the cluster, whatever else of its address changes. */
  readonly identifier: pulumi.Input<string>;
  /** With it goes what is in it. */
  readonly cluster: pulumi.Resource;
  /** What must be there before the first object: machines, add-ons, definitions of custom resources. */
  readonly after: readonly pulumi.Resource[];
  /**
   * Puts the gateway's Service behind a load balancer.
   *
   * @param provider - The workloads' own: what the cluster runs itself is there before it, and goes after it.
   * @returns What must be there before the gateway's pods.
   */
  readonly bindGateway?: (service: Service, provider: Provider) => readonly pulumi.Resource[];
}

const BUILDS = { engine: EngineBuild, encoders: EncoderBuild } as const satisfies Record<
  BuildPlan["kind"],
  unknown
>;

/** Registers namespace, store, policies, builds and servers. */
export function deployCluster(stack: KubernetesStack, { secrets: values, made }: ClusterArgs): void {
  const { cluster, adopting } = providers(stack, made);
  // Children inherit it in the engine. Claims of databases go before the cluster, so that their disks go too.
  const opts = {
    providers: { kubernetes: cluster },
    ...(made === undefined ? {} : { deletedWith: made.cluster }),
  };
  const firstToGo = { providers: { kubernetes: cluster } };

  const namespace = new Namespace("namespace", { plan: stack.namespace, quota: stack.quota, adopting }, opts)
    .namespaceName;
  const policies = new NetworkPolicies(
    "policies",
    { edges: stack.edges, labels: stack.labels, selector: stack.selector, namespace },
    opts,
  );
  const priorities = new PriorityClasses("priorities", { priorities: stack.priorities }, opts);
  const secrets = new Secrets(
    "secrets",
    {
      references: secretReferences(stack),
      values,
      planned: stack.secrets,
      labels: stack.labels,
      namespace,
    },
    opts,
  );
  const placed: Omit<WorkloadArgs, "after"> = {
    images: stack.images,
    imagePullSecrets: stack.imagePullSecrets,
    secretUids: secrets.uids,
    namespace,
  };
  /** No more than the pod itself needs: of 50 models, each on everything, the engine would keep a list of thousands. */
  const before = ({ role, priorityClass, secretFiles }: PodPlan): readonly pulumi.Resource[] => [
    ...policies.of(role),
    ...present(priorities.classes[priorityClass ?? ""]),
    ...Object.values(secretFiles).flatMap(({ name, provider }) =>
      provider === undefined
        ? present(secrets.secrets[name])
        : (secretProviders.get(provider.className) ?? []),
    ),
  ];
  // Its claim is bound to a volume of the stack's own. Servers that stay to the cluster's end hold it: nobody could delete it first.
  const store = storeOf(stack, { namespace, adopting }, opts);
  const secretProviders = new Map(
    stack.secretProviders.map((plan) => [
      plan.provider.className,
      new SecretProvider(plan.provider.className, { plan, namespace }, opts).resources,
    ]),
  );

  const builds = new Map(
    stack.builds.map((plan) => [
      plan.name,
      new BUILDS[plan.kind](plan.name, { ...placed, plan, after: [...before(plan.pod), ...store] }, opts).job,
    ]),
  );
  const serverArgs = (plan: ServerPlan) => ({
    ...placed,
    plan,
    after: [...before(plan.pod), ...store, ...plan.after.map((name) => found(builds, name))],
  });
  const models = stack.models.map((plan) => new TritonServer(plan.name, serverArgs(plan), opts));
  const encoders =
    stack.encoders === null ? [] : [new Encoders(stack.encoders.name, serverArgs(stack.encoders), opts)];
  for (const plan of stack.databases)
    new Database(plan.name, { ...placed, plan, after: before(plan.pod) }, firstToGo);
  for (const plan of stack.prePulls)
    new ImagePrePull(plan.name, { ...placed, plan, after: before(plan.pod) }, opts);
  const gateway = new Gateway(
    stack.gateway.name,
    {
      ...placed,
      plan: stack.gateway,
      after: before(stack.gateway.pod),
      beforePods: (service) => made?.bindGateway?.(service, cluster) ?? [],
      ingress: stack.ingress,
      route: stack.route,
    },
    opts,
  );
  if (stack.monitoring !== null) new Monitoring("monitoring", { plan: stack.monitoring, namespace }, opts);
  const deployments = new Map(
    [...models, ...encoders, gateway].map(({ plan, deployment }) => [plan.name, deployment]),
  );
  for (const plan of stack.autoscalers)
    new Autoscaler(
      `${plan.name}-autoscaler`,
      { plan, namespace, after: [found(deployments, plan.deployment)] },
      opts,
    );
}

/**
 * Two ways to the same cluster. What `down` leaves is there when the next `up` makes it, which only the second takes for
 * its own; for all else, an object that is there already is somebody else's.
 */
function providers(
  { context }: KubernetesStack,
  made: MadeCluster | undefined,
): {
  readonly cluster: Provider;
  readonly adopting: Provider;
} {
  const args =
    made === undefined
      ? context === null
        ? {}
        : { context }
      : { kubeconfig: made.kubeconfig, clusterIdentifier: made.identifier };
  // Whatever uses a provider comes after what the provider comes after.
  const opts = made === undefined ? {} : { dependsOn: [...made.after] };
  return {
    // Who has changed a field that the stack file decides, such as the number of a model's servers, is overruled.
    cluster: new Provider("cluster", { ...args, enablePatchForce: true }, opts),
    adopting: new Provider("cluster-adopting", { ...args, upsertExistingObjects: true }, opts),
  };
}

function storeOf(
  { store }: KubernetesStack,
  args: { readonly namespace: pulumi.Input<string>; readonly adopting: Provider },
  opts: pulumi.ComponentResourceOptions,
): readonly pulumi.Resource[] {
  if (store === null) return [];
  const { claim } = new EngineStore("store", { plan: store, ...args }, opts);
  return claim === undefined ? [] : [claim];
}

/** Values of the stack file that pods are given. */
export function secretNames(stack: KubernetesStack): readonly SecretName[] {
  return secretReferences(stack).flatMap(({ from }) => (from === null ? [] : [from]));
}

/** Secrets that pods name. */
function secretReferences(stack: KubernetesStack): readonly SecretReference[] {
  return podsOf(stack).flatMap(({ secretFiles }) => Object.values(secretFiles));
}

function podsOf({ builds, models, encoders, databases, gateway }: KubernetesStack): readonly PodPlan[] {
  return [...builds, ...models, ...(encoders === null ? [] : [encoders]), ...databases, gateway].map(
    ({ pod }) => pod,
  );
}

/** For lists that leave out what a stack does not have. */
function present<T>(value: T | undefined): readonly T[] {
  return value === undefined ? [] : [value];
}

function found<Key, Value>(map: ReadonlyMap<Key, Value>, key: Key): Value {
  const value = map.get(key);
  if (value === undefined) throw new Error(`Something of the plan needs ${key}, which is not in it.`);
  return value;
}
