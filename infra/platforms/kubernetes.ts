/** `platform: kubernetes`: the whole service in any cluster that a kubeconfig reaches. */
import * as pulumi from "@pulumi/pulumi";
import { planClusterImages } from "../image-inputs.ts";
import type { DeployedStack, ModelOutput } from "../outputs.ts";
import type { ClusterPlan } from "../plan/kubernetes/cluster-plan.ts";
import { kubernetesStack } from "../plan/kubernetes/kubernetes-stack.ts";
import { SECRET_PATHS, type SecretReference } from "../plan/kubernetes/pod-types.ts";
import type { KubernetesStack } from "../plan/kubernetes/types.ts";
import { ConfigError } from "../problems.ts";
import { deployCluster, secretReferences } from "./kubernetes-objects.ts";
import { secretValues } from "./secret-values.ts";

/**
 * Registers the resources of a stack in a cluster.
 *
 * @throws ConfigError where an image has no digest. A preview shows such a stack all the same, and warns: its images can be
 * made after it was looked at.
 */
export function deployKubernetes(plan: ClusterPlan): DeployedStack {
  const { images, problems } = planClusterImages(plan);
  if (problems.length > 0 && !pulumi.runtime.isDryRun()) throw new ConfigError(problems);
  for (const { reason, fix } of problems) void pulumi.log.warn(`${reason} ${fix}`);
  const stack = kubernetesStack(plan, { stack: pulumi.getStack(), images });

  deployCluster(stack, { secrets: secretValues(SECRET_PATHS, namesOf(secretReferences(stack))) });

  const { hourlyUsd, monthlyUsd, buildUsd, pricesAsOf } = plan.cost;
  return {
    endpoints: stack.endpoints,
    models: models(plan),
    release: plan.tier === "cpu" ? plan.release : plan.release.tag,
    engineStore: engineStore(stack),
    cost: { hourlyUsd, monthlyUsd, buildUsd, pricesAsOf },
    notes: stack.notes,
  };
}

function models(plan: ClusterPlan): ModelOutput[] {
  if (plan.tier === "cpu") {
    const { release } = plan;
    return plan.models.map(({ name, model }) => ({
      name,
      model,
      release,
      engineKey: null,
      nodePool: "cluster",
    }));
  }
  return plan.models.map(({ name, spec, engine }) => ({
    name,
    model: spec.engine.model,
    release: plan.release.tag,
    engineKey: engine?.key ?? null,
    nodePool: spec.pool,
  }));
}

function namesOf(references: readonly SecretReference[]) {
  return references.flatMap(({ from }) => (from === null ? [] : [from]));
}

function engineStore({ namespace, store }: KubernetesStack): string {
  return store === null ? "image" : `claim ${namespace.name}/${store.claim}`;
}
