/** What goes first where not everything fits. */
import type { ClusterPlan } from "./cluster-plan.ts";
import { objectLabels } from "./labels.ts";
import type { PriorityPlan } from "./types.ts";

/** `front`: the gateway and the databases. */
type Urgency = "front" | "serving" | "building";

/** Below those of the system (2,000,000,000), and above pods without one (0). */
const FRONT = 3000;
const SERVING = 1000;
/** `engines.whenFull: stopServer`: the scheduler takes a server's GPU away for the build, and gives it back afterwards. */
const BUILDING_FIRST = 2000;
const BUILDING_LAST = 500;

/** Name of a class; null where the stack makes none. */
export function priorityClass({ cluster }: ClusterPlan, urgency: Urgency): string | null {
  return cluster.createsPriorities ? `${cluster.namespace.name}-${urgency}` : null;
}

export function priorities(stack: string, plan: ClusterPlan): readonly PriorityPlan[] {
  if (!plan.cluster.createsPriorities) return [];
  const of = (urgency: Urgency, value: number, preempts: boolean, description: string): PriorityPlan => ({
    name: `${plan.cluster.namespace.name}-${urgency}`,
    labels: objectLabels(stack),
    value,
    preempts,
    description,
  });
  return [
    of("front", FRONT, true, "The gateway and its databases."),
    of("serving", SERVING, true, "Triton Inference Servers."),
    ...(plan.tier === "cpu" ? [] : [building(plan.spec.whenFull === "stopServer")]),
  ];

  function building(stopsServer: boolean): PriorityPlan {
    return of(
      "building",
      stopsServer ? BUILDING_FIRST : BUILDING_LAST,
      stopsServer,
      stopsServer
        ? "Builds of engines: a server goes while they need its GPU."
        : "Builds of engines: they wait for a GPU that is free.",
    );
  }
}
