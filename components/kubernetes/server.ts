/** What all servers in a cluster have in common: a Deployment behind a Service. */
import { Deployment } from "@pulumi/kubernetes/apps/v1/deployment.js";
import type { Service } from "@pulumi/kubernetes/core/v1/service.js";
import { PodDisruptionBudget } from "@pulumi/kubernetes/policy/v1/podDisruptionBudget.js";
import * as pulumi from "@pulumi/pulumi";
import type { Rollout, ServerPlan } from "../../infra/plan/kubernetes/types.ts";
import { createConfigMap, createService } from "./objects.ts";
import { type PodPlacementArgs, podTemplate } from "./pod-args.ts";

export interface ServerArgs extends PodPlacementArgs {
  readonly plan: ServerPlan;
  readonly namespace: pulumi.Input<string>;
  /** What must be there before its pods start: builds that have ended, Secrets, classes, policies. */
  readonly after: readonly pulumi.Resource[];
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
    const config = this.#createConfig(name, args);
    this.deployment = this.#createDeployment(name, args, [...args.after, ...config]);
    this.service = createService(`${name}-service`, { plan: plan.service, namespace }, { parent: this });
    this.#createBudget(name, args);
  }

  /** Outputs of every server. */
  protected get outputs() {
    return { serviceName: this.service.metadata.name };
  }

  #createConfig(name: string, { plan, namespace }: ServerArgs): readonly pulumi.Resource[] {
    const { config } = plan.pod;
    if (config === null) return [];
    return [createConfigMap(`${name}-config`, { plan: config, namespace }, { parent: this })];
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
