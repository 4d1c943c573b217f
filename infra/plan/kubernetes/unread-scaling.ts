/** Autoscalers choose by series that Prometheus must have been told to read. */
import { type Problem, showValue } from "../../problems.ts";
import { type ClusterConfig, leastReplicas } from "./cluster.ts";

/** A warning where nothing of the stack tells it so: the cluster's owner may have. */
export function unreadScaling(config: ClusterConfig): readonly Problem[] {
  const least = leastReplicas(config);
  const scaled = Object.keys(least);
  if (config.monitoring !== "none" || scaled.length === 0) return [];
  const sleepers = Object.values(least).includes(0) ? ", and what sleeps would never wake" : "";
  return [
    {
      path: "monitoring",
      value: showValue(config.monitoring),
      reason: `Prometheus is told to read nothing of the stack, and autoscalers choose by what it has read: the number of ${scaled.join(", ")} would stay as it is${sleepers}.`,
      fix: "Write prometheus-operator, or have Prometheus read the stack's Services under the labels `namespace` and `service`.",
    },
  ];
}
