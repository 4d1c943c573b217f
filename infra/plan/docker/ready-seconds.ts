/** How long a service may take until its own check says that it answers. */
import type { DockerContainer } from "./types.ts";

/** Failures beyond the planned ones before `up` gives a service up, for a host that is slow to run the check itself. */
const SPARE_HEALTH_CHECKS = 2;

/** null where nothing says that it is. */
export function readySeconds({ health }: DockerContainer): number | null {
  if (health === null) return null;
  const { intervalSeconds, timeoutSeconds, retries, startPeriodSeconds } = health;
  const checksSeconds = (retries + SPARE_HEALTH_CHECKS) * (intervalSeconds + timeoutSeconds);
  return Math.ceil(startPeriodSeconds + checksSeconds);
}
