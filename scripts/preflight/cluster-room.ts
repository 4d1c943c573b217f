/** The room that machines of a cluster leave to the pods of a stack. Pure. */
import type { Placement, PodResources } from "../../infra/plan/kubernetes/capacity.ts";
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { PodPlan } from "../../infra/plan/kubernetes/pods.ts";
import type { ClusterTarget } from "../program/targets.ts";
import { type Finding, problem, warning } from "./finding.ts";

type Strings = Readonly<Record<string, string>>;

/** The part of a node that is read. */
export interface NodeObject {
  readonly metadata: { readonly name: string; readonly labels?: Strings };
  readonly spec?: { readonly unschedulable?: boolean; readonly taints?: readonly Taint[] };
  readonly status?: {
    readonly allocatable?: Strings;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

/** The part of a pod that is read, of one that has not ended. */
export interface PodObject {
  readonly metadata: { readonly namespace?: string; readonly labels?: Strings };
  readonly spec?: {
    readonly nodeName?: string;
    readonly containers?: readonly { readonly resources?: { readonly requests?: Strings } }[];
  };
}

/** Nodes and pods of a cluster; null: the user may not list them. */
export interface RoomReading {
  readonly nodes: readonly NodeObject[] | null;
  readonly pods: readonly PodObject[] | null;
}

/** Amounts by resource: cores, bytes, counts. */
type Amounts = Readonly<Record<string, number>>;

/** A pod that the stack keeps, or one of several alike. */
export interface PlannedPod {
  readonly name: string;
  readonly pod: PodPlan;
}

const GIB = 2 ** 30;

const SUFFIXES = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/** Cores, bytes or a count. https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ */
export function quantity(text: string): number {
  const [, number = "", suffix = "", binary] =
    /^([+-]?[0-9.]+(?:[eE][+-]?\d+)?)([numkKMGTPE]?)(i?)$/.exec(text) ?? [];
  const power = SUFFIXES.indexOf(suffix.replace("K", "k")) - SUFFIXES.indexOf("");
  if (number === "" || Number.isNaN(Number(number)))
    throw new Error(`${JSON.stringify(text)} is not a quantity of Kubernetes.`);
  return Number(number) * (binary === "i" ? 1024 : 1000) ** power;
}

/** Pods that run when the stack is up, each as often as it is kept. */
export function keptPods({ servers, databases }: KubernetesStack): readonly PlannedPod[] {
  return [
    // Of a server that an autoscaler owns, the first.
    ...servers.flatMap(({ name, pod, replicas }) =>
      Array.from({ length: replicas ?? 1 }, () => ({ name, pod })),
    ),
    ...databases.map(({ name, pod }) => ({ name, pod })),
  ];
}

function podRequests({ cpuMillis, memoryMiB, ephemeralGiB, gpus }: PodResources): Amounts {
  return {
    cpu: cpuMillis / 1000,
    memory: memoryMiB * 2 ** 20,
    ...(ephemeralGiB === null ? {} : { "ephemeral-storage": ephemeralGiB * GIB }),
    ...(gpus === null ? {} : { [gpus.resource]: gpus.count }),
  };
}

export const labelsOf = ({ metadata }: NodeObject): Strings => metadata.labels ?? {};
export const taintsOf = ({ spec }: NodeObject): readonly Taint[] => spec?.taints ?? [];
export const allocatableOf = ({ status }: NodeObject): Strings => status?.allocatable ?? {};

/** Whether the scheduler may put pods there: ready, and not cordoned. */
export function takesPods({ spec, status }: NodeObject): boolean {
  const isReady = status?.conditions?.some((one) => one.type === "Ready" && one.status === "True");
  return isReady === true && spec?.unschedulable !== true;
}

export function hasLabels(node: NodeObject, selector: Strings): boolean {
  return Object.entries(selector).every(([key, value]) => labelsOf(node)[key] === value);
}

/** Whether the scheduler may put a pod with these labels and tolerations there. */
export function mayRunOn(node: NodeObject, selector: Strings, tolerations: readonly Toleration[]): boolean {
  return (
    hasLabels(node, selector) &&
    taintsOf(node).every(
      (taint) => taint.effect === "PreferNoSchedule" || tolerations.some((one) => tolerates(one, taint)),
    )
  );
}

type Toleration = Placement["tolerations"][number];

function tolerates({ key, operator, value, effect }: Toleration, taint: Taint): boolean {
  return (
    key === taint.key &&
    (effect === undefined || effect === taint.effect) &&
    (operator === "Exists" || (value ?? "") === (taint.value ?? ""))
  );
}

/** A machine, and the room that others leave. */
export interface FreeNode {
  readonly node: NodeObject;
  readonly free: Amounts;
}

/** @param pods - Those of others. */
export function freeNodes(nodes: readonly NodeObject[], pods: readonly PodObject[]): readonly FreeNode[] {
  return nodes.map((node) => {
    const own = pods.filter(({ spec }) => spec?.nodeName === node.metadata.name);
    // Containers that only start a pod run one after the other, and ask for less where GPUs are used.
    const requests = own
      .flatMap(({ spec }) => spec?.containers ?? [])
      .map((one) => one.resources?.requests ?? {});
    return { node, free: requests.map(amounts).reduce(minus, amounts(allocatableOf(node))) };
  });
}

function amounts(quantities: Strings): Amounts {
  return Object.fromEntries(Object.entries(quantities).map(([key, text]) => [key, quantity(text)]));
}

function minus(a: Amounts, b: Amounts): Amounts {
  return Object.fromEntries(Object.entries(a).map(([key, value]) => [key, value - (b[key] ?? 0)]));
}

/**
 * Puts pods on machines that they may run on, first fit, those with most GPUs first, as a scheduler could.
 *
 * @returns Those that found none.
 */
export function unplacedPods(nodes: readonly FreeNode[], pods: readonly PlannedPod[]): readonly PlannedPod[] {
  const left = nodes.map(({ free }) => free);
  const gpus = ({ pod }: PlannedPod) => pod.resources.gpus?.count ?? 0;
  return pods
    .toSorted((a, b) => gpus(b) - gpus(a) || b.pod.resources.memoryMiB - a.pod.resources.memoryMiB)
    .filter(({ pod }) => {
      const wanted = podRequests(pod.resources);
      const { nodeSelector = {}, tolerations = [] } = pod.template.spec ?? {};
      const index = nodes.findIndex(
        ({ node }, position) =>
          Object.entries(wanted).every(([key, amount]) => (left[position]?.[key] ?? 0) >= amount) &&
          mayRunOn(node, nodeSelector, tolerations),
      );
      const found = left[index];
      if (found === undefined) return true;
      left[index] = minus(found, wanted);
      return false;
    });
}

/** Whether a pod belongs to a stack, by the labels that never change. */
export function isOfStack({ namespace, selector }: Pick<KubernetesStack, "namespace" | "selector">) {
  return ({ metadata: { namespace: own, labels = {} } }: PodObject): boolean =>
    own === namespace.name && Object.entries(selector).every(([key, value]) => labels[key] === value);
}

/** Pods of others: room of the stack's own is the stack's. */
export function strangersOf(stack: KubernetesStack, pods: RoomReading["pods"]): readonly PodObject[] {
  const isOwn = isOfStack(stack);
  return (pods ?? []).filter((pod) => !isOwn(pod));
}

/** Each once, with commas. */
export function names(all: readonly { readonly name: string }[]): string {
  return [...new Set(all.map(({ name }) => name))].join(", ");
}

export function wants(resources: PodResources | undefined): string {
  if (resources === undefined) return "nothing";
  const { cpuMillis, memoryMiB, gpus } = resources;
  return [
    ...(gpus === null ? [] : [`${gpus.count} × ${gpus.resource}`]),
    `${cpuMillis / 1000} cores`,
    `${(memoryMiB / 1024).toFixed(1)} GiB`,
  ].join(", ");
}

/** Most machines that a sentence lists. */
const LISTED_MACHINES = 5;

/** Room of machines, those with most memory first. */
export function freeText(nodes: readonly FreeNode[]): string {
  const sorted = nodes.toSorted((a, b) => (b.free.memory ?? 0) - (a.free.memory ?? 0));
  const listed = sorted.slice(0, LISTED_MACHINES).map(({ node, free }) => {
    const devices = Object.entries(free).filter(([key]) => key.includes("/") && !key.startsWith("hugepages"));
    return [
      node.metadata.name,
      ...devices.map(([key, amount]) => `${amount} × ${key}`),
      `${(free.cpu ?? 0).toFixed(1)} cores`,
      `${((free.memory ?? 0) / GIB).toFixed(1)} GiB`,
    ].join(" ");
  });
  const rest = sorted.length - listed.length;
  return [...listed, ...(rest === 0 ? [] : [`and ${rest} more`])].join("; ");
}

/** Whether pods without a pool find room: all of `tier: cpu`, else gateway, databases and encoders. */
export function frontFindings(
  { stack, plan }: ClusterTarget,
  { nodes, pods }: RoomReading,
): readonly Finding[] {
  if (nodes === null) return [];
  const kept = keptPods(stack);
  const front = kept.filter(({ pod }) => pod.pool === null);
  const [first] = front;
  if (first === undefined) return [];
  // All of them have the same.
  const { nodeSelector = {}, tolerations = [] } = first.pod.template.spec ?? {};
  const takers = nodes.filter(takesPods);
  const usable = takers.filter((node) => mayRunOn(node, nodeSelector, tolerations));
  const isCpu = plan.tier === "cpu";
  if (usable.length === 0)
    return [
      problem(
        "machines",
        "No machine of the cluster takes pods of the stack that need no GPU.",
        `Of ${nodes.length}, each is not ready, cordoned, has a taint that they do not tolerate${selectorText(nodeSelector, ", or lacks ")}.`,
        isCpu
          ? "`kubectl get nodes --show-labels` lists all labels: correct machines.nodeSelector and machines.tolerations."
          : "Add a machine without taints, or a pool without GPUs with its nodeSelector and tolerations.",
      ),
    ];
  const machines = freeNodes(takers, strangersOf(stack, pods));
  // Those of pools first, as they have fewer machines to choose from.
  const unplaced = unplacedPods(machines, kept).filter((one) => front.includes(one));
  const [largest] = unplaced.toSorted((a, b) => b.pod.resources.memoryMiB - a.pod.resources.memoryMiB);
  if (largest === undefined) return [];
  const isTooLarge = unplacedPods(freeNodes(usable, []), [largest]).length > 0;
  const free = freeText(machines.filter(({ node }) => usable.includes(node)));
  return [
    (isTooLarge ? problem : warning)(
      "room",
      `${unplaced.length} of ${front.length} pods that need no GPU find no machine now: ${names(unplaced)}.`,
      `The largest asks for ${wants(largest.pod.resources)}${isCpu ? "" : ", beside the pods of pools"}; ${isTooLarge ? "no machine has that when it is empty" : `free are ${free}`}.`,
      isTooLarge
        ? `Use larger machines${isCpu ? ", or correct machines.nodeSelector" : ", or add a pool without GPUs"}.`
        : "Nothing, if the cluster's autoscaler adds machines; else add one or end what runs there. `kubectl describe nodes` lists all pods.",
    ),
  ];
}

export function selectorText(selector: Strings, before: string): string {
  const labels = Object.entries(selector).map(([key, value]) => `${key}=${value}`);
  return labels.length === 0 ? "" : `${before}${labels.join(", ")}`;
}
