/** Whether quotas that others have set leave enough for a stack. Pure. */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ClusterReading } from "./cluster-reading.ts";
import { isOfStack, isUp, keptPods, podRequests } from "./cluster-space.ts";
import { type Finding, problem, warning } from "./finding.ts";
import { quantity } from "./quantity.ts";

/** Quotas of others: that of the stack's own namespace follows the plan. */
export function quotaFindings(stack: KubernetesStack, reading: ClusterReading): readonly Finding[] {
  const others = (reading.quotas ?? []).filter(({ name }) => name !== stack.quota?.metadata.name);
  const wanted = wantedAmounts(stack);
  const own = isUp(stack, reading) ? ownAmounts(stack, reading) : new Map<string, number>();
  return others.flatMap(({ name, hard, used }) =>
    Object.entries(hard).flatMap(([resource, text]) => {
      if (/^limits\.(cpu|memory)$/.test(resource))
        return [
          warning(
            "quota",
            `The quota ${name} wants ${resource} of every pod.`,
            "Pods of the stack set no limit where the plan has only an estimate, and are refused then.",
            "Add a LimitRange with a default to the namespace, or take that line out of the quota.",
          ),
        ];
      const needed = wanted.get(resource.replace(/^(cpu|memory)$/, "requests.$1"));
      if (needed === undefined) return [];
      const taken = quantity(used[resource] ?? "0") - (own.get(resource) ?? 0);
      const free = quantity(text) - taken;
      if (free >= needed) return [];
      const show = (amount: number) => shown(resource, amount);
      return [
        problem(
          "quota",
          `The quota ${name} leaves ${show(Math.max(0, free))} of ${resource}.`,
          `The stack takes ${show(needed)} when it is up; ${show(quantity(text))} are allowed in all.`,
          "Ask whoever owns the namespace for more, or use another one.",
        ),
      ];
    }),
  );
}

function shown(resource: string, amount: number): string {
  return /memory|storage/.test(resource) ? `${(amount / 2 ** 30).toFixed(1)} GiB` : String(amount);
}

/** By resource of a quota. */
function wantedAmounts(stack: KubernetesStack): ReadonlyMap<string, number> {
  const kept = keptPods(stack);
  const sums = new Map<string, number>([
    ["pods", kept.length],
    ["persistentvolumeclaims", stack.databases.length + (stack.store?.object == null ? 0 : 1)],
  ]);
  for (const { pod } of kept)
    for (const [resource, amount] of Object.entries(podRequests(pod.resources)))
      sums.set(`requests.${resource}`, (sums.get(`requests.${resource}`) ?? 0) + amount);
  return sums;
}

/** What pods of the stack take of it already. */
function ownAmounts(stack: KubernetesStack, { pods }: ClusterReading): ReadonlyMap<string, number> {
  const own = (pods ?? []).filter(isOfStack(stack));
  const sums = new Map<string, number>([["pods", own.length]]);
  for (const [resource, text] of own
    .flatMap(({ requests }) => requests)
    .flatMap((one) => Object.entries(one))) {
    const key = `requests.${resource}`;
    sums.set(key, (sums.get(key) ?? 0) + quantity(text));
  }
  return sums;
}
