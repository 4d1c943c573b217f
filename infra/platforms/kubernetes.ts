/** `platform: kubernetes`: the whole service in any cluster that a kubeconfig reaches. */
import * as pulumi from "@pulumi/pulumi";
import { clusterOutputs } from "../cluster-outputs.ts";
import { planClusterImages } from "../image-inputs.ts";
import type { DeployedStack } from "../outputs.ts";
import type { ClusterPlan } from "../plan/kubernetes/cluster-plan.ts";
import { kubernetesStack } from "../plan/kubernetes/kubernetes-stack.ts";
import { SECRET_PATHS } from "../plan/kubernetes/pod-types.ts";
import { deployCluster, secretNames } from "./kubernetes-objects.ts";
import { secretValues } from "./secret-values.ts";
import { leaveOutStackTraces } from "./stack-traces.ts";
import { refuseUnpulled } from "./unpulled-images.ts";

/**
 * Registers the resources of a stack in a cluster.
 *
 * @throws ConfigError where an image has no digest. A preview shows such a stack all the same, and warns: its images can be
 * made after it was looked at.
 */
export function deployKubernetes(plan: ClusterPlan): DeployedStack {
  leaveOutStackTraces();
  const { images, problems } = planClusterImages(plan);
  refuseUnpulled(problems);
  const stack = kubernetesStack(plan, { stack: pulumi.getStack(), images });

  deployCluster(stack, { secrets: secretValues(SECRET_PATHS, secretNames(stack)) });

  return clusterOutputs(plan, stack);
}
