/**
 * A Job that `up` waits for: it builds the TensorRT engine of one model into the store, unless it is there, or the encoders'
 * models. Cost: minutes to hours of a pool's GPUs.
 */
import { Job } from "@pulumi/kubernetes/batch/v1/job.js";
import * as pulumi from "@pulumi/pulumi";
import type { BuildPlan } from "../../infra/plan/kubernetes/types.ts";
import { awaited, createConfig, inNamespace, type WorkloadArgs } from "./workload.ts";

interface BuildArgs extends Omit<WorkloadArgs, "secretUids"> {
  readonly plan: BuildPlan;
}

/**
 * Its name has the key: a new engine is another Job, and the old one goes when all that refers to it has changed. The Job
 * stays when it has ended, so that one that vanished is seen.
 */
export class Build extends pulumi.ComponentResource {
  /** Created when it has succeeded. */
  readonly job: Job;

  constructor(name: string, { plan, namespace, after }: BuildArgs, opts?: pulumi.ComponentResourceOptions) {
    const isEngine = plan.pod.role === "engineBuild";
    super(`engine-room:kubernetes:${isEngine ? "EngineBuild" : "EncoderBuild"}`, name, {}, opts);

    const spec = createConfig(`${name}-spec`, plan.pod, namespace, this);
    this.job = new Job(`${name}-job`, inNamespace(plan.job, namespace), {
      parent: this,
      dependsOn: [...after, ...spec],
      // Its name stays the same.
      deleteBeforeReplace: true,
      customTimeouts: awaited(plan.awaitSeconds),
    });
    this.registerOutputs({ jobName: this.job.metadata.name });
  }
}
