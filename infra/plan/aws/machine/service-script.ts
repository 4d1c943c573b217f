/** Shell text that starts what serves on an instance, and waits until it answers. */
import { type PlacedContainer, stateArguments } from "./placed-container.ts";

/** Lines that start a service anew where it does not run what is on the disk. */
export function startService(service: PlacedContainer): readonly string[] {
  const { name } = service.unit;
  return [
    `systemctl enable --quiet ${name}`,
    `if ! is_current ${stateArguments(service)}; then`,
    `  systemctl reset-failed ${name} 2>/dev/null || true`,
    `  systemctl restart ${name} || fail ${name} "did not start"`,
    `  applied ${stateArguments(service)}`,
    "fi",
  ];
}

/** Lines that wait for Docker's own check. @param seconds - Since the script began. */
export function waitUntilHealthy(
  { container, unit: { name } }: PlacedContainer,
  seconds: number,
): readonly string[] {
  if (container.health === null) return [];
  const filter = `name=^${container.name.replaceAll(".", "[.]")}$`;
  return [
    `until [ -n "$(docker ps --quiet --filter '${filter}' --filter health=healthy)" ]; do`,
    `  if systemctl is-failed --quiet ${name}; then fail ${name} "ended too often"; fi`,
    `  if [ "$SECONDS" -ge ${seconds} ]; then fail ${name} "does not answer"; fi`,
    "  sleep 5",
    "done",
  ];
}

/** A line that waits for the gateway, where clients reach it. @param port - Of the machine. */
export function waitForGateway(port: number): string {
  const retries = "--retry 30 --retry-delay 2 --retry-all-errors";
  return `curl --silent --show-error --fail --max-time 10 ${retries} --output /dev/null http://127.0.0.1:${port}/healthz`;
}
