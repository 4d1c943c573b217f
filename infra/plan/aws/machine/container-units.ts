/** Each container of a stack as a unit of systemd: `docker run` in its foreground. */
import { containerLine, runArguments } from "../../docker/run-line.ts";
import type { DockerContainer, DockerMount, DockerStack } from "../../docker/types.ts";
import type { UnitPlan } from "../types.ts";
import { DATABASE_FOLDER, FILES_FOLDER, SETUP_UNITS, unitName } from "./names.ts";
import { readSecrets, secretFile } from "./secrets.ts";
import { commandLine, type UnitSection, unitText } from "./unit-text.ts";

const DOCKER = "/usr/bin/docker";

/** For Docker's own work around the end of a container. */
const SPARE_STOP_SECONDS = 15;

/**
 * A service that ends is started again after a pause, and left alone after the fifth time within the interval, so that the
 * pause counts: 252, which Amazon Linux 2023 has, knows no pauses that grow (RestartSteps came with 254).
 */
const RESTART = { pauseSeconds: 15, times: 5, intervalSeconds: 900 } as const;

/** What a stopped container ends with that did not handle the signal. */
const TERMINATED = "143";

/** The unit of a container. @param stack - Whose container it is. */
export function containerUnit(container: DockerContainer, stack: DockerStack): UnitPlan {
  return {
    name: unitName(container),
    role: container.role,
    text: text(container, stack),
    files: Object.fromEntries(
      Object.entries(container.files).map(([path, content]) => [
        hostPath(container, path),
        { text: content, mode: "0444" },
      ]),
    ),
  };
}

/** Where the host has a file of a container. */
function hostPath({ networkAlias }: DockerContainer, path: string): string {
  return `${FILES_FOLDER}/${networkAlias}${path}`;
}

function text(container: DockerContainer, stack: DockerStack): string {
  const isTask = container.lifecycle === "task";
  return unitText({
    Unit: [
      ["Description", `engine-room: ${container.networkAlias}`],
      ...order(container, stack),
      ...folders(container, stack),
      ...(isTask ? [] : limits()),
    ],
    Service: isTask ? taskLines(container, stack) : serviceLines(container, stack),
    // Tasks are started by what needs them.
    ...(isTask ? {} : { Install: [["WantedBy", "multi-user.target"]] as const }),
    // systemd reads no section of such a name; the scripts that look for what is left over do.
    "X-EngineRoom": [
      ["Container", container.name],
      ["Lifecycle", container.lifecycle],
    ],
  });
}

/**
 * A server without its engine has nothing to load, so it requires the task; a gateway answers without its databases, and
 * says what it lacks.
 */
function order(container: DockerContainer, stack: DockerStack): UnitSection {
  const setup = [
    "docker.service",
    SETUP_UNITS.network,
    SETUP_UNITS.images,
    ...(readSecrets(container).length > 0 ? [SETUP_UNITS.secrets] : []),
  ];
  const before = container.after.map((name) => named(name, stack));
  const units = (lifecycle: DockerContainer["lifecycle"]) =>
    before.filter((one) => one.lifecycle === lifecycle).map(unitName);
  const [tasks, services] = [units("task"), units("service")];
  // A build runs after the last one because memory and disk are for one; it does not need what that one made.
  const required = container.lifecycle === "task" ? setup : [...setup, ...tasks];
  return [
    ["Requires", required.join(" ")],
    ...(services.length === 0 ? [] : [["Wants", services.join(" ")] as const]),
    ["After", [...setup, ...tasks, ...services].join(" ")],
  ];
}

/** Docker would make an empty folder of a file system that is not there. */
function folders({ mounts }: DockerContainer, { volumes }: DockerStack): UnitSection {
  const kept = new Set(volumes.filter(({ isKept }) => isKept).map(({ name }) => name));
  const paths = mounts.flatMap(({ source }) => {
    if ("hostPath" in source) return [source.hostPath];
    return kept.has(source.volume) ? [DATABASE_FOLDER] : [];
  });
  return paths.length === 0 ? [] : [["RequiresMountsFor", paths.join(" ")]];
}

function limits(): UnitSection {
  return [
    ["StartLimitIntervalSec", String(RESTART.intervalSeconds)],
    ["StartLimitBurst", String(RESTART.times)],
  ];
}

function serviceLines(container: DockerContainer, stack: DockerStack): UnitSection {
  return [
    ["Type", "exec"],
    ...runLines(container, stack),
    ["ExecStop", commandLine([DOCKER, ...stopArguments(container)])],
    ["Restart", "always"],
    ["RestartSec", String(RESTART.pauseSeconds)],
    ["SuccessExitStatus", TERMINATED],
  ];
}

function taskLines(container: DockerContainer, stack: DockerStack): UnitSection {
  return [
    ["Type", "oneshot"],
    ["RemainAfterExit", "yes"],
    ...runLines(container, stack),
    // One that takes too long is still there when its client has been ended.
    ["ExecStopPost", `-${commandLine([DOCKER, ...stopArguments(container)])}`],
    ["TimeoutStartSec", String(Math.ceil(container.timeoutSeconds ?? 0))],
  ];
}

function runLines(container: DockerContainer, stack: DockerStack): UnitSection {
  const { network, images } = stack;
  const image = images.find(({ name }) => name === container.image);
  if (image === undefined) throw new Error(`The stack has no image ${container.image}`);
  const reference = image.kind === "locked" ? image.reference : image.tag;
  const { options, ...line } = containerLine(withFiles(container), network, reference);
  // Docker keeps what it writes, and `docker logs` shows it: the journal has what Docker itself says.
  const run = runArguments({ ...line, options: [...options, ["--attach", "stdout"]] });
  return [
    // What a machine that lost its power has left; its logs were there until now.
    ["ExecStartPre", `-${commandLine([DOCKER, "rm", "--force", container.name])}`],
    ["ExecStart", commandLine([DOCKER, ...run])],
    ["TimeoutStopSec", String(container.stopTimeoutSeconds + SPARE_STOP_SECONDS)],
    ["StandardOutput", "null"],
    ["StandardError", "journal"],
  ];
}

function stopArguments({ name, stopTimeoutSeconds }: DockerContainer): readonly string[] {
  return ["stop", "-t", String(stopTimeoutSeconds), name];
}

/** Its files and secrets as mounts of the host's. */
function withFiles(container: DockerContainer): DockerContainer {
  const files = Object.keys(container.files).map((path) => mount(hostPath(container, path), path));
  const secrets = Object.entries(container.secretFiles).map(([path, name]) => mount(secretFile(name), path));
  return { ...container, mounts: [...container.mounts, ...files, ...secrets] };
}

function mount(host: string, path: string): DockerMount {
  return { source: { hostPath: host }, path, readOnly: true };
}

function named(name: string, { containers }: DockerStack): DockerContainer {
  const container = containers.find((one) => one.name === name);
  if (container === undefined) throw new Error(`The stack has no container ${name}`);
  return container;
}
