/** Keeps an image on every machine of a pool. Cost: the image's disk on each; a release of Triton takes about 20 GB. */
import { DaemonSet } from "@pulumi/kubernetes/apps/v1/daemonSet.js";
import * as pulumi from "@pulumi/pulumi";
import type { PrePullPlan } from "../../infra/plan/kubernetes/types.ts";
import { podTemplate, type WorkloadArgs } from "./pod-args.ts";

interface ImagePrePullArgs extends WorkloadArgs {
  readonly plan: PrePullPlan;
}

export class ImagePrePull extends pulumi.ComponentResource {
  readonly daemonSet: DaemonSet;

  constructor(name: string, args: ImagePrePullArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:ImagePrePull", name, {}, opts);

    const { plan, namespace, after } = args;
    this.daemonSet = new DaemonSet(
      `${name}-set`,
      {
        metadata: {
          name: plan.name,
          namespace,
          labels: { ...plan.pod.labels },
          // Nothing waits for it: a machine that has not got the image yet pulls it for whoever comes.
          annotations: { "pulumi.com/skipAwait": "true" },
        },
        spec: {
          selector: { matchLabels: { ...plan.pod.selector } },
          // All machines at a time.
          updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: "100%" } },
          template: podTemplate(plan.pod, args),
        },
      },
      { parent: this, dependsOn: [...after] },
    );
    this.registerOutputs({});
  }
}
