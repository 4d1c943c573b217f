/** Whether machines of a cluster have the GPUs, drivers and room that a stack counts on. Pure. */
import type { types } from "@pulumi/kubernetes";
import type { ClusterGpuPlan } from "../../infra/plan/gpu-stack.ts";
import {
  gpusOf,
  type Placement,
  type PodResources,
  placementOf,
} from "../../infra/plan/kubernetes/capacity.ts";
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { PodPlan } from "../../infra/plan/kubernetes/pods.ts";
import { slotsPerMachine } from "../../infra/plan/pool-space.ts";
import type { PoolSpec } from "../../infra/plan/spec.ts";
import type { Found } from "../cluster/kubectl.ts";
import type { ClusterTarget } from "../program/targets.ts";
import { type Finding, problem, warning } from "./finding.ts";
import { cardFindings } from "./gpu.ts";

type NodeObject = Found<types.input.core.v1.Node>;
type PodObject = Found<types.input.core.v1.Pod>;

/** Amounts by resource: cores, bytes, counts. */
type Amounts = Readonly<Record<string, number>>;

/** A machine, with the room that other pods leave. */
interface Machine {
  readonly node: NodeObject;
  readonly free: Amounts;
}

/** A pod of the stack; several may be alike. */
interface PlannedPod {
  readonly name: string;
  readonly pod: PodPlan;
}

/** Pods that go to the same machines: those of a pool, or pods without a GPU that have no pool. */
interface Group {
  readonly pool: PoolSpec | null;
  readonly title: string;
  readonly placement: Placement;
}

/** @param pods - Pods that have not ended; null when the user may not list them. */
export function machineFindings(
  { stack, plan }: ClusterTarget,
  nodes: readonly NodeObject[],
  pods: readonly PodObject[] | null,
): readonly Finding[] {
  const isOwn = isOfStack(stack);
  const others = (pods ?? []).filter((pod) => !isOwn(pod));
  const machines = nodes.filter(takesPods).map((node) => ({ node, free: freeRoom(node, others) }));
  const kept = keptPods(stack);
  const unplaced = unplacedPods(machines, kept);
  // A build ends before its server starts.
  const stuck = stack.builds.filter((build) => unplacedPods(machines, [build]).length > 0);
  const groups: readonly Group[] = [
    ...(plan.tier === "cpu" ? [] : plan.spec.pools).map((pool) => ({
      pool,
      title: `the pool ${pool.name}`,
      placement: placementOf(plan, pool),
    })),
    { pool: null, title: "the stack that need no GPU", placement: placementOf(plan, null) },
  ];
  return groups.flatMap((group) => {
    const { pool, placement } = group;
    const isOfGroup = ({ pod }: PlannedPod) => pod.pool === (pool?.name ?? null);
    const own = kept.filter(isOfGroup);
    if (pool === null && own.length === 0) return [];
    const usable = machines.filter(({ node }) => mayRunOn(node, placement));
    if (usable.length === 0) return [noMachine(group, nodes)];
    const gpus =
      plan.tier === "cpu" || pool === null || pool.gpu === null ? [] : gpuFindings(plan, pool, usable);
    if (gpus.some(({ check }) => check === "devicePlugin")) return gpus;
    const waiting = [...unplaced, ...stuck].filter(isOfGroup);
    return [...gpus, ...roomFindings(group, waiting, own.length, usable)];
  });
}

function noMachine({ pool, title, placement }: Group, nodes: readonly NodeObject[]): Finding {
  const wanted = Object.entries(placement.nodeSelector).map(([key, value]) => `${key}=${value}`);
  const labelled = nodes.filter((node) => hasLabels(node, placement));
  const taints = labelled
    .flatMap(({ spec }) => spec?.taints ?? [])
    .map(({ key, value = "", effect }) => `${key}=${value}:${effect}`);
  const mayCome = pool?.nodes.min === 0;
  return (mayCome ? warning : problem)(
    "machines",
    `No machine of the cluster takes pods of ${title}.`,
    `${labelled.length} of ${nodes.length} machines have the labels ${list(wanted) || "(none asked for)"}${labelled.length === 0 ? "" : `; each is not ready, cordoned, or has a taint that is not tolerated: ${list(taints) || "no taint"}`}.`,
    `${mayCome ? "Nothing, if the cluster's autoscaler adds such machines; else add one" : "Add such a machine"}, or correct nodeSelector and tolerations of pools[] or, with \`tier: cpu\`, of \`machines\`: \`kubectl get nodes --show-labels\` lists all labels.`,
  );
}

