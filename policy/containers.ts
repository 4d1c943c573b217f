/** The pods and containers that resources describe, in whichever kind of workload. */
import type { CheckedResource } from "./rule.ts";
import { at, listAt } from "./values.ts";

/** Where a kind has its pod's `spec`. */
const podPaths: Readonly<Record<string, readonly string[]>> = {
  "kubernetes:core/v1:Pod": ["spec"],
  "kubernetes:apps/v1:Deployment": ["spec", "template", "spec"],
  "kubernetes:apps/v1:StatefulSet": ["spec", "template", "spec"],
  "kubernetes:apps/v1:DaemonSet": ["spec", "template", "spec"],
  "kubernetes:apps/v1:ReplicaSet": ["spec", "template", "spec"],
  "kubernetes:batch/v1:Job": ["spec", "template", "spec"],
  "kubernetes:batch/v1:CronJob": ["spec", "jobTemplate", "spec", "template", "spec"],
};

/** `spec` of the pods that a resource makes; undefined where it makes none. */
export function podSpec({ type, inputs }: CheckedResource): unknown {
  const path = podPaths[type];
  return path === undefined ? undefined : at(inputs, ...path);
}

/** All containers of a pod, those that run before it too. */
export function podContainers(spec: unknown): readonly unknown[] {
  return [...listAt(spec, "initContainers"), ...listAt(spec, "containers")];
}
