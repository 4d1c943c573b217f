/** Small objects that several components make. */
import { ConfigMap } from "@pulumi/kubernetes/core/v1/configMap.js";
import { Service } from "@pulumi/kubernetes/core/v1/service.js";
import * as pulumi from "@pulumi/pulumi";
import type { PodPlan } from "../../infra/plan/kubernetes/pod-types.ts";
import type { ServicePlan } from "../../infra/plan/kubernetes/types.ts";

/**
 * The pods behind it are awaited by what makes them, so that their Service needs no wait of its own, which takes ten
 * seconds at least.
 */
const SKIP_AWAIT = { "pulumi.com/skipAwait": "true" } as const;

/**
 * Of what `down` leaves: the stack owns its fields, and its next `up` may change them. Without a name of the owner each one
 * that begins anew is another owner, in conflict with the one before; another stack's is one, and is refused.
 */
export function keptAnnotations(): Record<string, string> {
  return { "pulumi.com/patchFieldManager": `engine-room-${pulumi.getStack()}` };
}

interface ObjectArgs<Plan> {
  readonly plan: Plan;
  readonly namespace: pulumi.Input<string>;
}

/**
 * The ConfigMap that a pod mounts, if it has one. Its name follows its content, so a new one is there before the old one goes.
 *
 * @returns What the pod's owner depends on.
 */
export function createPodConfig(
  name: string,
  { plan: { config }, namespace }: ObjectArgs<Pick<PodPlan, "config">>,
  opts: pulumi.CustomResourceOptions,
): readonly pulumi.Resource[] {
  if (config === null) return [];
  return [
    new ConfigMap(
      name,
      {
        metadata: { name: config.name, namespace, labels: { ...config.labels } },
        immutable: true,
        data: { ...config.data },
      },
      opts,
    ),
  ];
}

export function createService(
  name: string,
  { plan, namespace }: ObjectArgs<ServicePlan>,
  opts: pulumi.CustomResourceOptions,
): Service {
  return new Service(
    name,
    {
      metadata: {
        name: plan.name,
        namespace,
        labels: { ...plan.labels },
        annotations: { ...SKIP_AWAIT },
      },
      spec: {
        ...(plan.isHeadless ? { clusterIP: "None" } : { type: "ClusterIP" }),
        selector: { ...plan.selector },
        ports: Object.entries(plan.ports).map(([port, number]) => ({
          name: port,
          port: number,
          targetPort: port,
          protocol: "TCP",
        })),
      },
    },
    opts,
  );
}
