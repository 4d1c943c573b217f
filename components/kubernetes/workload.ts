/** What components of workloads have in common. */

import type { types } from "@pulumi/kubernetes";
import { ConfigMap } from "@pulumi/kubernetes/core/v1/configMap.js";
import * as pulumi from "@pulumi/pulumi";
import type { SecretName } from "../../infra/plan/docker/types.ts";
import type { ApiObject, PodPlan } from "../../infra/plan/kubernetes/types.ts";

export interface WorkloadArgs {
  readonly namespace: pulumi.Input<string>;
  /** Uids of the Secrets with values of the stack file: another value is another Secret, and restarts its readers. */
  readonly secretUids: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
  /** What must be there before its pods start: claims, builds that have ended, Secrets, classes, policies. */
  readonly after: readonly pulumi.Resource[];
}

export function inNamespace<T extends Pick<ApiObject<object>, "metadata">>(
  object: T,
  namespace: pulumi.Input<string>,
) {
  return { ...object, metadata: { ...object.metadata, namespace } };
}

/** Template of pods that are replaced when a secret of theirs has changed. */
export function restartingTemplate(
  { template, secretFiles }: PodPlan,
  secretUids: WorkloadArgs["secretUids"],
): types.input.core.v1.PodTemplateSpec {
  const uids = Object.values(secretFiles).flatMap(({ from }) =>
    from === null ? [] : (secretUids[from] ?? []),
  );
  if (uids.length === 0) return template;
  const annotations = { "engine-room/secrets": pulumi.all(uids).apply((all) => all.join(" ")) };
  return { ...template, metadata: { ...template.metadata, annotations } };
}

/**
 * The ConfigMap of a pod, if it has one. Its name follows its content, so that a new one is there before the old one goes.
 *
 * @returns What the pod's owner depends on.
 */
export function createConfig(
  name: string,
  { config }: PodPlan,
  namespace: pulumi.Input<string>,
  parent: pulumi.Resource,
): readonly pulumi.Resource[] {
  return config === null ? [] : [new ConfigMap(name, inNamespace(config, namespace), { parent })];
}

/** Limits of the wait for a workload. */
export function awaited(seconds: number): pulumi.CustomTimeouts {
  return { create: `${seconds}s`, update: `${seconds}s` };
}
