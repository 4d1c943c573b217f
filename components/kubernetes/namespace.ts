/** The namespace of a stack, with its quota. Cost: none. `down` leaves it with its claims, or deletes all that is in it. */
import { Namespace as NamespaceObject } from "@pulumi/kubernetes/core/v1/namespace.js";
import { ResourceQuota } from "@pulumi/kubernetes/core/v1/resourceQuota.js";
import * as pulumi from "@pulumi/pulumi";
import type { KubernetesStack } from "../../infra/plan/kubernetes/types.ts";
import { inNamespace } from "./workload.ts";

interface NamespaceArgs extends Pick<KubernetesStack, "namespace" | "isRetained" | "quota"> {
  /** Takes over what an earlier stack left. */
  readonly adopting: pulumi.ProviderResource;
}

export class Namespace extends pulumi.ComponentResource {
  readonly namespaceName: pulumi.Output<string>;

  constructor(
    name: string,
    { namespace, isRetained, quota, adopting }: NamespaceArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:kubernetes:Namespace", name, {}, opts);

    this.namespaceName =
      namespace.object === null
        ? pulumi.output(namespace.name)
        : new NamespaceObject(`${name}-namespace`, namespace.object, {
            parent: this,
            provider: adopting,
            // Everything in it goes with it: engines, documents.
            retainOnDelete: isRetained,
          }).metadata.name;
    if (quota !== null)
      new ResourceQuota(`${name}-quota`, inNamespace(quota, this.namespaceName), { parent: this });
    this.registerOutputs({ namespaceName: this.namespaceName });
  }
}
