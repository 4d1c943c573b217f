/** States of the workloads of a stack file, from the cluster's objects. */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import { type ClusterProbe, kubectlItems } from "./kubectl.ts";

type Labels = Readonly<Record<string, string>>;

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly message?: string;
}

/** The part of Deployments, StatefulSets and Jobs that is read. */
export interface WorkloadObject {
  readonly kind: "Deployment" | "StatefulSet" | "Job";
  readonly metadata: { readonly name: string };
  readonly spec: { readonly replicas?: number };
  readonly status?: { readonly readyReplicas?: number; readonly conditions?: readonly Condition[] };
}

/** The part of pods that is read. */
export interface PodObject {
  readonly metadata: { readonly labels?: Labels };
  readonly status?: {
    readonly conditions?: readonly Condition[];
    readonly containerStatuses?: readonly {
      readonly restartCount: number;
      readonly state?: { readonly waiting?: { readonly reason?: string; readonly message?: string } };
    }[];
  };
}

type WorkloadState =
  | "RUNNING"
  /** Not all of its pods are ready yet, without a known obstacle. */
  | "STARTING"
  /** A pod finds no machine or no image, or ends again and again; `why` has the reason. */
  | "WAITING"
  /** It has no pod because it gets no requests; a request starts one. */
  | "IDLE"
  /** It is scaled to zero until `npx engine-room wake`. */
  | "SLEEPING"
  /** It is scaled to zero, although it does not sleep by itself: a gateway, a database. */
  | "STOPPED"
  /** A build that succeeded. */
  | "DONE"
  | "FAILED"
  /** The cluster has no workload of the name. */
  | "MISSING"
  /** The stack file has no workload of the name. */
  | "UNPLANNED";

export interface WorkloadStatus {
  readonly name: string;
  readonly kind: WorkloadObject["kind"];
  readonly state: WorkloadState;
  /** Ready pods and planned pods; null for a build. */
  readonly pods: { readonly ready: number; readonly wanted: number } | null;
  /** Sum over its containers. */
  readonly restarts: number;
  /** In the cluster's own words; absent if all is well. */
  readonly why?: string;
}

/** Labels as kubectl takes them. */
function selectorText(labels: Labels): string {
  const words = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return words.join(",");
}

/** Objects of a kind, or of several with commas, that have the stack's labels. @throws UserError if kubectl fails. */
export function ownObjects<T>(
  { namespace, selector }: KubernetesStack,
  probe: ClusterProbe,
  kinds: string,
): Promise<readonly T[]> {
  const own = ["--namespace", namespace.name, "--selector", selectorText(selector)];
  return kubectlItems<T>(probe, [kinds, ...own]);
}

export const SCALED_OBJECTS = "scaledobjects.keda.sh";

/**
 * With the annotation KEDA stops its loop, removes its HorizontalPodAutoscaler, and scales to that number
 * (https://keda.sh/docs/latest/concepts/scaling-deployments/#pausing-autoscaling). Another annotation, `autoscaling.keda.sh/paused`, keeps
 * the present number.
 */
export const PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas";

/** Value of KEDA's annotation by name of the ScaledObject; null without the annotation. */
export type PausedReplicas = ReadonlyMap<string, string | null>;

/** Empty if KEDA is missing. Asks nothing for a stack without KEDA. @throws UserError if the user lacks the right. */
export async function readPausedReplicas(
  stack: KubernetesStack,
  probe: ClusterProbe,
): Promise<PausedReplicas> {
  if (!stack.autoscalers.some(({ mechanism }) => mechanism === "keda")) return new Map();
  const found = await ownObjects<{
    readonly metadata: { readonly name: string; readonly annotations?: Labels };
  }>(stack, probe, SCALED_OBJECTS);
  return new Map(
    found.map(({ metadata }) => [metadata.name, metadata.annotations?.[PAUSED_REPLICAS] ?? null]),
  );
}

/** Workloads of a plan, by kind and name, with labels of their pods. */
function planned({ servers, databases, builds }: KubernetesStack) {
  return [
    ...builds.map(({ name }) => ({ name, kind: "Job" as const, selector: { "job-name": name } })),
    ...servers.map(({ name, pod }) => ({ name, kind: "Deployment" as const, selector: pod.selector })),
    ...databases.map(({ name, pod }) => ({ name, kind: "StatefulSet" as const, selector: pod.selector })),
  ];
}

/** @throws UserError if the cluster does not answer. */
export async function workloadStatuses(
  stack: KubernetesStack,
  probe: ClusterProbe,
): Promise<readonly WorkloadStatus[]> {
  const [workloads, pods, paused] = await Promise.all([
    ownObjects<WorkloadObject>(stack, probe, "deployments.apps,statefulsets.apps,jobs.batch"),
    ownObjects<PodObject>(stack, probe, "pods"),
    readPausedReplicas(stack, probe),
  ]);
  return describeWorkloads(stack, { workloads, pods, paused });
}

