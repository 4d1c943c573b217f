/** What the namespace of a stack may take in all: a mistake beside the stack does not take the cluster. */
import { objectLabels } from "./labels.ts";
import type { PodPlan } from "./pod-types.ts";
import type { DatabasePlan, PrePullPlan, QuotaPlan, ServerPlan } from "./types.ts";

/** Pods of the scripts: bench, smoke, and a try of somebody's own. */
const TOOLS = { pods: 4, cpuMillis: 4000, memoryMiB: 8192 } as const;

interface Pods {
  readonly servers: readonly ServerPlan[];
  readonly databases: readonly DatabasePlan[];
  readonly prePulls: readonly PrePullPlan[];
  /** Of builds, all at a time. */
  readonly builds: readonly PodPlan[];
  readonly claims: number;
}

/** All pods of a stack at a time, those of servers twice, and the tools': old ones may still end while all new ones are there. */
export function quota(stack: string, { servers, databases, prePulls, builds, claims }: Pods): QuotaPlan {
  const pods: readonly PodPlan[] = [
    ...servers.flatMap(({ pod, maxReplicas }) => Array.from({ length: 2 * maxReplicas }, () => pod)),
    ...databases.map(({ pod }) => pod),
    ...prePulls.flatMap(({ pod, machines }) => Array.from({ length: machines }, () => pod)),
    ...builds,
  ];
  const sum = (of: (pod: PodPlan) => number) => pods.reduce((total, pod) => total + of(pod), 0);
  const gpuResources = [...new Set(pods.flatMap(({ resources: { gpus } }) => gpus?.resource ?? []))].sort();
  const gpus = gpuResources.map((resource) => [
    `requests.${resource}`,
    String(sum(({ resources }) => (resources.gpus?.resource === resource ? resources.gpus.count : 0))),
  ]);
  return {
    name: "stack",
    labels: objectLabels(stack),
    hard: Object.fromEntries(
      [
        ["persistentvolumeclaims", String(claims)],
        ["pods", String(pods.length + TOOLS.pods)],
        ["requests.cpu", `${sum(({ resources }) => resources.cpuMillis) + TOOLS.cpuMillis}m`],
        ["requests.memory", `${sum(({ resources }) => resources.memoryMiB) + TOOLS.memoryMiB}Mi`],
        ...gpus,
      ].sort(([a = ""], [b = ""]) => (a < b ? -1 : 1)),
    ),
  };
}
