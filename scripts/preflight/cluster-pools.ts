/** Whether machines of a cluster's pools have the GPUs, drivers and room that the plan counts on. Pure. */
import type { ClusterGpuPlan } from "../../infra/plan/gpu-stack.ts";
import { gpusOf, placementOf } from "../../infra/plan/kubernetes/capacity.ts";
import { slotsPerMachine } from "../../infra/plan/pool-space.ts";
import type { GpuSharing, PoolSpec } from "../../infra/plan/spec.ts";
import type { ClusterTarget } from "../program/targets.ts";
import {
  allocatableOf,
  type FreeNode,
  freeNodes,
  freeText,
  hasLabels,
  keptPods,
  labelsOf,
  mayRunOn,
  type NodeObject,
  names,
  type PlannedPod,
  quantity,
  type RoomReading,
  selectorText,
  strangersOf,
  taintsOf,
  takesPods,
  unplacedPods,
  wants,
} from "./cluster-room.ts";
import { type Finding, problem, warning } from "./finding.ts";
import { catalogueNameOfLabel, driverVerdict, MEMORY_TOLERANCE } from "./gpu.ts";

/** A stack of `tier: gpu`: without GPUs nothing is planned for pools. */
interface GpuTarget extends ClusterTarget {
  readonly plan: ClusterGpuPlan;
}

/** Everything about one pool, the first reason alone where nothing else can be said. */
export function poolFindings(
  target: GpuTarget,
  pool: PoolSpec,
  { nodes, pods }: RoomReading,
): readonly Finding[] {
  if (nodes === null) return [];
  const { nodeSelector, tolerations } = placementOf(target.plan, pool);
  const labelled = nodes.filter((node) => hasLabels(node, nodeSelector));
  const usable = labelled.filter((node) => takesPods(node) && mayRunOn(node, nodeSelector, tolerations));
  if (usable.length === 0) return [noMachine(pool, nodeSelector, nodes, labelled)];
  const gpu = pool.gpu === null ? [] : gpuFindings(target, pool, usable);
  if (gpu.some(({ check }) => check === "devicePlugin")) return gpu;
  return [...gpu, ...roomFindings(target, pool, freeNodes(usable, strangersOf(target.stack, pods)))];
}

function noMachine(
  pool: PoolSpec,
  selector: Readonly<Record<string, string>>,
  nodes: readonly NodeObject[],
  labelled: readonly NodeObject[],
): Finding {
  const wanted = selectorText(selector, "") || "any label";
  const [key = ""] = Object.keys(selector);
  const values = [...new Set(nodes.flatMap((node) => labelsOf(node)[key] ?? []))];
  const taints = new Set(
    labelled
      .flatMap(taintsOf)
      .map(({ key, value, effect }) => `${key}${value === undefined ? "" : `=${value}`}:${effect}`),
  );
  return (pool.nodes.min === 0 ? warning : problem)(
    "machines",
    `No machine of the cluster takes pods of the pool ${pool.name}.`,
    labelled.length > 0
      ? `${labelled.length} have ${wanted}, and each is not ready, cordoned, or has a taint that the pool does not tolerate: ${[...taints].join(", ") || "no taint"}.`
      : `The pool asks for ${wanted}; of ${nodes.length} machines none has it${values.length === 0 ? "" : `, and ${key} is ${values.join(", ")} there`}.`,
    pool.nodes.min === 0
      ? "Nothing, if the cluster's autoscaler makes machines of this kind; else correct pools[].nodeSelector and pools[].tolerations."
      : "`kubectl get nodes --show-labels` lists all labels: correct pools[].nodeSelector and pools[].tolerations.",
  );
}

