/** A container as `docker run` starts it. */
import { GIB } from "../units.ts";
import { type DockerContainer, LOG_LIMITS } from "./types.ts";

/** `docker run OPTIONS IMAGE COMMAND`. */
export interface RunLine {
  /** Long names with their values, null for an option without one. */
  readonly options: readonly RunOption[];
  readonly image: string;
  readonly command: readonly string[];
}

export type RunOption = readonly [name: string, value: string | null];

/**
 * Every option that is planned. Whether it is detached, and who starts it again, is left to the caller; so are files, which
 * have to be mounts or copied into it.
 *
 * @param network - Of the stack.
 * @param image - Reference by which the host has it.
 */
export function containerLine(container: DockerContainer, network: string, image: string): RunLine {
  const [program, ...firstArguments] = container.entrypoint ?? [];
  return {
    options: [
      ["--name", container.name],
      ["--network", network],
      ["--network-alias", container.networkAlias],
      ...container.ports.map(
        ({ hostAddress, hostPort, containerPort }): RunOption => [
          "--publish",
          `${hostAddress}:${hostPort}:${containerPort}`,
        ],
      ),
      ...(container.gpus === null ? [] : [["--gpus", gpuValue(container.gpus)] as const]),
      ...(container.ipc === "private" ? [] : [["--ipc", container.ipc] as const]),
      ...(container.shmBytes === null ? [] : [["--shm-size", sizeValue(container.shmBytes)] as const]),
      ...each("--ulimit", container.ulimits, (name, limit) => `${name}=${limit}`),
      ...each("--env", container.environment, (name, value) => `${name}=${value}`),
      ...container.mounts.map(({ source, path, readOnly }): RunOption => {
        const from = "volume" in source ? source.volume : source.hostPath;
        return ["--volume", `${from}:${path}${readOnly ? ":ro" : ""}`];
      }),
      ...each("--tmpfs", container.tmpfsBytes, (path, bytes) => `${path}:size=${bytes},mode=1777`),
      ...(container.readOnlyRoot ? [["--read-only", null] as const] : []),
      ...(container.user === null ? [] : [["--user", container.user] as const]),
      ...memoryOptions(container),
      ...(program === undefined ? [] : [["--entrypoint", program] as const]),
      ["--stop-timeout", String(container.stopTimeoutSeconds)],
      ["--log-driver", LOG_LIMITS.driver],
      ["--log-opt", `max-file=${LOG_LIMITS.files}`],
      ["--log-opt", `max-size=${LOG_LIMITS.fileMiB}m`],
      ...healthOptions(container),
      ...each("--label", container.labels, (name, value) => `${name}=${value}`),
    ],
    image,
    command: [...firstArguments, ...container.command],
  };
}

/** Arguments of the program `docker`. An option's value is joined to its name, so that none is taken for another option. */
export function runArguments({ options, image, command }: RunLine): readonly string[] {
  return [
    "run",
    ...options.map(([name, value]) => (value === null ? name : `${name}=${value}`)),
    image,
    ...command,
  ];
}

/** The value is CSV to Docker, which would take the comma for the begin of another field. */
function gpuValue(gpus: NonNullable<DockerContainer["gpus"]>): string {
  if (gpus === "all") return gpus;
  const devices = `device=${gpus.join(",")}`;
  return gpus.length === 1 ? devices : `"${devices}"`;
}

function sizeValue(bytes: number): string {
  return bytes % GIB === 0 ? `${bytes / GIB}g` : `${bytes}b`;
}

/** Without the second one Docker allows as much swap again, and a swapped model serves nobody. */
function memoryOptions({ memoryMiB }: DockerContainer): readonly RunOption[] {
  if (memoryMiB === null) return [];
  return [
    ["--memory", `${memoryMiB}m`],
    ["--memory-swap", `${memoryMiB}m`],
  ];
}

/** `docker run` gives the check to a shell of the container, where the Engine's API takes its words. */
function healthOptions({ health }: DockerContainer): readonly RunOption[] {
  if (health === null) return [];
  return [
    ["--health-cmd", health.test.map(shellWord).join(" ")],
    ["--health-interval", `${health.intervalSeconds}s`],
    ["--health-timeout", `${health.timeoutSeconds}s`],
    ["--health-retries", String(health.retries)],
    ["--health-start-period", `${health.startPeriodSeconds}s`],
  ];
}

/** For any POSIX shell: images have dash or bash. */
function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function each<T>(
  option: string,
  record: Readonly<Record<string, T>>,
  text: (name: string, value: T) => string,
): readonly RunOption[] {
  return Object.entries(record).map(([name, value]) => [option, text(name, value)]);
}
