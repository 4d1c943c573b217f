/** What `sleep` and `wake` say. Pure. */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import { duration, textTable } from "../plan/text-table.ts";
import type { ServerChange } from "./sleep.ts";

function table(changes: readonly ServerChange[]): string {
  const columns = ["SERVER", ">FROM", ">TO", ""];
  const number = (pods: number | null) => (pods === null ? "-" : String(pods));
  return textTable(
    columns,
    changes.map(({ server, from, to, note }) => [server, number(from), number(to), note]),
    { indent: 0 },
  ).join("\n");
}

/** What is left running, and what a machine that nobody uses still costs. */
export function sleepReport(name: string, stack: KubernetesStack, changes: readonly ServerChange[]): string {
  const { models, encoders } = stack;
  const endSeconds = Math.max(
    ...models.map(({ pod }) => pod.template.spec?.terminationGracePeriodSeconds ?? 0),
  );
  const isOnGpus = models.some(({ pod }) => pod.resources.gpus !== null);
  const kept = encoders?.pod.resources.gpus ?? null;
  return [
    table(changes),
    "",
    `Pods end once they have answered, within ${duration(endSeconds)}; then their ${isOnGpus ? "GPUs" : "cores and memory"} are free for other pods, while a machine costs what it costs until you or the cluster's autoscaler take it away.`,
    ...(kept === null
      ? []
      : [`The encoders stay, with ${kept.count} × ${kept.resource} for each of their pods.`]),
    `Requests for these models are answered with 503 and Retry-After. \`npx engine-room wake --stack ${name}\` brings them back.`,
    "",
  ].join("\n");
}

export function wakeReport(name: string, changes: readonly ServerChange[]): string {
  return [
    table(changes),
    "",
    `\`npx engine-room status --stack ${name}\` shows them come; times are the plan's estimates, on machines that are there.`,
    "",
  ].join("\n");
}
