/** Updates that a service refuses by rules of its own, which no provider's schema knows: `up` ends there. */
import type { ResourceChange } from "../types.ts";
import type { Inline } from "./inline.ts";

interface Refusal {
  /** Of the properties that it is about. */
  readonly paths: RegExp;
  readonly words: string;
}

/** By type. */
const REFUSALS: Readonly<Record<string, Refusal>> = {
  // https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
  "aws:eks/cluster:Cluster": {
    paths: /^vpcConfig\.subnetIds\b/,
    words:
      "EKS takes subnets only in the zones that the cluster was made with, and wants one in each of them: in others `up` ends there",
  },
};

export function refusals({ kind, type, properties }: ResourceChange): readonly Inline[] {
  const rule = REFUSALS[type];
  if (kind !== "update" || rule === undefined) return [];
  return properties.some(({ path }) => rule.paths.test(path)) ? [[rule.words]] : [];
}
