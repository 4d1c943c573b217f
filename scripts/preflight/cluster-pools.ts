/** Whether the machines of a cluster are those that a stack's pools were planned for. */
import type { ClusterGpuPlan } from "../../infra/plan/gpu-stack.ts";
import { gpusOf, placementOf } from "../../infra/plan/kubernetes/capacity.ts";
import type { PoolSpec } from "../../infra/plan/spec.ts";
import type { ClusterTarget } from "../program/cluster-target.ts";
import type { NodeReading } from "./cluster-objects.ts";
import type { ClusterReading } from "./cluster-reading.ts";
import { sharingFindings } from "./cluster-sharing.ts";
import { type FreeNode, freeNodes, homelessPods, isOfStack, keptPods, mayRunOn } from "./cluster-space.ts";
import { freeText, names, wants } from "./cluster-words.ts";
import { type Finding, problem, warning } from "./finding.ts";
import { catalogueNameOfLabel, driverVerdict } from "./gpu-facts.ts";
import { quantity } from "./quantity.ts";

/** A stack of `tier: gpu`: without GPUs nothing is planned for pools. */
interface GpuTarget extends ClusterTarget {
  readonly plan: ClusterGpuPlan;
}

/** Memory by the driver and by the EC2 API differ by less; a smaller card of the same name by more. */
const MEMORY_TOLERANCE = 0.05;

/** Everything about one pool, the first reason alone where nothing else can be said. */
export function poolFindings(
  target: GpuTarget,
  pool: PoolSpec,
  { nodes, pods }: ClusterReading,
): readonly Finding[] {
  if (nodes === null) return [];
  const { nodeSelector, tolerations } = placementOf(target.plan, pool);
  const labelled = nodes.filter((node) => mayRunOn({ ...node, taints: [] }, nodeSelector, []));
  const usable = labelled.filter((node) => node.takesPods && mayRunOn(node, nodeSelector, tolerations));
  if (usable.length === 0) return [noMachine(pool, nodeSelector, { nodes, labelled })];
  const gpu = pool.gpu === null ? [] : gpuFindings(target, pool, usable);
  if (gpu.some(({ check }) => check === "devicePlugin")) return gpu;
  const free = freeNodes(usable, pods ?? [], isOfStack(target.stack));
  return [...gpu, ...roomFindings(target, pool, free)];
}

/** Whether another machine may come when it is wanted. */
function grows({ nodes: { min, max } }: PoolSpec): boolean {
  return min < max;
}

function noMachine(
  pool: PoolSpec,
  selector: Readonly<Record<string, string>>,
  { nodes, labelled }: { readonly nodes: readonly NodeReading[]; readonly labelled: readonly NodeReading[] },
): Finding {
  const labels = Object.entries(selector).map(([key, value]) => `${key}=${value}`);
  const names = labels.length === 0 ? "any label" : labels.join(", ");
  const [key = ""] = Object.keys(selector);
  const values = [...new Set(nodes.flatMap(({ labels: all }) => all[key] ?? []))];
  const why =
    labelled.length > 0
      ? `${labelled.length} have ${names}, and each is not ready, cordoned, or has a taint that the pool does not tolerate: ${taintsOf(labelled)}.`
      : `The pool asks for ${names}; of ${nodes.length} machines none has it${values.length === 0 ? "" : `, and ${key} is ${values.join(", ")} there`}.`;
  const report = pool.nodes.min === 0 ? warning : problem;
  return report(
    "machines",
    `No machine of the cluster takes pods of the pool ${pool.name}.`,
    why,
    pool.nodes.min === 0
      ? "Nothing, if the cluster's autoscaler makes machines of this kind; else correct pools[].nodeSelector and pools[].tolerations."
      : "`kubectl get nodes --show-labels` has what there is: correct pools[].nodeSelector and pools[].tolerations.",
  );
}

function taintsOf(nodes: readonly NodeReading[]): string {
  const taints = new Set(
    nodes.flatMap(({ taints: all }) =>
      all.map(({ key, value, effect }) => `${key}${value === undefined ? "" : `=${value}`}:${effect}`),
    ),
  );
  return taints.size === 0 ? "no taint" : [...taints].join(", ");
}

function gpuFindings(target: GpuTarget, pool: PoolSpec, usable: readonly NodeReading[]): readonly Finding[] {
  const resource = gpusOf(target.plan, pool, 1)?.resource ?? "";
  const offering = usable.filter(({ allocatable }) => quantity(allocatable[resource] ?? "0") > 0);
  if (offering.length === 0) return [noResource(pool, resource, usable)];
  return [
    ...sharingFindings({ stack: target.name, pool, resource, offering }),
    ...offering.flatMap((node) => cardFindings(target.plan, pool, node)),
  ];
}

function noResource(pool: PoolSpec, resource: string, usable: readonly NodeReading[]): Finding {
  const others = new Set(
    usable.flatMap(({ allocatable }) =>
      Object.entries(allocatable).flatMap(([name, amount]) =>
        name.includes("/") && quantity(amount) > 0 ? [`${name} (${amount})`] : [],
      ),
    ),
  );
  return problem(
    "devicePlugin",
    `No machine of the pool ${pool.name} offers ${resource}.`,
    others.size === 0
      ? `Pods ask for it, and its ${usable.length} machines offer no device at all: the device plugin does not run there, or sees no GPU.`
      : `Pods ask for it, and its ${usable.length} machines offer ${[...others].join(", ")}.`,
    others.size === 0
      ? "Install NVIDIA's GPU operator or its device plugin (https://github.com/NVIDIA/k8s-device-plugin)."
      : "Name what the plugin offers in pools[].gpuResource, or correct pools[].sharing.",
  );
}

