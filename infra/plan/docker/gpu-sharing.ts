/** Which containers are in each other's way. */
import type { DockerContainer } from "./types.ts";

/** Whether a service has a GPU that a task needs: the service goes before the task runs, and comes back after it. */
export function stopsFor(service: DockerContainer, task: DockerContainer): boolean {
  if (service.lifecycle !== "service" || task.lifecycle !== "task") return false;
  const [a, b] = [service.gpus, task.gpus];
  if (a === null || b === null) return false;
  return a === "all" || b === "all" || a.some((index) => b.includes(index));
}
