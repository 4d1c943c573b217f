/** What machines of a cluster have left for a stack. Pure. */
import type { Placement, PodResources } from "../../infra/plan/kubernetes/capacity.ts";
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { PodPlan } from "../../infra/plan/kubernetes/pods.ts";
import type { NodeReading, PodReading } from "./cluster-objects.ts";
import type { ClusterReading } from "./cluster-reading.ts";
import { quantity } from "./quantity.ts";

/** Amounts by resource: cores, bytes, counts. */
type Amounts = Readonly<Record<string, number>>;

/** A pod that the stack keeps, or one of several alike. */
interface PlannedPod {
  readonly name: string;
  readonly pod: PodPlan;
}

/** Pods that run when the stack is up, each as often as it is kept. */
export function keptPods({ servers, databases }: KubernetesStack): readonly PlannedPod[] {
  return [
    // Of one that an autoscaler owns, the first.
    ...servers.flatMap(({ name, pod, replicas }) =>
      Array.from({ length: replicas ?? 1 }, () => ({ name, pod })),
    ),
    ...databases.map(({ name, pod }) => ({ name, pod })),
  ];
}

export function podRequests({ cpuMillis, memoryMiB, ephemeralGiB, gpus }: PodResources): Amounts {
  return {
    cpu: cpuMillis / 1000,
    memory: memoryMiB * 2 ** 20,
    ...(ephemeralGiB === null ? {} : { "ephemeral-storage": ephemeralGiB * 2 ** 30 }),
    ...(gpus === null ? {} : { [gpus.resource]: gpus.count }),
  };
}

/** Whether the scheduler may put a pod with these labels and tolerations there. */
export function mayRunOn(
  { labels, taints }: NodeReading,
  selector: Readonly<Record<string, string>>,
  tolerations: Readonly<Placement["tolerations"]>,
): boolean {
  return (
    Object.entries(selector).every(([key, value]) => labels[key] === value) &&
    taints.every(
      (taint) => taint.effect === "PreferNoSchedule" || tolerations.some((one) => tolerates(one, taint)),
    )
  );
}

function tolerates(
  { key, operator, value, effect }: Placement["tolerations"][number],
  taint: NodeReading["taints"][number],
): boolean {
  return (
    key === taint.key &&
    (effect === undefined || effect === taint.effect) &&
    (operator === "Exists" || (value ?? "") === (taint.value ?? ""))
  );
}

/** A machine, and what others leave of it. */
export interface FreeNode {
  readonly node: NodeReading;
  readonly free: Amounts;
}

/** @param isOwn - Pods of the stack itself, whose room is the stack's. */
export function freeNodes(
  nodes: readonly NodeReading[],
  pods: readonly PodReading[],
  isOwn: (pod: PodReading) => boolean,
): readonly FreeNode[] {
  const strangers = pods.filter((pod) => !isOwn(pod));
  return nodes.map((node) => ({
    node,
    free: strangers
      .filter((pod) => pod.node === node.name)
      .reduce((left, pod) => minus(left, requestsOf(pod)), amounts(node.allocatable)),
  }));
}

/** Of all containers; those that only start a pod run one after the other, and ask for less where GPUs are used. */
function requestsOf({ requests }: PodReading): Amounts {
  return requests.map(amounts).reduce((sum, one) => {
    const keys = new Set([...Object.keys(sum), ...Object.keys(one)]);
    return Object.fromEntries([...keys].map((key) => [key, (sum[key] ?? 0) + (one[key] ?? 0)]));
  }, {});
}

function amounts(quantities: Readonly<Record<string, string>>): Amounts {
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
export function homelessPods(nodes: readonly FreeNode[], pods: readonly PlannedPod[]): readonly PlannedPod[] {
  const left = nodes.map(({ free }) => free);
  const gpus = ({ pod }: PlannedPod) => pod.resources.gpus?.count ?? 0;
  return pods
    .toSorted((a, b) => gpus(b) - gpus(a) || b.pod.resources.memoryMiB - a.pod.resources.memoryMiB)
    .filter(({ pod }) => {
      const wanted = podRequests(pod.resources);
      const { nodeSelector = {}, tolerations = [] } = pod.template.spec ?? {};
      const index = left.findIndex(
        (free, position) =>
          Object.entries(wanted).every(([key, amount]) => (free[key] ?? 0) >= amount) &&
          mayRunOn((nodes[position] as FreeNode).node, nodeSelector, tolerations),
      );
      const found = left[index];
      if (found === undefined) return true;
      left[index] = minus(found, wanted);
      return false;
    });
}

/** Whether a pod belongs to a stack, by the labels that never change. */
export function isOfStack({ namespace, selector }: Pick<KubernetesStack, "namespace" | "selector">) {
  return (pod: PodReading): boolean =>
    pod.namespace === namespace.name &&
    Object.entries(selector).every(([key, value]) => pod.labels[key] === value);
}

/** Whether pods of the stack are there. */
export function isUp(stack: KubernetesStack, { pods }: ClusterReading): boolean {
  return pods?.some(isOfStack(stack)) ?? false;
}
