/** How the containers that a stack file wants are, from what its host has. Pure. */
import { isTask } from "../../infra/plan/containers/container.ts";
import type { DockerContainer } from "../../infra/plan/docker/container-args.ts";
import type { DockerStack } from "../../infra/plan/docker/docker-stack.ts";
import { containerName, type HostContainer } from "./containers.ts";

type ServiceState =
  | "RUNNING"
  /** It runs, and its health check has not yet said that it is ready. */
  | "STARTING"
  | "UNHEALTHY"
  | "PAUSED"
  | "RESTARTING"
  | "STOPPED"
  /** Of a task: it ended with exit code 0. */
  | "DONE"
  | "FAILED"
  /** The host has no such container. */
  | "MISSING"
  /** The stack file has no such container. */
  | "UNPLANNED";

export interface ServiceStatus {
  /** As the stack's outputs name it; of a build, with the key of what it makes. */
  readonly name: string;
  /** On the host. */
  readonly container: string;
  readonly state: ServiceState;
  /** Since its last start; absent where it does not run. */
  readonly uptimeSeconds?: number;
  /** Of what has ended. */
  readonly exitCode?: number;
  /** How often the engine started it again. */
  readonly restarts: number;
  /** Of the host, by the container's own. */
  readonly ports: Readonly<Record<string, number>>;
}

/** In the order of the plan, then what the plan does not have. @param now - Milliseconds since 1970. */
export function serviceStatuses(
  stackName: string,
  { containers }: DockerStack,
  found: readonly HostContainer[],
  now: number,
): readonly ServiceStatus[] {
  const byName = new Map(found.map((container) => [containerName(container), container]));
  const planned = new Set(containers.map(({ args }) => args.name));
  return [
    ...containers.map((container): ServiceStatus => {
      const { name, ports: published } = container.args;
      const ports = published.map(({ internal, external }) => [internal, external]);
      return {
        ...described(stackName, name, byName.get(name), now),
        state: stateOf(container, byName.get(name)),
        ports: Object.fromEntries(ports),
      };
    }),
    ...[...byName]
      .filter(([name]) => !planned.has(name))
      .map(([name, container]): ServiceStatus => {
        return { ...described(stackName, name, container, now), state: "UNPLANNED", ports: {} };
      }),
  ];
}

/** Whether the stack is as its file wants it, and serves. */
export function isServing(statuses: readonly ServiceStatus[]): boolean {
  return (
    statuses.length > 0 && statuses.every(({ state }) => ["RUNNING", "DONE", "UNPLANNED"].includes(state))
  );
}

/** As the stack's outputs name what a container runs. */
export function serviceName(stackName: string, container: string): string {
  return container.startsWith(`${stackName}-`) ? container.slice(stackName.length + 1) : container;
}

function described(
  stackName: string,
  container: string,
  found: HostContainer | undefined,
  now: number,
): Omit<ServiceStatus, "state" | "ports"> {
  const name = serviceName(stackName, container);
  if (found === undefined) return { name, container, restarts: 0 };
  const { RestartCount: restarts, State } = found;
  if (State.Status === "running") {
    // The host has a clock of its own.
    const uptimeSeconds = Math.max(0, (now - Date.parse(State.StartedAt)) / 1000);
    return { name, container, restarts, uptimeSeconds };
  }
  const hasEnded = State.Status === "exited" || State.Status === "dead";
  return { name, container, restarts, ...(hasEnded ? { exitCode: State.ExitCode } : {}) };
}

function stateOf({ container }: DockerContainer, found: HostContainer | undefined): ServiceState {
  if (found === undefined) return "MISSING";
  const { Status, ExitCode, Health } = found.State;
  switch (Status) {
    case "running":
      if (Health?.Status === "unhealthy") return "UNHEALTHY";
      return Health?.Status === "starting" ? "STARTING" : "RUNNING";
    case "paused":
      return "PAUSED";
    case "restarting":
      return "RESTARTING";
    default:
      if (!isTask(container)) return "STOPPED";
      return Status === "exited" && ExitCode === 0 ? "DONE" : "FAILED";
  }
}
