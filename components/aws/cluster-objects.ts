/**
 * Objects of a cluster on EKS that other clusters lack: charts, storage, and the gateway's binding to the load balancer. Cost: the disk of
 * Prometheus, about 4 USD a month.
 */
import { CustomResource } from "@pulumi/kubernetes/apiextensions/customResource.js";
import { PersistentVolume } from "@pulumi/kubernetes/core/v1/persistentVolume.js";
import { Release } from "@pulumi/kubernetes/helm/v3/release.js";
import { StorageClass } from "@pulumi/kubernetes/storage/v1/storageClass.js";
import * as pulumi from "@pulumi/pulumi";
import { CHART_SECONDS, type ChartPlan, clusterStorage } from "../../infra/plan/aws/cluster-software.ts";
import type { AwsContext, clusterWideNames } from "../../infra/plan/aws/context.ts";
import { filled } from "../../infra/plan/aws/data-files.ts";
import type { Labels } from "../../infra/plan/kubernetes/objects.ts";
import { WorkloadRole } from "./workload-role.ts";

interface ChartsArgs {
  readonly context: AwsContext;
  readonly charts: readonly ChartPlan[];
  readonly clusterName: pulumi.Input<string>;
  readonly vpcId: pulumi.Input<string>;
  /** Image tag of the autoscaler for an existing cluster; absent: that of the plan. */
  readonly autoscalerTag?: pulumi.Input<string> | undefined;
  /**
   * Releases are deleted with it; null when the cluster remains. The component itself is not, because its children would inherit that, and
   * roles are outside the cluster.
   */
  readonly cluster: pulumi.Resource | null;
  /** Machines and the class of disks. */
  readonly after: readonly pulumi.Resource[];
}

/** Resources of a chart's own kinds depend on this component: monitors, scaled objects, bindings. */
export class Charts extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, charts, clusterName, vpcId, autoscalerTag, cluster, after }: ChartsArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:Charts", name, {}, opts);

    for (const { name: chart, args, role: plan, hasDisk } of charts) {
      const release = `${name}-${chart}`;
      const role =
        plan === null
          ? []
          : [new WorkloadRole(`${release}-role`, { context, plan, clusterName }, { parent: this })];
      new Release(
        release,
        {
          ...args,
          values: filled(args.values, { clusterName, vpcId, autoscalerTag }),
          createNamespace: true,
          // A release that fails is rolled back, and the next `up` installs it again.
          atomic: true,
          skipAwait: false,
          waitForJobs: true,
          timeout: CHART_SECONDS,
        },
        {
          parent: this,
          // A pod gets its role when it starts.
          dependsOn: [...after, ...role],
          // The driver that deletes its disk must still exist.
          ...(hasDisk || cluster === null ? {} : { deletedWith: cluster }),
        },
      );
    }
    this.registerOutputs({});
  }
}

interface ClusterStorageArgs {
  readonly context: AwsContext;
  readonly names: ReturnType<typeof clusterWideNames>;
  /** `fs-…::fsap-…`: the file system and its access point. */
  readonly volumeHandle: pulumi.Input<string>;
  readonly labels: Labels;
}

/** Disks for databases, and the volume of the engine store's file system. */
export class ClusterStorage extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, names, volumeHandle, labels }: ClusterStorageArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:ClusterStorage", name, {}, opts);

    const { storageClass, engineVolume } = clusterStorage(context, names, { volumeHandle, labels });
    const own = { parent: this, deleteBeforeReplace: true };
    // The API server refuses a change, as when a stack is added to `retain`; existing volumes keep their settings.
    // https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/storage/validation/validation.go (ValidateStorageClassUpdate)
    const replaceOnChanges = ["reclaimPolicy", "volumeBindingMode"];
    new StorageClass(`${name}-disks`, storageClass, { ...own, replaceOnChanges });
    new PersistentVolume(`${name}-engines`, engineVolume, own);
    this.registerOutputs({});
  }
}

interface GatewayBindingArgs {
  readonly namespace: pulumi.Input<string>;
  readonly labels: Labels;
  readonly service: { readonly name: string; readonly port: number };
  readonly targetGroupArn: pulumi.Input<string>;
  readonly vpcId: pulumi.Input<string>;
}

/** Registers the gateway's pods with the stack's load balancer, through the AWS Load Balancer Controller. */
export class GatewayBinding extends pulumi.ComponentResource {
  readonly binding: CustomResource;

  constructor(
    name: string,
    { namespace, labels, service, targetGroupArn, vpcId }: GatewayBindingArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:GatewayBinding", name, {}, opts);

    // https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/targetgroupbinding/targetgroupbinding/
    this.binding = new CustomResource(
      `${name}-binding`,
      {
        apiVersion: "elbv2.k8s.aws/v1beta1",
        kind: "TargetGroupBinding",
        metadata: { name: service.name, namespace, labels },
        spec: { serviceRef: service, targetGroupARN: targetGroupArn, targetType: "ip", vpcID: vpcId },
      },
      // The controller's webhook refuses another group in a binding (`webhooks/elbv2/targetgroupbinding_validator.go`). With the same name,
      // the old binding removes the pods from the old group before its successor registers them with the new group.
      { parent: this, replaceOnChanges: ["spec.targetGroupARN", "spec.vpcID"], deleteBeforeReplace: true },
    );
    this.registerOutputs({});
  }
}
