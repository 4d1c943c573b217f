/**
 * A part of a stack in a cluster, such as a server or the network policies: a component with its Kubernetes objects. Cost: that
 * of the pods and claims in it; GPUs of a model for as long as its server runs.
 */
import { CustomResource } from "@pulumi/kubernetes/apiextensions/customResource.js";
import { DaemonSet } from "@pulumi/kubernetes/apps/v1/daemonSet.js";
import { Deployment } from "@pulumi/kubernetes/apps/v1/deployment.js";
import { StatefulSet } from "@pulumi/kubernetes/apps/v1/statefulSet.js";
import { HorizontalPodAutoscaler } from "@pulumi/kubernetes/autoscaling/v2/horizontalPodAutoscaler.js";
import { Job } from "@pulumi/kubernetes/batch/v1/job.js";
import { ConfigMap } from "@pulumi/kubernetes/core/v1/configMap.js";
import { Namespace } from "@pulumi/kubernetes/core/v1/namespace.js";
import { PersistentVolumeClaim } from "@pulumi/kubernetes/core/v1/persistentVolumeClaim.js";
import { ResourceQuota } from "@pulumi/kubernetes/core/v1/resourceQuota.js";
import { Secret } from "@pulumi/kubernetes/core/v1/secret.js";
import { Service } from "@pulumi/kubernetes/core/v1/service.js";
import { ServiceAccount } from "@pulumi/kubernetes/core/v1/serviceAccount.js";
import { Ingress } from "@pulumi/kubernetes/networking/v1/ingress.js";
import { NetworkPolicy } from "@pulumi/kubernetes/networking/v1/networkPolicy.js";
import { PodDisruptionBudget } from "@pulumi/kubernetes/policy/v1/podDisruptionBudget.js";
import { PriorityClass } from "@pulumi/kubernetes/scheduling/v1/priorityClass.js";
import * as pulumi from "@pulumi/pulumi";
import type { CustomObject, Kind } from "../../infra/plan/kubernetes/objects.ts";

const CLASSES: Readonly<Record<Kind, unknown>> = {
  ConfigMap,
  DaemonSet,
  Deployment,
  HorizontalPodAutoscaler,
  Ingress,
  Job,
  Namespace,
  NetworkPolicy,
  PersistentVolumeClaim,
  PodDisruptionBudget,
  PriorityClass,
  ResourceQuota,
  Secret,
  Service,
  ServiceAccount,
  StatefulSet,
};

/** Common part of all classes of the SDK. */
export type ObjectResource = pulumi.CustomResource & Pick<ConfigMap, "metadata">;
type ObjectClass = new (name: string, args: object, opts: pulumi.CustomResourceOptions) => ObjectResource;

export class ObjectGroup extends pulumi.ComponentResource {
  readonly #name: string;

  /** @param type - Last part of the component's type. */
  constructor(type: string, name: string, opts: pulumi.ComponentResourceOptions) {
    super(`engine-room:kubernetes:${type}`, name, {}, opts);
    this.#name = name;
    this.registerOutputs({});
  }

  /**
   * @param suffix - Last part of the resource's name in Pulumi.
   * @param namespace - null for a cluster-wide object.
   */
  add<T extends Pick<CustomObject, "kind" | "metadata">>(
    suffix: string,
    object: T,
    namespace: pulumi.Input<string> | null,
    opts: pulumi.CustomResourceOptions = {},
  ): ObjectResource {
    const metadata = namespace === null ? object.metadata : { ...object.metadata, namespace };
    const { [object.kind as Kind]: known = CustomResource } = CLASSES;
    return new (known as ObjectClass)(
      `${this.#name}-${suffix}`,
      { ...object, metadata },
      { parent: this, ...opts },
    );
  }
}
