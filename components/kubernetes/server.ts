/** What all servers in a cluster have in common: a Deployment behind a Service. */
import { Deployment } from "@pulumi/kubernetes/apps/v1/deployment.js";
import type { Service } from "@pulumi/kubernetes/core/v1/service.js";
import { PodDisruptionBudget } from "@pulumi/kubernetes/policy/v1/podDisruptionBudget.js";
import * as pulumi from "@pulumi/pulumi";
import type { Rollout, ServerPlan } from "../../infra/plan/kubernetes/types.ts";
import { createPodConfig, createService } from "./objects.ts";
import { podTemplate, type WorkloadArgs } from "./pod-args.ts";

export interface ServerArgs extends WorkloadArgs {
  readonly plan: ServerPlan;
  /** Makes what needs the Service, and must be there before the pods are. */
  readonly beforePods?: (service: Service) => readonly pulumi.Resource[];
}

const STRATEGIES: Readonly<Record<Rollout, { maxSurge: number; maxUnavailable: number }>> = {
  surge: { maxSurge: 1, maxUnavailable: 0 },
  inPlace: { maxSurge: 0, maxUnavailable: 1 },
};

/** Whoever extends it registers the outputs. */
export abstract class Server extends pulumi.ComponentResource {
  readonly plan: ServerPlan;
  readonly deployment: Deployment;
  readonly service: Service;

  protected constructor(
    type: string,
    name: string,
    args: ServerArgs,
    opts: pulumi.ComponentResourceOptions | undefined,
  ) {
    super(type, name, {}, opts);

    const { plan, namespace } = args;
    this.plan = plan;
    const config = createPodConfig(`${name}-config`, { plan: plan.pod, namespace }, { parent: this });
    this.service = createService(`${name}-service`, { plan: plan.service, namespace }, { parent: this });
    const bound = args.beforePods?.(this.service) ?? [];
    this.deployment = this.#createDeployment(name, args, [...args.after, ...config, ...bound]);
    this.#createBudget(name, args);
  }

  /** Outputs of every server. */
  protected get outputs() {
    return { serviceName: this.service.metadata.name };
  }

  #createDeployment(name: string, args: ServerArgs, dependsOn: readonly pulumi.Resource[]): Deployment {
    const { plan, namespace } = args;
    const { pod, replicas, rollout, progressDeadlineSeconds, awaitSeconds } = plan;
    return new Deployment(
      `${name}-deployment`,
      {
        metadata: { name: plan.name, namespace, labels: { ...pod.labels } },
        spec: {
          ...(replicas === null ? {} : { replicas }),
          selector: { matchLabels: { ...pod.selector } },
          strategy: { type: "RollingUpdate", rollingUpdate: STRATEGIES[rollout] },
          progressDeadlineSeconds,
          template: podTemplate(pod, args),
        },
      },
      {
        parent: this,
        dependsOn: [...dependsOn],
        // A field that is left out becomes 1, unless somebody else has set it: an autoscaler takes over what is there.
        ...(replicas === null ? { ignoreChanges: ["spec.replicas"] } : {}),
        customTimeouts: { create: `${awaitSeconds}s`, update: `${awaitSeconds}s` },
      },
    );
  }

  /** A pod that never becomes ready stops nobody from draining its machine. */
  #createBudget(name: string, { plan, namespace }: ServerArgs): PodDisruptionBudget {
    return new PodDisruptionBudget(
      `${name}-budget`,
      {
        metadata: { name: plan.name, namespace, labels: { ...plan.service.labels } },
        spec: {
          maxUnavailable: plan.maxUnavailable,
          unhealthyPodEvictionPolicy: "AlwaysAllow",
          selector: { matchLabels: { ...plan.pod.selector } },
        },
      },
      { parent: this },
    );
  }
}
