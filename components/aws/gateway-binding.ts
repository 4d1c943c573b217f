/** Puts the gateway's pods behind the stack's own load balancer. Cost: none. Needs the AWS Load Balancer Controller. */
import { CustomResource } from "@pulumi/kubernetes/apiextensions/customResource.js";
import * as pulumi from "@pulumi/pulumi";
import type { Labels } from "../../infra/plan/kubernetes/pod-types.ts";

interface GatewayBindingArgs {
  readonly namespace: pulumi.Input<string>;
  readonly labels: Labels;
  /** Service of the gateway, and its port. */
  readonly service: { readonly name: string; readonly port: number };
  readonly targetGroupArn: pulumi.Input<string>;
  readonly vpcId: pulumi.Input<string>;
}

export class GatewayBinding extends pulumi.ComponentResource {
  readonly binding: CustomResource;

  constructor(name: string, args: GatewayBindingArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:GatewayBinding", name, {}, opts);

    this.binding = this.#createBinding(name, args);
    this.registerOutputs({});
  }

  /** https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/targetgroupbinding/targetgroupbinding/ */
  #createBinding(
    name: string,
    { namespace, labels, service, targetGroupArn, vpcId }: GatewayBindingArgs,
  ): CustomResource {
    return new CustomResource(
      `${name}-binding`,
      {
        apiVersion: "elbv2.k8s.aws/v1beta1",
        kind: "TargetGroupBinding",
        metadata: { name: service.name, namespace, labels: { ...labels } },
        spec: {
          serviceRef: { name: service.name, port: service.port },
          targetGroupARN: targetGroupArn,
          targetType: "ip",
          vpcID: vpcId,
        },
      },
      // The controller's webhook refuses another group in a binding (`webhooks/elbv2/targetgroupbinding_validator.go`), and the
      // binding's name stays: the old one takes the pods out of the old group, the new one puts them into the new.
      { parent: this, replaceOnChanges: ["spec.targetGroupARN", "spec.vpcID"], deleteBeforeReplace: true },
    );
  }
}