/** By the labels of NVIDIA's GPU feature discovery, where it runs. */
function cardFindings(
  plan: ClusterGpuPlan,
  pool: PoolSpec,
  { name, labels }: NodeReading,
): readonly Finding[] {
  const { gpu } = pool;
  const product = labels["nvidia.com/gpu.product"];
  if (gpu === null || product === undefined) return [];
  const known = catalogueNameOfLabel(product);
  if (known !== gpu.name)
    return [
      problem(
        "gpus",
        `The machine ${name} has ${product}.`,
        `The pool ${pool.name} is planned for ${gpu.name}, and a TensorRT engine runs only on the kind of GPU that it was built for.`,
        "Correct pools[].nodeSelector, or the pool's machine or instanceType.",
      ),
    ];
  const memoryMiB = Number(labels["nvidia.com/gpu.memory"] ?? Number.NaN);
  const plannedMiB = gpu.memoryGiB * 1024;
  // Partitions and, at some versions, shares have a part of it.
  const isSmaller = pool.sharing.mode === "none" && memoryMiB < plannedMiB * (1 - MEMORY_TOLERANCE);
  return [
    ...(isSmaller
      ? [
          problem(
            "gpus",
            `A GPU of the machine ${name} has ${memoryMiB} MiB.`,
            `The pool ${pool.name} is planned for ${gpu.name} with ${Math.round(plannedMiB)} MiB.`,
            "Use machines with that GPU.",
          ),
        ]
      : []),
    ...driverFindings(plan, known, { name, labels }),
  ];
}

function driverOf(labels: NodeReading["labels"]): string | undefined {
  const of = (part: string) => labels[`nvidia.com/cuda.driver.${part}`];
  const parts = [of("major"), of("minor"), of("rev")].filter((part) => part !== undefined && part !== "");
  return labels["nvidia.com/cuda.driver-version.full"] ?? (parts.length === 0 ? undefined : parts.join("."));
}

function driverFindings(
  { release }: ClusterGpuPlan,
  gpu: Parameters<typeof driverVerdict>[2],
  { name, labels }: Pick<NodeReading, "name" | "labels">,
): readonly Finding[] {
  const driver = driverOf(labels);
  if (driver === undefined || release.minimumDriver === null) return [];
  const verdict = driverVerdict(driver, release.minimumDriver, gpu);
  if (verdict === "new enough") return [];
  const report = verdict === "too old" ? problem : warning;
  return [
    report(
      "driver",
      `The driver of the machine ${name} is ${driver}.`,
      `Release ${release.tag} needs ${release.minimumDriver}${verdict === "too old" ? ", and its image's compatibility package does not cover this driver and GPU" : "; its image brings a compatibility package, which NVIDIA supports on data-centre GPUs"}.`,
      verdict === "too old"
        ? `Install driver ${release.minimumDriver} or newer, or choose an older release (docs/support-matrix.md).`
        : `Nothing, if the first build succeeds; else install driver ${release.minimumDriver} or newer.`,
    ),
  ];
}

/** Whether all pods of a pool find a machine beside what runs there already, and a build and a roll-out too. */
function roomFindings({ stack }: GpuTarget, pool: PoolSpec, free: readonly FreeNode[]): readonly Finding[] {
  const isOfPool = ({ pod }: { readonly pod: { readonly pool: string | null } }) => pod.pool === pool.name;
  const kept = keptPods(stack).filter(isOfPool);
  const homeless = homelessPods(free, kept);
  const report = grows(pool) ? warning : problem;
  const elsewhere = grows(pool)
    ? `Nothing, if the cluster's autoscaler adds machines (the pool has ${free.length} of ${pool.nodes.max})`
    : "Add machines or end what runs there";
  if (homeless.length > 0)
    return [
      report(
        "room",
        `${homeless.length} of ${kept.length} pods of the pool ${pool.name} find no machine now: ${names(homeless)}.`,
        `They ask for ${wants(homeless[0]?.pod.resources)}; free are ${freeText(free)}.`,
        `${elsewhere}; \`kubectl describe nodes\` says who takes what.`,
      ),
    ];
  const builds = stack.builds.filter(isOfPool);
  const stuck = builds.filter((build) => homelessPods(free, [build]).length > 0);
  const rolled = stack.models.filter((one) => isOfPool(one) && one.rollout === "surge");
  const waiting = rolled.filter((one) => homelessPods(free, [...kept, one]).length > 0);
  return [
    ...(stuck.length === 0
      ? []
      : [
          report(
            "room",
            `${stuck.length} of ${builds.length} builds in the pool ${pool.name} find no machine now: ${names(stuck)}.`,
            `They ask for ${wants(stuck[0]?.pod.resources)}; free are ${freeText(free)}.`,
            `${elsewhere}, or build in another pool (models[].buildPool).`,
          ),
        ]),
    ...(waiting.length === 0
      ? []
      : [
          warning(
            "room",
            `No new pod of ${names(waiting)} finds a machine beside the old one.`,
            `The plan counts on ${pool.nodes.max} machines in the pool ${pool.name}, and a roll-out that surges waits until there is one.`,
            `${elsewhere}, or set \`rollout: inPlace\` for the model.`,
          ),
        ]),
  ];
}
