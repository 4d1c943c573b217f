/** The claim that keeps weights and engines. Cost: its storage; it takes twice a model's weights. `down` may leave it. */
import { PersistentVolumeClaim } from "@pulumi/kubernetes/core/v1/persistentVolumeClaim.js";
import * as pulumi from "@pulumi/pulumi";
import type { StorePlan } from "../../infra/plan/kubernetes/types.ts";
import { keptAnnotations } from "./objects.ts";

interface EngineStoreArgs {
  readonly plan: StorePlan;
  readonly namespace: pulumi.Input<string>;
  /** Takes what an earlier stack left for its own. */
  readonly adopting: pulumi.ProviderResource;
}

export class EngineStore extends pulumi.ComponentResource {
  /** What must be there before a pod mounts it; undefined where it was there before. */
  readonly claim: PersistentVolumeClaim | undefined;

  constructor(name: string, args: EngineStoreArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:EngineStore", name, {}, opts);

    this.claim = this.#createClaim(name, args);
    this.registerOutputs({ claimName: args.plan.claim });
  }

  #createClaim(
    name: string,
    { plan: { claim, creation }, namespace, adopting }: EngineStoreArgs,
  ): PersistentVolumeClaim | undefined {
    if (creation === null) return undefined;
    const { labels, isRetained, storageClass, volume, accessMode, sizeGiB } = creation;
    return new PersistentVolumeClaim(
      `${name}-claim`,
      {
        metadata: {
          name: claim,
          namespace,
          labels: { ...labels },
          // A class that waits for its first pod leaves it pending, and one that was left is bound already: of such a
          // class the provider only takes the first for ready. The builds that mount it tell what is wrong with it.
          annotations: { ...keptAnnotations(), "pulumi.com/skipAwait": "true" },
        },
        spec: {
          accessModes: [accessMode],
          ...(storageClass === null ? {} : { storageClassName: storageClass }),
          ...(volume === null ? {} : { volumeName: volume }),
          resources: { requests: { storage: `${sizeGiB}Gi` } },
        },
      },
      { parent: this, provider: adopting, retainOnDelete: isRetained },
    );
  }
}