/** @param waiting - Pods of the group without a machine. @param of - Number of pods that the group keeps. */
function roomFindings(
  { pool, title }: Group,
  waiting: readonly PlannedPod[],
  of: number,
  usable: readonly Machine[],
): readonly Finding[] {
  const [largest] = waiting.toSorted(bySize);
  if (largest === undefined) return [];
  const empty = usable.map(({ node }) => ({ node, free: freeRoom(node, []) }));
  const isTooLarge = unplacedPods(empty, [largest]).length > 0;
  const mayGrow = pool === null || pool.nodes.min < pool.nodes.max;
  return [
    (mayGrow && !isTooLarge ? warning : problem)(
      "room",
      `Pods of ${title} find no machine now: ${list(waiting.map(({ name }) => name))} (${waiting.length}; it keeps ${of}).`,
      `The largest asks for ${amountsText(podRequests(largest.pod.resources))}; ${isTooLarge ? "no machine has that when it is empty" : `free are ${freeText(usable)}`}.`,
      isTooLarge
        ? "Use larger machines, or correct nodeSelector in the stack file."
        : `${mayGrow ? "Nothing, if the cluster's autoscaler adds machines; else add" : "Add"} machines or stop workloads there; \`kubectl describe nodes\` lists all pods.`,
    ),
  ];
}

function gpuFindings(plan: ClusterGpuPlan, pool: PoolSpec, usable: readonly Machine[]): readonly Finding[] {
  const resource = gpusOf(plan, pool, 1)?.resource ?? "";
  const { sharing } = pool;
  const planned = slotsPerMachine(pool);
  const counted = usable
    .map(({ node }) => ({ node, count: amounts(node.status?.allocatable)[resource] ?? 0 }))
    .filter(({ count }) => count > 0)
    .sort((a, b) => b.count - a.count);
  if (counted.length === 0)
    return [
      problem(
        "devicePlugin",
        `No machine of the pool ${pool.name} offers ${resource}.`,
        `Pods ask for it; empty machines of the pool have ${list(usable.map(({ node }) => amountsText(amounts(node.status?.allocatable))))}.`,
        "Install NVIDIA's GPU operator or its device plugin (https://github.com/NVIDIA/k8s-device-plugin), or correct pools[].gpuResource and pools[].sharing.",
      ),
    ];
  // More shares than planned let a pod run for which no GPU has memory; a machine may have more whole GPUs.
  const isShared = "replicas" in sharing;
  const wrong = (isShared ? counted : counted.slice(0, 1)).find(({ node, count }) => {
    const replicas = node.metadata.labels?.[REPLICAS];
    if (!isShared) return count < planned;
    return replicas === undefined ? count !== planned : replicas !== String(sharing.replicas);
  });
  const words = isShared ? `${sharing.mode}, ${sharing.replicas} replicas` : sharing.mode;
  return [
    ...(wrong === undefined
      ? []
      : [
          problem(
            "sharing",
            `The machine ${wrong.node.metadata.name} of the pool ${pool.name} gives out ${wrong.count} × ${resource}.`,
            `The pool is planned with ${planned} a machine (sharing: ${words}); the label ${REPLICAS} is ${wrong.node.metadata.labels?.[REPLICAS] ?? "missing"}.`,
            "Correct pools[].machine, pools[].instanceType or pools[].sharing, or give the device plugin the configuration that `npx engine-room plan --device-plugin-config` prints.",
          ),
        ]),
    ...counted.flatMap(({ node }) => labelFindings(plan, pool, node)),
  ];
}

/** Label of NVIDIA's GPU feature discovery. */
const REPLICAS = "nvidia.com/gpu.replicas";

