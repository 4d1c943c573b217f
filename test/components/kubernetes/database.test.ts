/** What becomes of a database's disk when its stack goes. */
import { expect, test } from "vitest";
import { Database } from "../../../components/kubernetes/database.ts";
import { kubernetesStack } from "../../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { KubernetesStack } from "../../../infra/plan/kubernetes/types.ts";
import { plannedCluster } from "../../infra/plan/aws/eks-plans.ts";
import { clusterStack, clusterValues, lockedImages } from "../../infra/plan/kubernetes/stacks.ts";
import { byName, registeredBy } from "../aws/registered.ts";

const encoders = { device: "cpu", pool: "cpu" };

function onEks(retain: readonly string[]): KubernetesStack {
  const { plan } = plannedCluster({ encoders, retain });
  return kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
}

/** Of the StatefulSets, by name. */
async function specs({ databases, images, imagePullSecrets }: KubernetesStack) {
  const placed = { images, imagePullSecrets, secretUids: {}, namespace: "models", after: [] };
  const made = await registeredBy(() => {
    for (const plan of databases) new Database(plan.name, { ...placed, plan });
  });
  return ["mongo-set", "vector-set"].map((name) => byName(made, name).inputs.spec as Record<string, unknown>);
}

test("disks on EKS go with a stack that is not to be retained", async () => {
  for (const spec of await specs(onEks(["another"])))
    expect(spec.persistentVolumeClaimRetentionPolicy).toEqual({
      whenDeleted: "Delete",
      whenScaled: "Retain",
    });
});

test("those of a retained stack stay, and so do those of every cluster that was there before", async () => {
  const own = clusterStack({ ...clusterValues, encoders });
  for (const stack of [onEks(["demo"]), own])
    for (const spec of await specs(stack))
      expect(Object.keys(spec)).not.toContain("persistentVolumeClaimRetentionPolicy");
});
