/** A database with a claim of its own. Cost: 0.25 CPUs, 2 GiB of memory, and its storage, which `down` may leave. */
import { StatefulSet } from "@pulumi/kubernetes/apps/v1/statefulSet.js";
import { Service } from "@pulumi/kubernetes/core/v1/service.js";
import * as pulumi from "@pulumi/pulumi";
import type { DatabasePlan } from "../../infra/plan/kubernetes/types.ts";
import { awaited, inNamespace, type WorkloadArgs } from "./workload.ts";

interface DatabaseArgs extends Omit<WorkloadArgs, "secretUids"> {
  readonly plan: DatabasePlan;
}

export class Database extends pulumi.ComponentResource {
  constructor(
    name: string,
    { plan, namespace, after }: DatabaseArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:kubernetes:Database", name, {}, opts);

    const service = new Service(`${name}-service`, inNamespace(plan.service, namespace), { parent: this });
    new StatefulSet(`${name}-set`, inNamespace(plan.statefulSet, namespace), {
      parent: this,
      dependsOn: [...after, service],
      // Its name stays the same, and its claim is not its own.
      deleteBeforeReplace: true,
      customTimeouts: awaited(plan.awaitSeconds),
    });
    this.registerOutputs({ serviceName: service.metadata.name });
  }
}