function gpuFindings(target: GpuTarget, pool: PoolSpec, usable: readonly NodeObject[]): readonly Finding[] {
  const resource = gpusOf(target.plan, pool, 1)?.resource ?? "";
  const counted = usable
    .map((node) => ({ node, count: quantity(allocatableOf(node)[resource] ?? "0") }))
    .filter(({ count }) => count > 0);
  if (counted.length > 0)
    return [
      ...sharingFindings(target.name, pool, resource, counted),
      ...counted.flatMap(({ node }) => cardFindings(target.plan, pool, node)),
    ];
  const offered = usable.flatMap((node) => Object.entries(allocatableOf(node)));
  const others = new Set(
    offered.flatMap(([name, amount]) =>
      name.includes("/") && quantity(amount) > 0 ? [`${name} (${amount})`] : [],
    ),
  );
  return [
    problem(
      "devicePlugin",
      `No machine of the pool ${pool.name} offers ${resource}.`,
      `Pods ask for it, and its ${usable.length} machines offer ${[...others].join(", ") || "no device at all: the device plugin does not run there, or sees no GPU"}.`,
      others.size === 0
        ? "Install NVIDIA's GPU operator or its device plugin (https://github.com/NVIDIA/k8s-device-plugin)."
        : "Name the plugin's resource in pools[].gpuResource, or correct pools[].sharing.",
    ),
  ];
}

interface Counted {
  readonly node: NodeObject;
  /** GPUs, or shares of them, that pods can have. */
  readonly count: number;
}

/** Shares have to be as many as planned on every machine: one more would be a pod for which no GPU has memory. */
function sharingFindings(
  stack: string,
  pool: PoolSpec,
  resource: string,
  counted: readonly Counted[],
): readonly Finding[] {
  const { sharing } = pool;
  const planned = slotsPerMachine(pool);
  if (sharing.mode === "none") {
    const most = Math.max(...counted.map(({ count }) => count));
    if (most >= planned) return [];
    return [
      problem(
        "sharing",
        `A machine of the pool ${pool.name} gives out ${most} × ${resource}.`,
        `The pool is planned with ${planned} a machine (sharing: none).`,
        "Correct pools[].machine or pools[].instanceType of the stack file.",
      ),
    ];
  }
  const wrong = counted.flatMap((one) => {
    const reason = otherThanPlanned(one, planned, sharing);
    return reason === null ? [] : [{ ...one, reason }];
  });
  const [first] = wrong;
  if (first === undefined) return [];
  const others = wrong.length === 1 ? "" : `, and ${wrong.length - 1} others are not as planned`;
  const replicas = "replicas" in sharing ? `, ${sharing.replicas} replicas` : "";
  return [
    problem(
      "sharing",
      `The machine ${first.node.metadata.name} of the pool ${pool.name} gives out ${first.count} × ${resource}${others}.`,
      `${first.reason}; the pool is planned with ${planned} a machine (sharing: ${sharing.mode}${replicas}).`,
      `Give the device plugin the configuration that \`npx engine-room plan --stack ${stack} --device-plugin-config\` prints, or correct pools[].sharing.`,
    ),
  ];
}

/** Of NVIDIA's GPU feature discovery (api/config/v1/sharing.go), by the mode of a pool. */
const STRATEGIES = { timeSlicing: "time-slicing", mps: "mps" } as const;

/** By the labels of GPU feature discovery, where it runs: with it a machine may have more GPUs than planned. */
function otherThanPlanned({ node, count }: Counted, planned: number, sharing: GpuSharing): string | null {
  if (sharing.mode === "timeSlicing" || sharing.mode === "mps") {
    const strategy = labelsOf(node)["nvidia.com/gpu.sharing-strategy"];
    if (strategy !== undefined && strategy !== STRATEGIES[sharing.mode])
      return `Its label nvidia.com/gpu.sharing-strategy is ${strategy}`;
    const replicas = labelsOf(node)["nvidia.com/gpu.replicas"];
    if (replicas !== undefined && Number(replicas) !== sharing.replicas)
      return `Its label nvidia.com/gpu.replicas is ${replicas}`;
    if (replicas === undefined && count > planned) return "These are too many";
  }
  return count < planned ? "These are too few" : null;
}

