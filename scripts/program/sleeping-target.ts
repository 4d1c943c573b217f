/** A stack whose servers, or whose machine, can be put to sleep. */
import { UsageError } from "../errors.ts";
import { type AwsTarget, awsTarget } from "./aws-target.ts";
import { type ClusterTarget, clusterTarget } from "./cluster-target.ts";
import { readPlan } from "./docker-target.ts";
import type { StackReference } from "./stack-file.ts";

type SleepingTarget =
  | { readonly kind: "cluster"; readonly cluster: ClusterTarget }
  /** A machine that AWS stops and starts. */
  | { readonly kind: "machine"; readonly aws: AwsTarget };

/** @throws UsageError for a platform whose servers and machines are not an API's to scale. */
export function sleepingTarget(reference: StackReference, command: "sleep" | "wake"): SleepingTarget {
  const plan = readPlan(reference);
  if ("cluster" in plan) return { kind: "cluster", cluster: clusterTarget(plan, reference.name) };
  if (plan.platform === "aws") return { kind: "machine", aws: awsTarget(plan, reference.name) };
  const what = plan.tier === "gpu" ? "documents and engines" : "documents";
  const instead = {
    sleep: `\`npm run down -- --stack ${reference.name}\` ends it and keeps its ${what}`,
    wake: `\`npm start -- --stack ${reference.name}\` brings it up`,
  }[command];
  throw new UsageError(
    `${command} is for stacks in a Kubernetes cluster or on AWS, and the stack ${reference.name} has \`platform: ${plan.platform}\`; ${instead}.`,
  );
}
