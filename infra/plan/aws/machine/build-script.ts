/** Shell text that runs a build on an instance, and waits for its end. */
import { UNIT_FOLDER } from "./names.ts";
import { type PlacedContainer, stateArguments } from "./placed-container.ts";

/**
 * Lines that start it, unless it has run as it stands there. Servers whose GPU it needs are away while it runs: they come
 * back with the services, or where it fails.
 */
export function startBuild(build: PlacedContainer, servers: readonly string[]): readonly string[] {
  const { name } = build.unit;
  return [
    `if is_current ${stateArguments(build)}; then exit 0; fi`,
    ...servers.map((server) => `systemctl stop ${server} 2>/dev/null || true`),
    `systemctl stop ${name}`,
    `systemctl reset-failed ${name} 2>/dev/null || true`,
    `systemctl start --no-block ${name}`,
  ];
}

/**
 * Lines that wait for it. Its unit is active when it has ended with success; inactive, and without a job, when it could not
 * be started.
 *
 * @param seconds - How long they wait.
 * @param isLast - Whether a build that still runs then has failed.
 */
export function waitForBuild(
  build: PlacedContainer,
  servers: readonly string[],
  seconds: number,
  isLast: boolean,
): readonly string[] {
  const { name } = build.unit;
  return [
    "give_up() {",
    ...servers.map((one) => `  if [ -e ${UNIT_FOLDER}/${one} ]; then systemctl start --no-block ${one}; fi`),
    `  fail ${name} "$1"`,
    "}",
    `until [ "$SECONDS" -ge ${seconds} ]; do`,
    `  case "$(systemctl show --property=ActiveState --value ${name})" in`,
    "    active)",
    `      applied ${stateArguments(build)}`,
    "      exit 0",
    "      ;;",
    '    failed) give_up "failed" ;;',
    "    inactive)",
    `      if [ -z "$(systemctl show --property=Job --value ${name})" ]; then give_up "did not start"; fi`,
    "      ;;",
    "  esac",
    "  sleep 5",
    "done",
    isLast ? 'give_up "did not end in the time it has"' : `echo "${name} goes on"`,
  ];
}
