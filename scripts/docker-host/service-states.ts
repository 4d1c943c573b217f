/** States of the containers of a stack file, from the host's containers. Pure. */
import { isTask } from "../../infra/plan/containers/container.ts";
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
  /** A task that ended with exit code 0. */
  | "DONE"
  | "FAILED"
  /** The host has no such container. */
  | "MISSING"
  /** The stack file has no such container. */
  | "UNPLANNED";

interface ServiceStatus {
  /** Name in the stack's outputs; that of a build has the key of its product. */
  readonly name: string;
  /** On the host. */
  readonly container: string;
  readonly state: ServiceState;
  /** Since its last start; absent if it does not run. */
  readonly uptimeSeconds?: number;
  /** Absent while the container runs. */
  readonly exitCode?: number;
  /** How often the engine started it again. */
  readonly restarts: number;
  /** Ports of the host, by the container's own. */
  readonly ports: Readonly<Record<string, number>>;
}

/** In the order of the plan, then containers outside of the plan. @param now - Milliseconds since 1970. */
export function serviceStatuses(
  stackName: string,
  { containers }: DockerStack,
  found: readonly HostContainer[],
  now: number,
): readonly ServiceStatus[] {
  const byName = new Map(found.map((container) => [containerName(container), container]));
  const planned = new Map(containers.map((container) => [container.args.name, container]));
  return [...new Set([...planned.keys(), ...byName.keys()])].map((container): ServiceStatus => {
    const plan = planned.get(container);
    const has = byName.get(container);
    const ports = (plan?.args.ports ?? []).map(({ internal, external }) => [internal, external]);
    const { Status, StartedAt = "", ExitCode: exitCode = 0 } = has?.State ?? {};
    // The host has a clock of its own.
    const uptimeSeconds = Math.max(0, (now - Date.parse(StartedAt)) / 1000);
    return {
      name: serviceName(stackName, container),
      container,
      state: plan === undefined ? "UNPLANNED" : stateOf(has, isTask(plan.container)),
      restarts: has?.RestartCount ?? 0,
      ...(Status === "running" ? { uptimeSeconds } : {}),
      ...(Status === "exited" || Status === "dead" ? { exitCode } : {}),
      ports: Object.fromEntries(ports),
    };
  });
}

/** Whether all containers of the stack file serve. */
export function isServing(statuses: readonly ServiceStatus[]): boolean {
  return (
    statuses.length > 0 && statuses.every(({ state }) => ["RUNNING", "DONE", "UNPLANNED"].includes(state))
  );
}

/** Name of a container's service in the stack's outputs. */
export function serviceName(stackName: string, container: string): string {
  return container.startsWith(`${stackName}-`) ? container.slice(stackName.length + 1) : container;
}

/** @param ends - Whether it is a task, which ends by itself. */
function stateOf(found: HostContainer | undefined, ends: boolean): ServiceState {
  if (found === undefined) return "MISSING";
  const { Status, ExitCode, Health } = found.State;
  if (Status === "running") {
    if (Health?.Status === "unhealthy") return "UNHEALTHY";
    return Health?.Status === "starting" ? "STARTING" : "RUNNING";
  }
  if (Status === "paused") return "PAUSED";
  if (Status === "restarting") return "RESTARTING";
  if (!ends) return "STOPPED";
  return Status === "exited" && ExitCode === 0 ? "DONE" : "FAILED";
}