/** By the labels of NVIDIA's GPU feature discovery, where it runs. */
function cardFindings(
  { release }: ClusterGpuPlan,
  { gpu, name: pool, sharing }: PoolSpec,
  node: NodeObject,
): readonly Finding[] {
  const labels = labelsOf(node);
  const machine = node.metadata.name;
  const product = labels["nvidia.com/gpu.product"];
  if (gpu === null || product === undefined) return [];
  const known = catalogueNameOfLabel(product);
  if (known !== gpu.name)
    return [
      problem(
        "gpus",
        `The machine ${machine} has ${product}.`,
        `The pool ${pool} is planned for ${gpu.name}, and a TensorRT engine runs only on the kind of GPU that it was built for.`,
        "Correct pools[].nodeSelector, or the pool's machine or instanceType.",
      ),
    ];
  const memoryMiB = Number(labels["nvidia.com/gpu.memory"] ?? Number.NaN);
  const plannedMiB = gpu.memoryGiB * 1024;
  const version = ["major", "minor", "rev"].flatMap((part) => labels[`nvidia.com/cuda.driver.${part}`] || []);
  const driver = labels["nvidia.com/cuda.driver-version.full"] ?? version.join(".");
  const { minimumDriver, tag } = release;
  const verdict =
    driver === "" || minimumDriver === null ? "new enough" : driverVerdict(driver, minimumDriver, known);
  const isTooOld = verdict === "too old";
  return [
    // Partitions and, at some versions, shares have a part of it.
    ...(sharing.mode === "none" && memoryMiB < plannedMiB * (1 - MEMORY_TOLERANCE)
      ? [
          problem(
            "gpus",
            `A GPU of the machine ${machine} has ${memoryMiB} MiB.`,
            `The pool ${pool} is planned for ${gpu.name} with ${Math.round(plannedMiB)} MiB.`,
            "Use machines with that GPU.",
          ),
        ]
      : []),
    ...(verdict === "new enough"
      ? []
      : [
          (isTooOld ? problem : warning)(
            "driver",
            `The driver of the machine ${machine} is ${driver}.`,
            `Release ${tag} needs ${minimumDriver}${isTooOld ? ", and its image's compatibility package does not cover this driver and GPU" : "; its image brings a compatibility package, which NVIDIA supports on data-centre GPUs"}.`,
            isTooOld
              ? `Install driver ${minimumDriver} or newer, or choose an older release (docs/support-matrix.md).`
              : `Nothing, if the first build succeeds; else install driver ${minimumDriver} or newer.`,
          ),
        ]),
  ];
}

/** Whether all pods of a pool find a machine beside other pods, and a build and a roll-out too. */
function roomFindings({ stack }: GpuTarget, pool: PoolSpec, free: readonly FreeNode[]): readonly Finding[] {
  const isOfPool = ({ pod }: PlannedPod) => pod.pool === pool.name;
  const { min, max } = pool.nodes;
  const report = min < max ? warning : problem;
  const elsewhere =
    min < max
      ? `Nothing, if the cluster's autoscaler adds machines (the pool has ${free.length} of ${max})`
      : "Add machines or end what runs there";
  const unplacedFinding = (what: string, all: readonly PlannedPod[], of: number, fix: string) =>
    all.length === 0
      ? []
      : [
          report(
            "room",
            `${all.length} of ${of} ${what} the pool ${pool.name} find no machine now: ${names(all)}.`,
            `They ask for ${wants(all[0]?.pod.resources)}; free are ${freeText(free)}.`,
            `${elsewhere}${fix}`,
          ),
        ];
  const kept = keptPods(stack).filter(isOfPool);
  const unplaced = unplacedPods(free, kept);
  if (unplaced.length > 0)
    return unplacedFinding("pods of", unplaced, kept.length, "; `kubectl describe nodes` lists all pods.");
  const builds = stack.builds.filter(isOfPool);
  const stuck = builds.filter((build) => unplacedPods(free, [build]).length > 0);
  const rolled = stack.models.filter((one) => isOfPool(one) && one.rollout === "surge");
  const waiting = rolled.filter((one) => unplacedPods(free, [...kept, one]).length > 0);
  return [
    ...unplacedFinding("builds in", stuck, builds.length, ", or build in another pool (models[].buildPool)."),
    ...(waiting.length === 0
      ? []
      : [
          warning(
            "room",
            `No new pod of ${names(waiting)} finds a machine beside the old one.`,
            `The plan counts on ${max} machines in the pool ${pool.name}, and a roll-out that surges waits until there is one.`,
            `${elsewhere}, or set \`rollout: inPlace\` for the model.`,
          ),
        ]),
  ];
}
