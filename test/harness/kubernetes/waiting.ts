/** Waits for controllers and the scheduler; time-outs report the namespace's events. */
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../stack.ts";
import type { ApiServer } from "./api-server.ts";
import { conditionOf, type KubernetesObject, nameOf, type ObjectReference } from "./objects.ts";

const TIMEOUT_SECONDS = 120;
const POLL_MILLISECONDS = 100;

/** Events of a namespace, oldest first: `Warning FailedScheduling Pod/llava-0: 0/1 nodes are available: …`. */
export async function eventsOf(api: ApiServer, namespace: string): Promise<string[]> {
  const events = (await api.list("v1", "Event", { namespace })) as unknown as readonly {
    readonly type: string;
    readonly reason: string;
    readonly message: string;
    readonly involvedObject: { readonly kind: string; readonly name: string };
    readonly metadata: { readonly creationTimestamp: string };
  }[];
  return events
    .toSorted((a, b) => a.metadata.creationTimestamp.localeCompare(b.metadata.creationTimestamp))
    .map(
      ({ type, reason, message, involvedObject: { kind, name } }) =>
        `${type} ${reason} ${kind}/${name}: ${message}`,
    );
}

/**
 * Polls an object until `check` passes.
 *
 * @param check - Returns true, or the reason to wait longer; throws when waiting is useless.
 * @returns The object. @throws Error with the last reason and the last events on time-out.
 */
export async function waitFor(
  api: ApiServer,
  reference: ObjectReference,
  check: (object: KubernetesObject) => true | string,
): Promise<KubernetesObject> {
  const end = performance.now() + TIMEOUT_SECONDS * 1000;
  for (;;) {
    const object = await api.get(reference);
    const verdict = object === undefined ? "it does not exist" : check(object);
    if (object !== undefined && verdict === true) return object;
    if (performance.now() > end) {
      const { namespace } = reference.metadata;
      const events = namespace === undefined ? [] : await eventsOf(api, namespace);
      const ending = events.slice(-5).join(" | ");
      throw new Error(
        `${nameOf(reference)} after ${TIMEOUT_SECONDS} s: ${verdict}. Events: ${ending || "none"}`,
      );
    }
    await sleep(POLL_MILLISECONDS);
  }
}

/** Waits until pods can be created in a namespace: it then has a service account. @returns The service account. */
export function namespaceReady(api: ApiServer, { metadata }: ObjectReference): Promise<KubernetesObject> {
  const account = { name: "default", namespace: metadata.name };
  return waitFor(api, { apiVersion: "v1", kind: "ServiceAccount", metadata: account }, () => true);
}

/** Returns when the name of an object that an earlier test has removed is free again. */
export async function noneEnding(api: ApiServer, reference: ObjectReference): Promise<void> {
  await eventually(
    async () => ((await api.get(reference))?.metadata.deletionTimestamp === undefined ? true : undefined),
    TIMEOUT_SECONDS,
  );
}

/** Removes an object; returns when its name is free. */
export async function removeAndWait(api: ApiServer, reference: ObjectReference): Promise<void> {
  await api.remove(reference);
  await eventually(
    async () => ((await api.get(reference)) === undefined ? true : undefined),
    TIMEOUT_SECONDS,
  );
}

/** @throws Error at once when it has failed. */
export function jobComplete(api: ApiServer, reference: ObjectReference): Promise<KubernetesObject> {
  return waitFor(api, reference, (job) => {
    const failed = conditionOf(job, "Failed");
    if (failed?.status === "True")
      throw new Error(`${nameOf(job)} failed: ${failed.reason}, ${failed.message}`);
    return conditionOf(job, "Complete")?.status === "True" || `its status is ${JSON.stringify(job.status)}`;
  });
}

/** Waits until all pods have the newest template and are ready. @throws Error when creating pods is forbidden. */
export function deploymentAvailable(api: ApiServer, reference: ObjectReference): Promise<KubernetesObject> {
  return waitFor(api, reference, (deployment) => {
    const { replicas } = deployment.spec as { readonly replicas: number };
    const status = deployment.status as {
      readonly observedGeneration?: number;
      readonly replicas?: number;
      readonly updatedReplicas?: number;
      readonly availableReplicas?: number;
    };
    const refused = conditionOf(deployment, "ReplicaFailure");
    if (refused?.status === "True") throw new Error(`${nameOf(deployment)} has no pods: ${refused.message}`);
    const counts = [status.replicas, status.updatedReplicas, status.availableReplicas];
    const isDone =
      (status.observedGeneration ?? 0) >= (deployment.metadata.generation ?? 1) &&
      counts.every((count) => (count ?? 0) === replicas);
    return isDone || `its status is ${JSON.stringify(status)}`;
  });
}

/** Waits until all pods have the newest revision and are ready. */
export function statefulSetReady(api: ApiServer, reference: ObjectReference): Promise<KubernetesObject> {
  return waitFor(api, reference, (set) => {
    const { replicas } = set.spec as { readonly replicas: number };
    const status = set.status as { readonly readyReplicas?: number; readonly updatedReplicas?: number };
    const isDone = (status.readyReplicas ?? 0) === replicas && (status.updatedReplicas ?? 0) === replicas;
    return isDone || `its status is ${JSON.stringify(status)}`;
  });
}

export function claimBound(api: ApiServer, reference: ObjectReference): Promise<KubernetesObject> {
  return waitFor(api, reference, ({ status }) => {
    const { phase } = status as { readonly phase?: string };
    return phase === "Bound" || `it is ${phase}`;
  });
}

/** The scheduler's reason for the first pod of a selection that it can't place. */
export async function unschedulable(
  api: ApiServer,
  namespace: string,
  labelSelector: string,
): Promise<string> {
  const end = performance.now() + TIMEOUT_SECONDS * 1000;
  for (;;) {
    const pods = await api.list("v1", "Pod", { namespace, labelSelector });
    for (const pod of pods) {
      const scheduled = conditionOf(pod, "PodScheduled");
      if (scheduled?.status === "False" && scheduled.reason === "Unschedulable")
        return scheduled.message ?? "";
    }
    if (performance.now() > end)
      throw new Error(
        `None of the ${pods.length} pods with ${labelSelector} in ${namespace} waits for a node after ${TIMEOUT_SECONDS} s.`,
      );
    await sleep(POLL_MILLISECONDS);
  }
}
