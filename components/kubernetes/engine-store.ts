/** The claim that keeps weights and engines. Cost: its storage; it takes twice a model's weights. `down` may leave it. */
import { PersistentVolumeClaim } from "@pulumi/kubernetes/core/v1/persistentVolumeClaim.js";
import * as pulumi from "@pulumi/pulumi";
import type { KubernetesStack } from "../../infra/plan/kubernetes/types.ts";
import { inNamespace } from "./workload.ts";

interface EngineStoreArgs {
  readonly store: NonNullable<KubernetesStack["store"]>;
  readonly isRetained: boolean;
  readonly namespace: pulumi.Input<string>;
  /** Takes over what an earlier stack left. */
  readonly adopting: pulumi.ProviderResource;
}

export class EngineStore extends pulumi.ComponentResource {
  /** What must be there before a pod mounts it; none where the claim was there before. */
  readonly claims: readonly pulumi.Resource[];

  constructor(
    name: string,
    { store: { claim, object }, isRetained, namespace, adopting }: EngineStoreArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:kubernetes:EngineStore", name, {}, opts);

    const options = { parent: this, provider: adopting, retainOnDelete: isRetained };
    this.claims =
      object === null
        ? []
        : [new PersistentVolumeClaim(`${name}-claim`, inNamespace(object, namespace), options)];
    this.registerOutputs({ claimName: claim });
  }
}