/** By the labels of NVIDIA's GPU feature discovery, if it runs. */
function labelFindings(
  { release }: ClusterGpuPlan,
  { gpu, sharing }: PoolSpec,
  { metadata: { name, labels = {} } }: NodeObject,
): readonly Finding[] {
  const { "nvidia.com/gpu.product": reported, "nvidia.com/gpu.memory": memory } = labels;
  if (gpu === null || reported === undefined) return [];
  const version = ["major", "minor", "rev"].flatMap((part) => labels[`nvidia.com/cuda.driver.${part}`] || []);
  return cardFindings(
    {
      where: `the machine ${name}`,
      reported,
      // Partitions and, in some versions, shares report a part of it.
      memoryMiB: sharing.mode !== "none" || memory === undefined ? null : Number(memory),
      driver: labels["nvidia.com/cuda.driver-version.full"] ?? version.join("."),
    },
    { gpu, release },
    "Correct pools[].nodeSelector, pools[].machine or pools[].instanceType.",
  );
}

/**
 * The dry run judges pods one by one: a quota may hold each of them, and not all.
 *
 * @param quotas - Quotas of the namespace, while the stack has no pods there.
 */
export function quotaFindings(
  stack: KubernetesStack,
  quotas: readonly Found<types.input.core.v1.ResourceQuota>[],
): readonly Finding[] {
  const kept = keptPods(stack);
  const needed = kept
    .map(({ pod }) => podRequests(pod.resources))
    .reduce((sum, one) => plus(sum, one, 1), { pods: kept.length });
  return quotas.flatMap(({ metadata: { name }, spec, status }) => {
    // Such a quota counts only some pods.
    if (spec?.scopes !== undefined || spec?.scopeSelector !== undefined) return [];
    const used = amounts(status?.used);
    return Object.entries(amounts(status?.hard)).flatMap(([key, hard]) => {
      const { [key.replace(/^requests\./, "")]: wanted = 0 } = needed;
      if (wanted <= hard - (used[key] ?? 0)) return [];
      return [
        problem(
          "quota",
          `The quota ${name} does not hold all pods of the stack.`,
          `Together they ask for ${wanted} ${key}; ${used[key] ?? 0} of ${hard} are used.`,
          "Ask the owner of the namespace for a larger quota, use another namespace, or plan fewer replicas.",
        ),
      ];
    });
  });
}

/** Whether a pod belongs to a stack, by the labels that never change. */
export function isOfStack({ namespace, selector }: Pick<KubernetesStack, "namespace" | "selector">) {
  return (pod: PodObject): boolean =>
    pod.metadata.namespace === namespace.name && hasLabels(pod, { nodeSelector: selector });
}

/** Pods that run when the stack is up, each as often as it is kept; of a server that an autoscaler owns, the first. */
function keptPods({ servers, databases }: KubernetesStack): readonly PlannedPod[] {
  const repeated = servers.flatMap((server) => Array.from({ length: server.replicas ?? 1 }, () => server));
  return [...repeated, ...databases];
}

/** Whether the scheduler may place pods there: ready, and not cordoned. */
function takesPods({ spec, status }: NodeObject): boolean {
  const isReady = status?.conditions?.some((one) => one.type === "Ready" && one.status === "True");
  return isReady === true && spec?.unschedulable !== true;
}

function hasLabels(
  { metadata: { labels = {} } }: Pick<NodeObject, "metadata">,
  { nodeSelector }: Pick<Placement, "nodeSelector">,
): boolean {
  return Object.entries(nodeSelector).every(([key, value]) => labels[key] === value);
}

function mayRunOn(node: NodeObject, placement: Pick<Placement, "nodeSelector" | "tolerations">): boolean {
  return (
    hasLabels(node, placement) &&
    (node.spec?.taints ?? []).every(
      (taint) =>
        taint.effect === "PreferNoSchedule" ||
        placement.tolerations.some(
          ({ key, operator, value = "", effect = taint.effect }) =>
            key === taint.key &&
            effect === taint.effect &&
            (operator === "Exists" || value === (taint.value ?? "")),
        ),
    )
  );
}

