/** A secret of a cloud, as a file of the pods that read it. Cost: none. Needs the Secrets Store CSI driver and its provider. */
import { CustomResource } from "@pulumi/kubernetes/apiextensions/customResource.js";
import { ServiceAccount } from "@pulumi/kubernetes/core/v1/serviceAccount.js";
import * as pulumi from "@pulumi/pulumi";
import { stringify } from "yaml";
import type { SecretProviderPlan } from "../../infra/plan/kubernetes/types.ts";

interface SecretProviderArgs {
  readonly plan: SecretProviderPlan;
  readonly namespace: pulumi.Input<string>;
}

export class SecretProvider extends pulumi.ComponentResource {
  /** What must be there before a pod mounts it. */
  readonly resources: readonly pulumi.Resource[];

  constructor(name: string, args: SecretProviderArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:SecretProvider", name, {}, opts);

    this.resources = [this.#createServiceAccount(name, args), this.#createClass(name, args)];
    this.registerOutputs({});
  }

  #createServiceAccount(name: string, { plan, namespace }: SecretProviderArgs): ServiceAccount {
    return new ServiceAccount(
      `${name}-account`,
      {
        metadata: { name: plan.provider.serviceAccount, namespace, labels: { ...plan.labels } },
        automountServiceAccountToken: false,
      },
      { parent: this },
    );
  }

  #createClass(name: string, { plan, namespace }: SecretProviderArgs): CustomResource {
    return new CustomResource(
      `${name}-class`,
      {
        apiVersion: "secrets-store.csi.x-k8s.io/v1",
        kind: "SecretProviderClass",
        metadata: { name: plan.provider.className, namespace, labels: { ...plan.labels } },
        spec: {
          provider: plan.kind,
          parameters: {
            region: plan.region,
            usePodIdentity: "true",
            // The provider wants its list as a text.
            objects: stringify(
              Object.entries(plan.objects).map(([objectAlias, objectName]) => ({ objectName, objectAlias })),
            ),
          },
        },
      },
      { parent: this },
    );
  }
}
