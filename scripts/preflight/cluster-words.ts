/** Pods and machines as findings name them. Pure. */
import type { PodResources } from "../../infra/plan/kubernetes/capacity.ts";
import type { FreeNode } from "./cluster-space.ts";

const GIB = 2 ** 30;

/** Most machines that a sentence lists. */
const LISTED_MACHINES = 5;

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

/** What machines have free, those with most memory first. */
export function freeText(nodes: readonly FreeNode[]): string {
  const sorted = nodes.toSorted((a, b) => (b.free.memory ?? 0) - (a.free.memory ?? 0));
  const listed = sorted.slice(0, LISTED_MACHINES).map(machineText);
  const rest = sorted.length - listed.length;
  return [...listed, ...(rest === 0 ? [] : [`and ${rest} more`])].join("; ");
}

function machineText({ node, free }: FreeNode): string {
  const devices = Object.entries(free).filter(([key]) => key.includes("/") && !key.startsWith("hugepages"));
  return [
    node.name,
    ...devices.map(([key, amount]) => `${amount} × ${key}`),
    `${(free.cpu ?? 0).toFixed(1)} cores`,
    `${((free.memory ?? 0) / GIB).toFixed(1)} GiB`,
  ].join(" ");
}
