/** Keeps an image on every node of a pool. Cost: the image's disk on each; a release of Triton takes about 20 GB. */
import { DaemonSet } from "@pulumi/kubernetes/apps/v1/daemonSet.js";
import * as pulumi from "@pulumi/pulumi";
import type { PrePullPlan } from "../../infra/plan/kubernetes/types.ts";
import { inNamespace, type WorkloadArgs } from "./workload.ts";

interface ImagePrePullArgs extends Omit<WorkloadArgs, "secretUids"> {
  readonly plan: PrePullPlan;
}

export class ImagePrePull extends pulumi.ComponentResource {
  constructor(
    name: string,
    { plan, namespace, after }: ImagePrePullArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:kubernetes:ImagePrePull", name, {}, opts);

    new DaemonSet(`${name}-set`, inNamespace(plan.daemonSet, namespace), {
      parent: this,
      dependsOn: [...after],
    });
    this.registerOutputs({});
  }
}
