/** A database with a claim of its own. Cost: 0.25 CPUs, 2 GiB of memory, and its storage, which `down` may leave. */
import { StatefulSet } from "@pulumi/kubernetes/apps/v1/statefulSet.js";
import * as pulumi from "@pulumi/pulumi";
import type { DatabasePlan } from "../../infra/plan/kubernetes/types.ts";
import { createService } from "./objects.ts";
import { podTemplate, type WorkloadArgs } from "./pod-args.ts";

interface DatabaseArgs extends WorkloadArgs {
  readonly plan: DatabasePlan;
}

export class Database extends pulumi.ComponentResource {
  readonly statefulSet: StatefulSet;

  constructor(name: string, args: DatabaseArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:Database", name, {}, opts);

    const { plan, namespace } = args;
    const service = createService(`${name}-service`, { plan: plan.service, namespace }, { parent: this });
    this.statefulSet = this.#createStatefulSet(name, args, [...args.after, service]);
    this.registerOutputs({ serviceName: service.metadata.name });
  }

  #createStatefulSet(name: string, args: DatabaseArgs, dependsOn: readonly pulumi.Resource[]): StatefulSet {
    const { plan, namespace } = args;
    const { claim, pod, service, awaitSeconds } = plan;
    return new StatefulSet(
      `${name}-set`,
      {
        metadata: { name: plan.name, namespace, labels: { ...pod.labels } },
        spec: {
          serviceName: service.name,
          replicas: 1,
          selector: { matchLabels: { ...pod.selector } },
          template: podTemplate(pod, args),
          // What is retained is the API's own default, and stays unsaid. Without a pod the database is asleep, not gone.
          ...(claim.isRetained
            ? {}
            : { persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete", whenScaled: "Retain" } }),
          volumeClaimTemplates: [
            {
              metadata: { name: claim.name, labels: { ...pod.selector } },
              spec: {
                accessModes: ["ReadWriteOnce"],
                ...(claim.storageClass === null ? {} : { storageClassName: claim.storageClass }),
                resources: { requests: { storage: `${claim.sizeGiB}Gi` } },
              },
            },
          ],
        },
      },
      {
        parent: this,
        dependsOn: [...dependsOn],
        // Its name stays the same, and its claim is not its own.
        deleteBeforeReplace: true,
        customTimeouts: { create: `${awaitSeconds}s`, update: `${awaitSeconds}s` },
      },
    );
  }
}
