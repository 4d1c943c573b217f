/** Objects that need each a namespace and a parent, by subject. Cost: none by themselves. */
import { CustomResource } from "@pulumi/kubernetes/apiextensions/customResource.js";
import { HorizontalPodAutoscaler } from "@pulumi/kubernetes/autoscaling/v2/horizontalPodAutoscaler.js";
import { ServiceAccount } from "@pulumi/kubernetes/core/v1/serviceAccount.js";
import { NetworkPolicy } from "@pulumi/kubernetes/networking/v1/networkPolicy.js";
import { PriorityClass } from "@pulumi/kubernetes/scheduling/v1/priorityClass.js";
import * as pulumi from "@pulumi/pulumi";
import type { PodRole } from "../../infra/plan/kubernetes/labels.ts";
import type { AutoscalerPlan, KubernetesStack } from "../../infra/plan/kubernetes/types.ts";
import { inNamespace } from "./workload.ts";

type Options = pulumi.ComponentResourceOptions | undefined;

interface InNamespace {
  readonly namespace: pulumi.Input<string>;
}

/** Needs a network plugin that enforces policies. */
export class NetworkPolicies extends pulumi.ComponentResource {
  readonly #policies: readonly { readonly role: PodRole | null; readonly policy: NetworkPolicy }[];

  constructor(
    name: string,
    { policies, namespace }: Pick<KubernetesStack, "policies"> & InNamespace,
    opts: Options,
  ) {
    super("engine-room:kubernetes:NetworkPolicies", name, {}, opts);

    this.#policies = policies.map(({ role, resource, policy }) => ({
      role,
      policy: new NetworkPolicy(`${name}-${resource}`, inNamespace(policy, namespace), { parent: this }),
    }));
    this.registerOutputs({});
  }

  /** What must be there before a pod of a role starts. */
  of(role: PodRole): readonly NetworkPolicy[] {
    return this.#policies.filter((one) => one.role === null || one.role === role).map(({ policy }) => policy);
  }
}

/** Cluster-wide objects, named after the namespace. */
export class PriorityClasses extends pulumi.ComponentResource {
  /** By name: what must be there before a pod of it is created. */
  readonly classes: Readonly<Record<string, PriorityClass>>;

  constructor(name: string, { priorities }: Pick<KubernetesStack, "priorities">, opts: Options) {
    super("engine-room:kubernetes:PriorityClasses", name, {}, opts);

    this.classes = Object.fromEntries(
      priorities.map((priority) => [
        priority.metadata.name,
        new PriorityClass(`${name}-${priority.metadata.name}`, priority, {
          parent: this,
          // The API refuses to change these, which the provider does not know; pods keep the value of their creation.
          replaceOnChanges: ["value", "preemptionPolicy"],
          deleteBeforeReplace: true,
        }),
      ]),
    );
    this.registerOutputs({});
  }
}

/** A secret of a cloud, as a file of pods. Needs the Secrets Store CSI driver and its provider. */
export class SecretProvider extends pulumi.ComponentResource {
  /** What must be there before a pod mounts it. */
  readonly resources: readonly pulumi.Resource[];

  constructor(
    name: string,
    { account, providerClass, namespace }: KubernetesStack["secretProviders"][number] & InNamespace,
    opts: Options,
  ) {
    super("engine-room:kubernetes:SecretProvider", name, {}, opts);

    const parent = { parent: this };
    this.resources = [
      new ServiceAccount(`${name}-account`, inNamespace(account, namespace), parent),
      new CustomResource(`${name}-class`, inNamespace(providerClass, namespace), parent),
    ];
    this.registerOutputs({});
  }
}

/** Sets the number of pods of a Deployment. `keda` needs KEDA's operator, `hpa` an adapter of metrics. */
export class Autoscaler extends pulumi.ComponentResource {
  constructor(
    name: string,
    {
      plan,
      namespace,
      after,
    }: { readonly plan: AutoscalerPlan; readonly after: pulumi.Resource } & InNamespace,
    opts?: Options,
  ) {
    super("engine-room:kubernetes:Autoscaler", name, {}, opts);

    const options = { parent: this, dependsOn: [after] };
    if (plan.mechanism === "keda")
      new CustomResource(`${name}-scaled-object`, inNamespace(plan.object, namespace), options);
    else new HorizontalPodAutoscaler(`${name}-horizontal`, inNamespace(plan.object, namespace), options);
    this.registerOutputs({});
  }
}
