/** Whose namespace it is: `up` gives one that it makes labels and a quota, whoever else is in it. */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ClusterReading } from "./cluster-reading.ts";
import { type Finding, problem } from "./finding.ts";

/** Of all objects of a stack. */
const STACK_LABEL = "app.kubernetes.io/instance";

/** @param stackName - As the labels have it. */
export function namespaceFindings(
  { namespace: { name, object } }: KubernetesStack,
  stackName: string,
  { hasNamespace, namespaceLabels }: Pick<ClusterReading, "hasNamespace" | "namespaceLabels">,
): readonly Finding[] {
  if (object === null)
    return hasNamespace !== false
      ? []
      : [
          problem(
            "namespace",
            `There is no namespace ${name}.`,
            "The stack file names something in it, or has `createNamespace: false`, so that it must be there.",
            `\`kubectl create namespace ${name}\`, and put there what the stack file names.`,
          ),
        ];
  // One that an earlier `up` of the same stack has left is its own.
  if (hasNamespace !== true || namespaceLabels?.[STACK_LABEL] === object.metadata.labels[STACK_LABEL])
    return [];
  const owner = namespaceLabels?.[STACK_LABEL];
  return [
    problem(
      "namespace",
      `The namespace ${name} is there already, and the stack ${stackName} has not made it.`,
      `${owner === undefined ? "It is somebody's" : `The stack ${owner} has made it`}, and would get this stack's Pod Security labels and quota.`,
      "Name another one in `namespace`; or write `createNamespace: false`, which leaves it as it is.",
    ),
  ];
}
