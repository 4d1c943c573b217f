/** Whether pods that no pool has find room: all of `tier: cpu`, else gateway, databases and encoders. Pure. */
import type { ClusterTarget } from "../program/cluster-target.ts";
import type { ClusterReading } from "./cluster-reading.ts";
import { freeNodes, homelessPods, isOfStack, keptPods, mayRunOn } from "./cluster-space.ts";
import { freeText, names, wants } from "./cluster-words.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** What the plan says nothing of: it knows the machines of pools alone. */
export function frontFindings(
  { stack, plan }: ClusterTarget,
  { nodes, pods }: ClusterReading,
): readonly Finding[] {
  if (nodes === null) return [];
  const kept = keptPods(stack);
  const front = kept.filter(({ pod }) => pod.pool === null);
  const [first] = front;
  if (first === undefined) return [];
  // All of them have the same.
  const { nodeSelector = {}, tolerations = [] } = first.pod.template.spec ?? {};
  const takers = nodes.filter((node) => node.takesPods);
  const usable = takers.filter((node) => mayRunOn(node, nodeSelector, tolerations));
  if (usable.length === 0) return [noMachine(nodes.length, nodeSelector, plan.tier === "cpu")];
  const machines = freeNodes(takers, pods ?? [], isOfStack(stack));
  // Those of pools first, as they have fewer machines to choose from.
  const homeless = homelessPods(machines, kept).filter((one) => front.includes(one));
  if (homeless.length === 0) return [];
  const largest = homeless.toSorted((a, b) => b.pod.resources.memoryMiB - a.pod.resources.memoryMiB)[0];
  const isTooLarge = homelessPods(
    freeNodes(usable, [], () => true),
    largest === undefined ? [] : [largest],
  );
  const report = isTooLarge.length > 0 ? problem : warning;
  return [
    report(
      "room",
      `${homeless.length} of ${front.length} pods that need no GPU find no machine now: ${names(homeless)}.`,
      `The largest asks for ${wants(largest?.pod.resources)}${plan.tier === "gpu" ? ", beside the pods of pools" : ""}; ${isTooLarge.length > 0 ? "no machine has that when it is empty" : `free are ${freeText(machines.filter(({ node }) => usable.includes(node)))}`}.`,
      isTooLarge.length > 0
        ? `Use larger machines${plan.tier === "cpu" ? ", or correct machines.nodeSelector" : ", or add a pool without GPUs"}.`
        : "Nothing, if the cluster's autoscaler adds machines; else add one or end what runs there. `kubectl describe nodes` says who takes what.",
    ),
  ];
}

function noMachine(
  count: number,
  selector: Readonly<Record<string, string>>,
  isOfMachines: boolean,
): Finding {
  const labels = Object.entries(selector).map(([key, value]) => `${key}=${value}`);
  return problem(
    "machines",
    "No machine of the cluster takes pods of the stack that need no GPU.",
    `Of ${count}, each is not ready, cordoned, has a taint that they do not tolerate${labels.length === 0 ? "" : `, or lacks ${labels.join(", ")}`}.`,
    isOfMachines
      ? "`kubectl get nodes --show-labels` has what there is: correct machines.nodeSelector and machines.tolerations."
      : "Add a machine that is free for everybody, or a pool without GPUs with its nodeSelector and tolerations.",
  );
}
