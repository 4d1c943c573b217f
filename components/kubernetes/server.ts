/**
 * A Deployment behind a Service, with its configuration and disruption budget. Cost: GPUs of a model for as long as its server
 * runs, 1 CPU and 3 GiB of memory of encoders, 0.25 CPUs and 1 GiB of a gateway, for each replica.
 */
import { CustomResource } from "@pulumi/kubernetes/apiextensions/customResource.js";
import { Deployment } from "@pulumi/kubernetes/apps/v1/deployment.js";
import { Service } from "@pulumi/kubernetes/core/v1/service.js";
import { Ingress } from "@pulumi/kubernetes/networking/v1/ingress.js";
import { PodDisruptionBudget } from "@pulumi/kubernetes/policy/v1/podDisruptionBudget.js";
import * as pulumi from "@pulumi/pulumi";
import type { KubernetesStack, ServerPlan } from "../../infra/plan/kubernetes/types.ts";
import { awaited, createConfig, inNamespace, restartingTemplate, type WorkloadArgs } from "./workload.ts";

export type ServerRole = "triton" | "encoders" | "gateway";

const TYPES: Readonly<Record<ServerRole, string>> = {
  triton: "engine-room:kubernetes:TritonServer",
  encoders: "engine-room:kubernetes:Encoders",
  gateway: "engine-room:kubernetes:Gateway",
};

export interface ServerArgs extends WorkloadArgs, Partial<Pick<KubernetesStack, "ingress" | "route">> {
  readonly plan: ServerPlan;
  /** Creates what needs the Service, and must be there before the pods are. */
  readonly beforePods?: (service: Service) => readonly pulumi.Resource[];
}

export class Server extends pulumi.ComponentResource {
  readonly deployment: Deployment;

  constructor(role: ServerRole, name: string, args: ServerArgs, opts?: pulumi.ComponentResourceOptions) {
    super(TYPES[role], name, {}, opts);

    const { plan, namespace, ingress = null, route = null } = args;
    const config = createConfig(`${name}-config`, plan.pod, namespace, this);
    const service = new Service(`${name}-service`, inNamespace(plan.service, namespace), { parent: this });
    const bound = args.beforePods?.(service) ?? [];
    this.deployment = this.#createDeployment(name, args, [...args.after, ...config, ...bound]);
    new PodDisruptionBudget(`${name}-budget`, inNamespace(plan.budget, namespace), { parent: this });
    const behind = { parent: this, dependsOn: [service] };
    if (ingress !== null) new Ingress(`${name}-ingress`, inNamespace(ingress, namespace), behind);
    if (route !== null) new CustomResource(`${name}-route`, inNamespace(route, namespace), behind);
    this.registerOutputs({ serviceName: service.metadata.name });
  }

  #createDeployment(
    name: string,
    { plan, namespace, secretUids }: ServerArgs,
    dependsOn: pulumi.Resource[],
  ): Deployment {
    const { metadata, spec } = inNamespace(plan.deployment, namespace);
    const template = restartingTemplate(plan.pod, secretUids);
    return new Deployment(
      `${name}-deployment`,
      { metadata, spec: { ...spec, template } },
      {
        parent: this,
        dependsOn,
        // A field that is left out becomes 1, unless another owner has set it: an autoscaler takes over the number.
        ...(plan.replicas === null ? { ignoreChanges: ["spec.replicas"] } : {}),
        customTimeouts: awaited(plan.awaitSeconds),
      },
    );
  }
}