/** State of a stack in a cluster. */
interface WorkloadReading {
  readonly workloads: readonly WorkloadObject[];
  readonly pods: readonly PodObject[];
  readonly paused: PausedReplicas;
}

/** In the order of the plan, then workloads outside of the plan. Pure. */
export function describeWorkloads(
  stack: KubernetesStack,
  { workloads, pods, paused }: WorkloadReading,
): readonly WorkloadStatus[] {
  const byKey = new Map(workloads.map((one) => [`${one.kind} ${one.metadata.name}`, one]));
  const known = planned(stack).map(({ name, kind, selector }): WorkloadStatus => {
    const found = byKey.get(`${kind} ${name}`);
    byKey.delete(`${kind} ${name}`);
    if (found === undefined) return { name, kind, state: "MISSING", pods: null, restarts: 0 };
    const own = pods.filter(({ metadata: { labels = {} } }) =>
      Object.entries(selector).every(([key, value]) => labels[key] === value),
    );
    const restarts = own
      .flatMap(({ status }) => status?.containerStatuses ?? [])
      .reduce((sum, { restartCount }) => sum + restartCount, 0);
    return { name, kind, restarts, ...(stateOf(found, own) ?? withoutPods(stack, name, paused)) };
  });
  const unplanned = [...byKey.values()].map(({ kind, metadata: { name } }): WorkloadStatus => {
    return { name, kind, state: "UNPLANNED", pods: null, restarts: 0 };
  });
  return [...known, ...unplanned];
}

const SERVING: readonly WorkloadState[] = ["RUNNING", "DONE", "IDLE", "SLEEPING", "UNPLANNED"];

/** Whether all workloads serve, or sleep as planned. */
export function isServing(statuses: readonly WorkloadStatus[]): boolean {
  return statuses.length > 0 && statuses.every(({ state }) => SERVING.includes(state));
}

type Described = Pick<WorkloadStatus, "state" | "pods" | "why">;

/** null for a workload scaled to zero. */
function stateOf({ kind, spec, status }: WorkloadObject, own: readonly PodObject[]): Described | null {
  const why = obstacle(own);
  const waiting = why === undefined ? { state: "STARTING" as const } : { state: "WAITING" as const, why };
  if (kind === "Job") {
    const ended = status?.conditions?.find(
      (one) => one.status === "True" && /^(Complete|Failed)$/.test(one.type),
    );
    if (ended?.type === "Complete") return { state: "DONE", pods: null };
    if (ended !== undefined) return { state: "FAILED", pods: null, why: ended.message ?? "" };
    return { ...waiting, pods: null };
  }
  // The API's own default.
  const wanted = spec.replicas ?? 1;
  const ready = status?.readyReplicas ?? 0;
  if (wanted === 0) return null;
  return { ...(ready >= wanted ? { state: "RUNNING" as const } : waiting), pods: { ready, wanted } };
}

/** A server without KEDA's mark that may have no pod is at zero by its load; a user scaled down the others. */
function withoutPods(
  { models, autoscalers }: KubernetesStack,
  name: string,
  paused: PausedReplicas,
): Described {
  const pods = { ready: 0, wanted: 0 };
  if (!models.some((model) => model.name === name))
    return { state: "STOPPED", pods, why: "scaled to 0 by hand; `npx engine-room up` brings it back" };
  const owner = autoscalers.find((autoscaler) => autoscaler.name === name);
  const isByLoad = owner?.replicas.min === 0 && (paused.get(name) ?? null) === null;
  return { state: isByLoad ? "IDLE" : "SLEEPING", pods };
}

/** A container in creation is not an obstacle. */
const ORDINARY: readonly string[] = ["ContainerCreating", "PodInitializing"];

/** Reason why a pod does not start: the scheduler's words, or the kubelet's. */
function obstacle(pods: readonly PodObject[]): string | undefined {
  for (const { status } of pods) {
    const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
    if (scheduled?.status === "False") return scheduled.message ?? "it waits for a machine";
    for (const { state } of status?.containerStatuses ?? []) {
      const { reason, message } = state?.waiting ?? {};
      if (reason !== undefined && !ORDINARY.includes(reason))
        return message === undefined ? reason : `${reason}: ${message}`;
    }
  }
  return undefined;
}

/** Arguments of kubectl that print the logs of each workload, by its name: a build's, or those of all pods of a server. */
export function logTargets(stack: KubernetesStack): ReadonlyMap<string, readonly string[]> {
  return new Map(
    planned(stack).map(({ name, kind, selector }) => [
      name,
      kind === "Job" ? [`job/${name}`] : ["--prefix", "--selector", selectorText(selector)],
    ]),
  );
}

/** Each workload as `kubectl exec` takes it, which chooses one of its pods, by its name. */
export function execTargets(stack: KubernetesStack): ReadonlyMap<string, string> {
  return new Map(planned(stack).map(({ name, kind }) => [name, `${kind.toLowerCase()}/${name}`]));
}
