/**
 * Servers of language models that are scaled to zero and back; gateway, encoders, databases and store continue to run.
 */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import { until } from "../aws/session.ts";
import { UserError } from "../errors.ts";
import { duration, textTable } from "../plan/text-table.ts";
import type { ClusterTarget } from "../program/targets.ts";
import { type ClusterProbe, kubectlText } from "./kubectl.ts";
import {
  isServing,
  ownObjects,
  PAUSED_REPLICAS,
  type PausedReplicas,
  readPausedReplicas,
  SCALED_OBJECTS,
  type WorkloadObject,
  type WorkloadStatus,
  workloadStatuses,
} from "./workloads.ts";

/** A server's replicas before and after. JSON of the commands. */
export interface ServerChange {
  readonly server: string;
  /** null when the cluster lacks the server. */
  readonly from: number | null;
  readonly to: number | null;
  /** For people; may be empty. */
  readonly note: string;
}

/** Arguments of kubectl, in their order; empty when nothing changes. */
type PlannedChange = ServerChange & { readonly commands: readonly (readonly string[])[] };

/** State of a stack's servers in a cluster. */
export interface ServerReading {
  /** Replicas of each Deployment, by its name. */
  readonly replicas: ReadonlyMap<string, number>;
  readonly paused: PausedReplicas;
}

/**
 * Plans changes from the cluster's state, and makes them one after the other.
 *
 * @throws UserError if the cluster does not answer, and at the first change that it refuses.
 */
export async function changeServers(
  { stack, plan }: ClusterTarget,
  probe: ClusterProbe,
  direction: "sleep" | "wake",
): Promise<readonly ServerChange[]> {
  const [deployments, paused] = await Promise.all([
    ownObjects<WorkloadObject>(stack, probe, "deployments.apps"),
    readPausedReplicas(stack, probe),
  ]);
  // The API's own default is 1.
  const replicas = new Map(deployments.map(({ metadata, spec }) => [metadata.name, spec.replicas ?? 1]));
  // A stack on a CPU has no estimates.
  const estimates = plan.tier === "cpu" ? [] : plan.models;
  const seconds = new Map(estimates.map((model) => [model.name, model.coldStart.seconds]));
  const reading = { replicas, paused };
  const changes = direction === "sleep" ? sleepChanges(stack, reading) : wakeChanges(stack, reading, seconds);
  for (const command of changes.flatMap(({ commands }) => commands)) await kubectlText(probe, command);
  return changes.map(({ commands: _, ...change }) => change);
}

/** Scales all servers of models to zero. Pure. */
export function sleepChanges(stack: KubernetesStack, reading: ServerReading): readonly PlannedChange[] {
  return stack.models.map(({ name: server }) => {
    const from = reading.replicas.get(server);
    if (from === undefined) return missing(server);
    const paused = reading.paused.get(server);
    const commands = [
      // First, or KEDA scales it up again.
      ...(paused === undefined || paused === "0"
        ? []
        : [annotate(stack, server, [`${PAUSED_REPLICAS}=0`, "--overwrite"])]),
      ...(from === 0 ? [] : [scale(stack, server, 0)]),
    ];
    return { server, from, to: 0, note: commands.length === 0 ? "sleeps already" : "", commands };
  });
}

/**
 * Scales all servers of models to their plan; a server with pods is unchanged. Pure.
 *
 * @param seconds - Planned cold start by model.
 */
export function wakeChanges(
  stack: KubernetesStack,
  reading: ServerReading,
  seconds: ReadonlyMap<string, number>,
): readonly PlannedChange[] {
  return stack.models.map(({ name: server, replicas }) => {
    const from = reading.replicas.get(server);
    if (from === undefined) return missing(server);
    const owner = stack.autoscalers.find(({ name }) => name === server);
    // A plan has either a number or an autoscaler.
    const to = from === 0 ? (replicas ?? owner?.replicas.min ?? 1) : from;
    const commands = [
      // First, or KEDA takes it back to zero.
      ...((reading.paused.get(server) ?? null) === null
        ? []
        : [annotate(stack, server, [`${PAUSED_REPLICAS}-`])]),
      // KEDA would not start it: a stopped server has no metrics, which KEDA treats as an error.
      ...(to === from ? [] : [scale(stack, server, to)]),
    ];
    const estimate = seconds.get(server);
    const time = estimate === undefined ? "" : ` in about ${duration(estimate)}`;
    const note = from > 0 ? "is awake already" : to > 0 ? `starts${time}` : `starts at a request${time}`;
    return { server, from, to, note, commands };
  });
}

function missing(server: string): PlannedChange {
  return {
    server,
    from: null,
    to: null,
    note: "does not exist; `npx engine-room up` creates it",
    commands: [],
  };
}

/** An autoscaler does not change a Deployment without pods. */
function scale({ namespace }: KubernetesStack, server: string, replicas: number): readonly string[] {
  return ["scale", "deployments.apps", server, "--namespace", namespace.name, "--replicas", `${replicas}`];
}

function annotate(
  { namespace }: KubernetesStack,
  server: string,
  words: readonly string[],
): readonly string[] {
  return ["annotate", SCALED_OBJECTS, server, ...words, "--namespace", namespace.name];
}

/** A line for each server. */
export function serverTable(changes: readonly ServerChange[]): string {
  const rows = changes.map(({ server, from, to, note }) => [server, `${from ?? "-"}`, `${to ?? "-"}`, note]);
  return textTable(["SERVER", ">FROM", ">TO", ""], rows, { indent: 0 }).join("\n");
}

/** A large model on a machine that is still to start, once AWS has a machine. */
const LONGEST_START_SECONDS = 3600;

/** Waits until every pod of the stack is ready. @throws UserError with the state of each missing pod. */
export async function awaitServers(
  { name, stack }: ClusterTarget,
  probe: ClusterProbe,
  pollSeconds = 10,
): Promise<void> {
  let statuses: readonly WorkloadStatus[] = [];
  await until(LONGEST_START_SECONDS, pollSeconds, async () => {
    statuses = await workloadStatuses(stack, probe);
    return statuses.every(({ state }) => state !== "STARTING" && state !== "WAITING") || undefined;
  });
  if (isServing(statuses)) return;
  const notServing = statuses.filter((one) => !isServing([one]));
  throw new UserError(
    `Not all of ${name} runs: ${notServing.map(({ name: one, state, why }) => `${one} (${why ?? state})`).join("; ")}. \`npx engine-room status --stack ${name}\` shows whether they come later, and \`npx engine-room logs\` says more.`,
  );
}

/** Lists servers that continue to run, and the cost of unused machines. */
export function sleepReport(name: string, stack: KubernetesStack, changes: readonly ServerChange[]): string {
  const endSeconds = stack.models.map(({ pod }) => pod.template.spec?.terminationGracePeriodSeconds ?? 0);
  const kept = stack.encoders?.pod.resources.gpus ?? null;
  const encoders =
    kept === null ? "" : ` The encoders keep ${kept.count} × ${kept.resource} for each of their pods.`;
  return `${serverTable(changes)}

Pods end once they have answered, within ${duration(Math.max(...endSeconds))}; then their GPUs, cores and memory are free for other pods. A machine costs the same until you or the cluster's autoscaler remove it.${encoders}
Requests for these models are answered with 503 and Retry-After. \`npx engine-room wake --stack ${name}\` brings them back.
`;
}

export function wakeReport(name: string, changes: readonly ServerChange[]): string {
  return `${serverTable(changes)}

\`npx engine-room status --stack ${name}\` shows their progress; times are the plan's estimates, on running machines.
`;
}
