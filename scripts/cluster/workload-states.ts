/** How the workloads that a stack file wants are, from what its cluster has. */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import { type ClusterProbe, kubectlItems } from "./kubectl.ts";
import { type PausedReplicas, readPausedReplicas } from "./scaled-objects.ts";

/** The part of Deployments, StatefulSets and Jobs that is read. */
export interface WorkloadObject {
  readonly kind: "Deployment" | "StatefulSet" | "Job";
  readonly metadata: { readonly name: string };
  readonly spec: { readonly replicas?: number };
  readonly status?: {
    readonly readyReplicas?: number;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message?: string;
    }[];
  };
}

/** The part of pods that is read. */
export interface PodObject {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message?: string;
    }[];
    readonly containerStatuses?: readonly {
      readonly restartCount: number;
      readonly state?: { readonly waiting?: { readonly reason?: string; readonly message?: string } };
    }[];
  };
}

type WorkloadState =
  | "RUNNING"
  /** Not all of its pods are ready, and nothing says that they will not be. */
  | "STARTING"
  /** A pod finds no machine, no image, or ends again and again; `why` says it. */
  | "WAITING"
  /** It has no pod because nobody asks for it; a request starts one. */
  | "IDLE"
  /** It is kept at no pod until `npx engine-room wake`. */
  | "SLEEPING"
  /** It is kept at no pod, and does not sleep by itself: a gateway, a database. */
  | "STOPPED"
  /** Of a build: it ended with success. */
  | "DONE"
  | "FAILED"
  /** The cluster has none of that name. */
  | "MISSING"
  /** The stack file has none of that name. */
  | "UNPLANNED";

export interface WorkloadStatus {
  readonly name: string;
  readonly kind: WorkloadObject["kind"];
  readonly state: WorkloadState;
  /** Pods that are ready, and those that there should be; null for a build. */
  readonly pods: { readonly ready: number; readonly wanted: number } | null;
  /** Of its containers, all together. */
  readonly restarts: number;
  /** In the cluster's own words; absent where all is well. */
  readonly why?: string;
}

/** Words of kubectl that select a stack's own objects. */
export function ownSelection({ namespace, selector }: KubernetesStack): readonly string[] {
  return ["--namespace", namespace.name, "--selector", selectorText(selector)];
}

/** What a plan has, by kind and name, with labels of its pods. */
function planned({ servers, databases, builds }: KubernetesStack) {
  return [
    ...builds.map(({ name }) => ({ name, kind: "Job" as const, selector: { "job-name": name } })),
    ...servers.map(({ name, pod }) => ({ name, kind: "Deployment" as const, selector: pod.selector })),
    ...databases.map(({ name, pod }) => ({ name, kind: "StatefulSet" as const, selector: pod.selector })),
  ];
}

/** Labels as kubectl takes them. */
function selectorText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

/** @throws UserError where the cluster gives no answer. */
export async function workloadStatuses(
  stack: KubernetesStack,
  probe: ClusterProbe,
): Promise<readonly WorkloadStatus[]> {
  const own = ownSelection(stack);
  const [workloads, pods, paused] = await Promise.all([
    kubectlItems<WorkloadObject>(probe, ["deployments.apps,statefulsets.apps,jobs.batch", ...own]),
    kubectlItems<PodObject>(probe, ["pods", ...own]),
    readPausedReplicas(stack, probe, own),
  ]);
  return describeWorkloads(stack, { workloads, pods, paused });
}

/** What a cluster has of a stack. */
interface WorkloadReading {
  readonly workloads: readonly WorkloadObject[];
  readonly pods: readonly PodObject[];
  readonly paused: PausedReplicas;
}

