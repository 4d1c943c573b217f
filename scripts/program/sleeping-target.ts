/** A stack whose servers can be put to sleep. */
import { UsageError } from "../errors.ts";
import { type ClusterTarget, clusterTarget } from "./cluster-target.ts";
import { readPlan } from "./docker-target.ts";
import type { StackReference } from "./stack-file.ts";

/** @throws UsageError for a platform whose servers are not an API's to scale. */
export function sleepingTarget(reference: StackReference, command: "sleep" | "wake"): ClusterTarget {
  const plan = readPlan(reference);
  if (!("cluster" in plan))
    throw new UsageError(
      `${command} is for stacks in a Kubernetes cluster, and ${reference.name} runs on ${plan.platform}; \`npm run down\` ends it and keeps its engines.`,
    );
  return clusterTarget(plan, reference.name);
}
