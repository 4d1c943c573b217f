/** How the workloads that a stack file wants are, from what its cluster has. */
import type { KubernetesStack } from "../../infra/plan/kubernetes/types.ts";
import { type ClusterProbe, kubectlItems } from "./kubectl.ts";

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
  /** It is kept at no pod. */
  | "ASLEEP"
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

/** What a plan has, by kind and name, with labels of its pods. */
function planned({ models, encoders, databases, gateway, builds }: KubernetesStack) {
  const servers = [...models, ...(encoders === null ? [] : [encoders]), gateway];
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
  const own = ["--namespace", stack.namespace.name, "--selector", selectorText(stack.selector)];
  const [workloads, pods] = await Promise.all([
    kubectlItems<WorkloadObject>(probe, ["deployments.apps,statefulsets.apps,jobs.batch", ...own]),
    kubectlItems<PodObject>(probe, ["pods", ...own]),
  ]);
  return describeWorkloads(stack, workloads, pods);
}

/** In the order of the plan, then what the plan does not have. Pure. */
export function describeWorkloads(
  stack: KubernetesStack,
  workloads: readonly WorkloadObject[],
  pods: readonly PodObject[],
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
      return { name, kind, restarts: restartsOf(own), ...stateOf(found, own) };
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
    statuses.every(({ state }) => ["RUNNING", "DONE", "ASLEEP", "UNPLANNED"].includes(state))
  );
}

function restartsOf(pods: readonly PodObject[]): number {
  return pods
    .flatMap(({ status }) => status?.containerStatuses ?? [])
    .reduce((sum, { restartCount }) => sum + restartCount, 0);
}

function stateOf(
  { kind, spec, status }: WorkloadObject,
  pods: readonly PodObject[],
): Pick<WorkloadStatus, "state" | "pods" | "why"> {
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
  if (wanted === 0) return { state: "ASLEEP", pods: { ready, wanted } };
  return { ...(ready >= wanted ? { state: "RUNNING" as const } : waiting), pods: { ready, wanted } };
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