/**
 * Places pods on machines that they may run on, first fit, the largest first, as a scheduler could.
 *
 * @returns Pods without a machine.
 */
function unplacedPods(machines: readonly Machine[], pods: readonly PlannedPod[]): readonly PlannedPod[] {
  const left = machines.map(({ free }) => free);
  return pods.toSorted(bySize).filter(({ pod }) => {
    const wanted = podRequests(pod.resources);
    const { nodeSelector = {}, tolerations = [] } = pod.template.spec ?? {};
    const index = machines.findIndex(
      ({ node }, position) =>
        Object.entries(wanted).every(([key, amount]) => (left[position]?.[key] ?? 0) >= amount) &&
        mayRunOn(node, { nodeSelector, tolerations }),
    );
    const found = left[index];
    if (found !== undefined) left[index] = plus(found, wanted, -1);
    return found === undefined;
  });
}

/** Pods of pools first, which have fewer machines to choose from. */
function bySize({ pod: a }: PlannedPod, { pod: b }: PlannedPod): number {
  const order = ({ pool, resources }: PodPlan) => (pool === null ? 0 : 1) + (resources.gpus?.count ?? 0);
  return order(b) - order(a) || b.resources.memoryMiB - a.resources.memoryMiB;
}

function podRequests({ cpuMillis, memoryMiB, ephemeralGiB, gpus }: PodResources): Amounts {
  return {
    ...(gpus === null ? {} : { [gpus.resource]: gpus.count }),
    cpu: cpuMillis / 1000,
    memory: memoryMiB * 2 ** 20,
    ...(ephemeralGiB === null ? {} : { "ephemeral-storage": ephemeralGiB * 2 ** 30 }),
  };
}

/** Init containers are ignored: they run one after the other, and request less if GPUs are used. */
function freeRoom({ metadata: { name }, status }: NodeObject, pods: readonly PodObject[]): Amounts {
  return pods
    .flatMap(({ spec }) => (spec?.nodeName === name ? (spec.containers ?? []) : []))
    .reduce(
      (free, { resources }) => plus(free, amounts(resources?.requests), -1),
      amounts(status?.allocatable),
    );
}

function plus(a: Amounts, b: Amounts, times: 1 | -1): Amounts {
  const keys = Object.keys({ ...a, ...b });
  return Object.fromEntries(keys.map((key) => [key, (a[key] ?? 0) + times * (b[key] ?? 0)]));
}

const SUFFIXES = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/** Quantities as numbers: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/. */
export function amounts(quantities: Readonly<Record<string, string>> = {}): Amounts {
  return Object.fromEntries(
    Object.entries(quantities).map(([key, text]) => {
      const [, number = "", suffix = "", binary] =
        /^(.*?\d\.?(?:[eE][+-]?\d+)?)([a-zA-Z]?)(i?)$/.exec(text) ?? [];
      const power = SUFFIXES.indexOf(suffix.replace("K", "k")) - SUFFIXES.indexOf("");
      return [key, Number(number) * (binary === "i" ? 1024 : 1000) ** power];
    }),
  );
}

/** `1 × nvidia.com/gpu, 2.0 cores, 16.0 GiB`. */
function amountsText({ cpu = 0, memory = 0, ...others }: Amounts): string {
  const devices = Object.entries(others).filter(([key]) => key.includes("/"));
  return [
    ...devices.map(([key, amount]) => `${amount} × ${key}`),
    `${cpu.toFixed(1)} cores`,
    `${(memory / 2 ** 30).toFixed(1)} GiB`,
  ].join(", ");
}

/** Room of the five machines with most memory. */
function freeText(machines: readonly Machine[]): string {
  return machines
    .toSorted((a, b) => (b.free.memory ?? 0) - (a.free.memory ?? 0))
    .slice(0, 5)
    .map(({ node, free }) => `${node.metadata.name}: ${amountsText(free)}`)
    .join("; ");
}

/** Each once. */
function list(words: readonly string[]): string {
  return [...new Set(words)].join(", ");
}
