/** What all builds in a cluster have in common: a Job that `up` waits for. */
import { Job } from "@pulumi/kubernetes/batch/v1/job.js";
import * as pulumi from "@pulumi/pulumi";
import type { BuildPlan } from "../../infra/plan/kubernetes/types.ts";
import { createPodConfig } from "./objects.ts";
import { podTemplate, type WorkloadArgs } from "./pod-args.ts";

export interface BuildJobArgs extends WorkloadArgs {
  readonly plan: BuildPlan;
}

/**
 * The component's name has the key: a new engine is another Job, and the old one goes when all that refers to it has
 * changed. The Job stays when it has ended, so that one that vanished is seen.
 */
export abstract class BuildJob extends pulumi.ComponentResource {
  /** Made when it has ended with success. */
  readonly job: Job;

  protected constructor(
    type: string,
    name: string,
    args: BuildJobArgs,
    opts: pulumi.ComponentResourceOptions | undefined,
  ) {
    super(type, name, {}, opts);

    const { plan, namespace } = args;
    const spec = createPodConfig(`${name}-spec`, { plan: plan.pod, namespace }, { parent: this });
    this.job = this.#createJob(name, args, [...args.after, ...spec]);
    this.registerOutputs({ jobName: this.job.metadata.name });
  }

  #createJob(name: string, args: BuildJobArgs, dependsOn: readonly pulumi.Resource[]): Job {
    const { plan, namespace } = args;
    return new Job(
      `${name}-job`,
      {
        metadata: {
          name: plan.name,
          namespace,
          labels: { ...plan.pod.labels },
          // One that failed is made anew by the next `up`.
          annotations: { "pulumi.com/replaceUnready": "true" },
        },
        spec: {
          // The builder tries again itself what may succeed, such as downloads. To end the Job by exit code instead would
          // leave `up` waiting: of failed Jobs, Pulumi's provider knows this reason and the deadline only.
          backoffLimit: 0,
          activeDeadlineSeconds: plan.deadlineSeconds,
          podFailurePolicy: {
            // Drained, or in the way of something more urgent: no failure of the build.
            rules: [{ action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] }],
          },
          template: podTemplate(plan.pod, args, { isTask: true }),
        },
      },
      {
        parent: this,
        dependsOn: [...dependsOn],
        // Its name stays the same.
        deleteBeforeReplace: true,
        customTimeouts: { create: `${plan.awaitSeconds}s`, update: `${plan.awaitSeconds}s` },
      },
    );
  }
}
