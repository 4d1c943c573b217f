/** Servers of language models that go to zero pods and come back; gateway, encoders, databases and store stay. */
import type { AutoscalerPlan } from "../../infra/plan/kubernetes/autoscaling.ts";
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ServerPlan } from "../../infra/plan/kubernetes/servers.ts";
import { type ClusterProbe, kubectlItems, kubectlText } from "./kubectl.ts";
import {
  PAUSED_REPLICAS,
  type PausedReplicas,
  readPausedReplicas,
  SCALED_OBJECTS,
} from "./scaled-objects.ts";
import { ownSelection } from "./workload-states.ts";

/** What a cluster has of a stack's servers. */
export interface ServerReading {
  /** Pods that each Deployment is kept at, by its name. */
  readonly replicas: ReadonlyMap<string, number>;
  readonly paused: PausedReplicas;
}

/** A row of the table: what a server was kept at, and what it is kept at from now on. */
export interface ServerChange {
  readonly server: string;
  /** null: the cluster has none of that name. */
  readonly from: number | null;
  readonly to: number | null;
  /** For people; empty where there is nothing to say. */
  readonly note: string;
  /** Words after `kubectl`, in their order; none where all is so already. */
  readonly commands: readonly (readonly string[])[];
}

/** @throws UserError where the cluster gives no answer. */
export async function readServers(stack: KubernetesStack, probe: ClusterProbe): Promise<ServerReading> {
  const own = ownSelection(stack);
  const [deployments, paused] = await Promise.all([
    kubectlItems<{
      readonly metadata: { readonly name: string };
      readonly spec: { readonly replicas?: number };
    }>(probe, ["deployments.apps", ...own]),
    readPausedReplicas(stack, probe, own),
  ]);
  return {
    // The API's own default is 1.
    replicas: new Map(deployments.map(({ metadata, spec }) => [metadata.name, spec.replicas ?? 1])),
    paused,
  };
}

/** Makes changes one after the other. @throws UserError at the first that the cluster refuses. */
export async function applyChanges(probe: ClusterProbe, changes: readonly ServerChange[]): Promise<void> {
  for (const command of changes.flatMap(({ commands }) => commands)) await kubectlText(probe, command);
}

/** All servers of models at zero. Pure. */
export function sleepChanges(stack: KubernetesStack, reading: ServerReading): readonly ServerChange[] {
  return stack.models.map(({ name: server }) => {
    const from = reading.replicas.get(server);
    if (from === undefined) return missing(server);
    const owner = kedaOwner(stack, server);
    const paused = owner === undefined ? undefined : reading.paused.get(owner.name);
    // First, or KEDA scales it up again.
    const pause = paused === undefined || paused === "0" ? [] : [annotate(stack, server, "0")];
    const commands = [...pause, ...(from === 0 ? [] : [scale(stack, server, 0)])];
    return { server, from, to: 0, note: sleepNote(commands.length, owner, paused), commands };
  });
}

function sleepNote(
  commands: number,
  owner: AutoscalerPlan | undefined,
  paused: string | null | undefined,
): string {
  if (owner !== undefined && paused === undefined)
    return `there is no ScaledObject ${owner.name}: nothing keeps it asleep when \`up\` makes it`;
  if (commands === 0) return "sleeps already";
  return paused === undefined || paused === null || paused === "0"
    ? ""
    : `was kept at ${paused} by ${PAUSED_REPLICAS}`;
}

/**
 * All servers of models as they are planned; one that has pods is left at its number. Pure.
 *
 * @param startsIn - Words for the planned cold start of a model; null where there is no estimate.
 */
export function wakeChanges(
  stack: KubernetesStack,
  reading: ServerReading,
  startsIn: (server: string) => string | null,
): readonly ServerChange[] {
  return stack.models.map((model) => {
    const server = model.name;
    const from = reading.replicas.get(server);
    if (from === undefined) return missing(server);
    const owner = stack.autoscalers.find(({ name }) => name === server);
    const planned = plannedReplicas(model, owner);
    const isPaused = owner !== undefined && (reading.paused.get(owner.name) ?? null) !== null;
    const to = from === 0 ? planned : from;
    return {
      server,
      from,
      to,
      note: wakeNote({ from, to, isPaused, startsIn: startsIn(server) }),
      commands: [
        // First, or KEDA takes it back to zero.
        ...(isPaused ? [annotate(stack, server, null)] : []),
        // KEDA alone would not: a server that is away has no metrics, and to KEDA that is an error.
        ...(to === from ? [] : [scale(stack, server, to)]),
      ],
    };
  });
}

interface Waking {
  readonly from: number;
  readonly to: number;
  readonly isPaused: boolean;
  readonly startsIn: string | null;
}

function wakeNote({ from, to, isPaused, startsIn }: Waking): string {
  const time = startsIn === null ? "" : `about ${startsIn}`;
  if (from > 0) return isPaused ? "has pods, and follows its load again" : "is awake already";
  if (to > 0) return time === "" ? "starts" : `starts in ${time}`;
  const starts = `starts when it is asked or scheduled${time === "" ? "" : `, in ${time}`}`;
  return isPaused ? starts : `is awake already, and ${starts}`;
}

/** Pods that a server has when nobody asks. */
function plannedReplicas({ replicas }: ServerPlan, owner: AutoscalerPlan | undefined): number {
  // Of a plan, one of the two is there.
  return replicas ?? owner?.replicas.min ?? 1;
}

function kedaOwner({ autoscalers }: KubernetesStack, server: string): AutoscalerPlan | undefined {
  return autoscalers.find(({ name, mechanism }) => name === server && mechanism === "keda");
}

function missing(server: string): ServerChange {
  return { server, from: null, to: null, note: "is not there; `npx engine-room up` makes it", commands: [] };
}

/** An autoscaler leaves a Deployment alone that has no pods. */
function scale({ namespace }: KubernetesStack, server: string, replicas: number): readonly string[] {
  return ["scale", "deployments.apps", server, "--namespace", namespace.name, "--replicas", `${replicas}`];
}

function annotate(stack: KubernetesStack, server: string, value: string | null): readonly string[] {
  const name = kedaOwner(stack, server)?.name ?? server;
  const annotation =
    value === null ? [`${PAUSED_REPLICAS}-`] : [`${PAUSED_REPLICAS}=${value}`, "--overwrite"];
  return ["annotate", SCALED_OBJECTS, name, ...annotation, "--namespace", stack.namespace.name];
}