/** In the order of the plan, then what the plan does not have. Pure. */
export function describeWorkloads(
  stack: KubernetesStack,
  { workloads, pods, paused }: WorkloadReading,
): readonly WorkloadStatus[] {
  const all = planned(stack);
  const isSame = (a: { name: string; kind: string }, b: WorkloadObject) =>
    a.name === b.metadata.name && a.kind === b.kind;
  return [
    ...all.map(({ name, kind, selector }): WorkloadStatus => {
      const found = workloads.find((one) => isSame({ name, kind }, one));
      const own = pods.filter(({ metadata: { labels = {} } }) =>
        Object.entries(selector).every(([key, value]) => labels[key] === value),
      );
      if (found === undefined) return { name, kind, state: "MISSING", pods: null, restarts: 0 };
      const state = stateOf(found, own) ?? withoutPods(stack, name, paused);
      return { name, kind, restarts: restartsOf(own), ...state };
    }),
    ...workloads
      .filter((one) => !all.some((planned) => isSame(planned, one)))
      .map(({ kind, metadata: { name } }): WorkloadStatus => {
        return { name, kind, state: "UNPLANNED", pods: null, restarts: 0 };
      }),
  ];
}

/** Whether the stack is as its file wants it, and serves. */
export function isServing(statuses: readonly WorkloadStatus[]): boolean {
  return (
    statuses.length > 0 &&
    statuses.every(({ state }) => ["RUNNING", "DONE", "IDLE", "SLEEPING", "UNPLANNED"].includes(state))
  );
}

function restartsOf(pods: readonly PodObject[]): number {
  return pods
    .flatMap(({ status }) => status?.containerStatuses ?? [])
    .reduce((sum, { restartCount }) => sum + restartCount, 0);
}

type Condition = Pick<WorkloadStatus, "state" | "pods" | "why">;

/** null: it is kept at no pod. */
function stateOf({ kind, spec, status }: WorkloadObject, pods: readonly PodObject[]): Condition | null {
  const why = obstacle(pods);
  const waiting = why === undefined ? { state: "STARTING" as const } : { state: "WAITING" as const, why };
  if (kind === "Job") {
    const condition = (type: string) =>
      status?.conditions?.find((one) => one.type === type && one.status === "True");
    if (condition("Complete") !== undefined) return { state: "DONE", pods: null };
    const failed = condition("Failed");
    if (failed !== undefined) return { state: "FAILED", pods: null, why: failed.message ?? "" };
    return { ...waiting, pods: null };
  }
  // The API's own default.
  const wanted = spec.replicas ?? 1;
  const ready = status?.readyReplicas ?? 0;
  if (wanted === 0) return null;
  return { ...(ready >= wanted ? { state: "RUNNING" as const } : waiting), pods: { ready, wanted } };
}

/** Only the load takes a server to zero that has no mark of KEDA's and may have none; somebody did it with the others. */
function withoutPods(
  { models, autoscalers }: KubernetesStack,
  name: string,
  paused: PausedReplicas,
): Condition {
  const pods = { ready: 0, wanted: 0 };
  if (!models.some((model) => model.name === name))
    return { state: "STOPPED", pods, why: "somebody scaled it to 0; `npx engine-room up` brings it back" };
  const owner = autoscalers.find((autoscaler) => autoscaler.name === name);
  const isByLoad = owner?.replicas.min === 0 && (paused.get(owner.name) ?? null) === null;
  return { state: isByLoad ? "IDLE" : "SLEEPING", pods };
}

/** A container that is being made is no obstacle. */
const ORDINARY: ReadonlySet<string> = new Set(["ContainerCreating", "PodInitializing"]);

/** Why a pod does not start: the scheduler's words, or the kubelet's. */
function obstacle(pods: readonly PodObject[]): string | undefined {
  for (const { status } of pods) {
    const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
    if (scheduled?.status === "False") return scheduled.message ?? "it waits for a machine";
    for (const { state } of status?.containerStatuses ?? []) {
      const { reason, message } = state?.waiting ?? {};
      if (reason !== undefined && !ORDINARY.has(reason))
        return message === undefined ? reason : `${reason}: ${message}`;
    }
  }
  return undefined;
}

/** Words after `kubectl` that print the logs of each workload, by its name: of a build, of all pods of a server. */
export function logTargets(stack: KubernetesStack): ReadonlyMap<string, readonly string[]> {
  return new Map(
    planned(stack).map(({ name, kind, selector }) => [
      name,
      kind === "Job" ? [`job/${name}`] : ["--prefix", "--selector", selectorText(selector)],
    ]),
  );
}
