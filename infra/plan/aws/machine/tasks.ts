/** What is run on an instance, in its order: setup, one build after the other, then everything that serves. */
import { stopsFor } from "../../docker/gpu-sharing.ts";
import { readySeconds } from "../../docker/ready-seconds.ts";
import type { DockerStack } from "../../docker/types.ts";
import type { AwsContext, InstanceSecretPlan, InstanceTaskPlan } from "../types.ts";
import { startBuild, waitForBuild } from "./build-script.ts";
import { DOCUMENT_BYTES, documentBytes, taskDocument } from "./document.ts";
import { type PlacedContainer, placedContainers, unitNames } from "./placed-container.ts";
import { readSecrets } from "./secrets.ts";
import { startService, waitForGateway, waitUntilHealthy } from "./service-script.ts";
import { PULL_SECONDS, setupUnits } from "./setup-units.ts";
import { putLines, taskScript, WHEN_READY } from "./task-script.ts";

/** From the start of a machine until its user data have ended: drivers, disks, and a file system's first mount. */
const BOOT_SECONDS = 900;
/** Until the agent has come for an association, and has said how it ended. */
const AGENT_SECONDS = 600;
/** For what stops and starts around a wait. */
const SPARE_SECONDS = 300;
/**
 * The agent calls an association stuck that is in progress for two hours (`documentLevelTimeOutDurationHour` of
 * amazon-ssm-agent), so that a longer build is waited for by several.
 */
const LONGEST_WAIT_SECONDS = 6000;

/** What a task says of itself; the rest follows from its content and its place. */
type Draft = Omit<InstanceTaskPlan, "document" | "waitSeconds" | "after">;

interface InstanceHost {
  readonly stack: DockerStack;
  readonly secrets: readonly InstanceSecretPlan[];
  readonly databaseDiskGiB: number;
  readonly instanceType: string;
  /** Of the machine, where the gateway answers. */
  readonly gatewayPort: number;
}

/**
 * Each task comes after the one before it: the agent would run two associations in any order.
 *
 * @throws ConfigError where what one container reads is larger than Systems Manager takes.
 */
export function instanceTasks(host: InstanceHost, context: AwsContext): readonly InstanceTaskPlan[] {
  const tasks: InstanceTaskPlan[] = [];
  const add = (draft: Draft) => {
    const after = tasks.slice(-1).map(({ name }) => name);
    const waitSeconds = draft.timeoutSeconds + AGENT_SECONDS;
    tasks.push({ ...draft, document: taskDocument(draft, context), waitSeconds, after });
  };
  const services = placedContainers(host.stack, "service");
  add(setup(host, services, context));
  for (const build of placedContainers(host.stack, "task"))
    for (const part of buildParts(build, services)) add(part);
  let unwritten = services;
  while (documentBytes(startAll(host, unwritten, tasks)) > DOCUMENT_BYTES && unwritten.length > 0) {
    const number = services.length - unwritten.length + 1;
    const drafts = unwritten.map((_, index) => filesTask(unwritten.slice(0, index + 1), number));
    const fitting = Math.max(1, drafts.filter((draft) => documentBytes(draft) <= DOCUMENT_BYTES).length);
    add(filesTask(unwritten.slice(0, fitting), number));
    unwritten = unwritten.slice(fitting);
  }
  add(startAll(host, unwritten, tasks));
  return tasks;
}

/**
 * Servers that the stack has no more go first, since a build may need their GPU; builds that it has no more go last: until
 * then a server requires them.
 */
function setup(
  { stack, secrets, databaseDiskGiB }: InstanceHost,
  services: readonly PlacedContainer[],
  context: AwsContext,
): Draft {
  const units = setupUnits(stack, secrets, databaseDiskGiB, context);
  return {
    name: "setup",
    units,
    script: taskScript([
      ...WHEN_READY,
      ...putLines(units),
      `remove_others service ${unitNames(services).join(" ")}`,
      `for unit in ${units.map(({ name }) => name).join(" ")}; do`,
      '  systemctl reload-or-restart "$unit" || fail "$unit" "failed"',
      "done",
    ]),
    timeoutSeconds: BOOT_SECONDS + PULL_SECONDS + SPARE_SECONDS,
    readsSecrets: secrets.length > 0,
  };
}

/** A build, and tasks that go on waiting for a long one. */
function buildParts(build: PlacedContainer, services: readonly PlacedContainer[]): readonly Draft[] {
  const { container, unit } = build;
  const seconds = Math.ceil(container.timeoutSeconds ?? 0) + SPARE_SECONDS;
  const parts = Math.ceil(seconds / LONGEST_WAIT_SECONDS);
  const servers = unitNames(services.filter((service) => stopsFor(service.container, container)));
  return Array.from({ length: parts }, (_, index) => {
    const waited = Math.min(LONGEST_WAIT_SECONDS, seconds - index * LONGEST_WAIT_SECONDS);
    const isFirst = index === 0;
    return {
      name: `build-${container.networkAlias}${isFirst ? "" : `-${index + 1}`}`,
      units: isFirst ? [unit] : [],
      script: taskScript([
        ...(isFirst ? [...putLines([unit]), ...startBuild(build, servers)] : []),
        ...waitForBuild(build, servers, waited, index === parts - 1),
      ]),
      timeoutSeconds: waited + SPARE_SECONDS,
      readsSecrets: false,
    };
  });
}

/** Writes units for which the last document has no room. @param number - Of the first of them. */
function filesTask(services: readonly PlacedContainer[], number: number): Draft {
  const units = services.map(({ unit }) => unit);
  return {
    name: `files-${number}`,
    units,
    script: taskScript(putLines(units)),
    timeoutSeconds: SPARE_SECONDS,
    readsSecrets: false,
  };
}

/** Starts what changed, and waits until all of it answers. @param unwritten - Services that no task before has written. */
function startAll(
  { stack, instanceType, gatewayPort }: InstanceHost,
  unwritten: readonly PlacedContainer[],
  before: readonly InstanceTaskPlan[],
): Draft {
  const services = placedContainers(stack, "service");
  const builds = placedContainers(stack, "task");
  const units = unwritten.map(({ unit }) => unit);
  const readyWithin =
    Math.max(0, ...services.map(({ container }) => readySeconds(container) ?? 0)) + SPARE_SECONDS;
  return {
    name: "services",
    units,
    script: taskScript([
      // It runs again after any of them: a build takes servers away, and new secrets or images are for them. A machine that
      // becomes another type starts again, with all that it runs.
      `# on ${instanceType}`,
      ...before.map(({ document }) => `# after ${document.name}`),
      ...putLines(units),
      ...services.flatMap(startService),
      `remove_others task ${unitNames(builds).join(" ")}`,
      `remove_others setup ${(before[0]?.units ?? []).map(({ name }) => name).join(" ")}`,
      ...services.flatMap((service) => waitUntilHealthy(service, readyWithin)),
      waitForGateway(gatewayPort),
      // Images of releases before this one: no container has them any more.
      "docker image prune --all --force >/dev/null",
    ]),
    timeoutSeconds: readyWithin + SPARE_SECONDS,
    readsSecrets: services.some(({ container }) => readSecrets(container).length > 0),
  };
}
