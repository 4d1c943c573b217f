/** The namespace of a stack, with its quota. Cost: none. `down` leaves it with its claims, or takes all that is in it. */
import { Namespace as NamespaceObject } from "@pulumi/kubernetes/core/v1/namespace.js";
import { ResourceQuota } from "@pulumi/kubernetes/core/v1/resourceQuota.js";
import * as pulumi from "@pulumi/pulumi";
import type { NamespacePlan, QuotaPlan } from "../../infra/plan/kubernetes/types.ts";
import { keptAnnotations } from "./objects.ts";

interface NamespaceArgs {
  readonly plan: NamespacePlan;
  readonly quota: QuotaPlan | null;
  /** Takes what an earlier stack left for its own. */
  readonly adopting: pulumi.ProviderResource;
}

export class Namespace extends pulumi.ComponentResource {
  /** Known by name where it was there before. */
  readonly namespaceName: pulumi.Output<string>;

  constructor(
    name: string,
    { plan, quota, adopting }: NamespaceArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:kubernetes:Namespace", name, {}, opts);

    this.namespaceName = plan.isCreated
      ? this.#createNamespace(name, plan, adopting).metadata.name
      : pulumi.output(plan.name);
    if (quota !== null) this.#createQuota(name, quota);
    this.registerOutputs({ namespaceName: this.namespaceName });
  }

  #createNamespace(name: string, plan: NamespacePlan, adopting: pulumi.ProviderResource): NamespaceObject {
    return new NamespaceObject(
      `${name}-namespace`,
      { metadata: { name: plan.name, labels: { ...plan.labels }, annotations: keptAnnotations() } },
      // Whatever is in it goes with it: engines, documents.
      { parent: this, provider: adopting, retainOnDelete: plan.isRetained },
    );
  }

  #createQuota(name: string, { name: quotaName, labels, hard }: QuotaPlan): ResourceQuota {
    return new ResourceQuota(
      `${name}-quota`,
      {
        metadata: { name: quotaName, namespace: this.namespaceName, labels: { ...labels } },
        spec: { hard: { ...hard } },
      },
      { parent: this },
    );
  }
}
