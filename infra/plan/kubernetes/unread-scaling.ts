/** Autoscalers choose by series that Prometheus must have been told to read. */
import { type Problem, showValue } from "../../problems.ts";
import { type ClusterConfig, leastReplicas } from "./cluster.ts";

/** A warning where nothing of the stack tells it so: the cluster's owner may have. */
export function unreadScaling(config: ClusterConfig): readonly Problem[] {
  const scaled = Object.keys(leastReplicas(config));
  if (config.monitoring !== "none" || scaled.length === 0) return [];
  return [
    {
      path: "monitoring",
      value: showValue(config.monitoring),
      reason: `Prometheus is told to read nothing of the stack, and autoscalers choose by what it has read: the number of ${scaled.join(", ")} would stay as it is, and a server that sleeps would never wake.`,
      fix: "Write prometheus-operator, or have your own Prometheus read the stack's Services.",
    },
  ];
}
