/** What `down` leaves of a stack in a cluster. */
import type { ClusterPlan } from "./cluster-plan.ts";

/** Whether its namespace, engine store and databases stay: `retain` of the stack file, which many stacks may share. */
export function isRetained(stack: string, { cluster: { retained } }: Pick<ClusterPlan, "cluster">): boolean {
  return retained?.includes(stack) ?? true;
}
