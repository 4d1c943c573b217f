/** A container as a person would start it, and such a line taken apart. */
import { type DockerContainer, type DockerStack, LOG_LIMITS } from "../../../../infra/plan/docker/types.ts";

/** `docker run OPTIONS IMAGE COMMAND`. */
export interface RunLine {
  /** Long names with their values, null for an option without one; sorted, since their order means nothing. */
  readonly options: readonly (readonly [string, string | null])[];
  readonly image: string;
  readonly command: readonly string[];
}

export type RunOption = RunLine["options"][number];

export function runLine(options: readonly RunOption[], image: string, command: readonly string[]): RunLine {
  const text = ([name, value]: RunOption) => `${name} ${value ?? ""}`;
  return { options: options.toSorted((a, b) => (text(a) < text(b) ? -1 : 1)), image, command };
}

/** What Docker is asked for; files come into the container with `docker cp` before it starts. */
export function containerLine(container: DockerContainer, stack: DockerStack): RunLine {
  const image = stack.images.find(({ name }) => name === container.image);
  if (image === undefined) throw new Error(`No image ${container.image}`);
  const options: RunOption[] = [
    ["--detach", null],
    ["--name", container.name],
    ...(container.lifecycle === "service" ? [["--restart", "unless-stopped"] as const] : []),
    ["--network", stack.network],
    ["--network-alias", container.networkAlias],
    ...container.ports.map(
      ({ hostAddress, hostPort, containerPort }) =>
        ["--publish", `${hostAddress}:${hostPort}:${containerPort}`] as const,
    ),
    ...(container.gpus === null ? [] : [["--gpus", gpuValue(container.gpus)] as const]),
    ...(container.ipc === "private" ? [] : [["--ipc", container.ipc] as const]),
    ...(container.shmBytes === null ? [] : [["--shm-size", `${container.shmBytes / 2 ** 30}g`] as const]),
    ...Object.entries(container.ulimits).map(([name, limit]) => ["--ulimit", `${name}=${limit}`] as const),
    ...Object.entries(container.environment).map(([name, value]) => ["--env", `${name}=${value}`] as const),
    ...container.mounts.map(({ source, path, readOnly }) => {
      const from = "volume" in source ? source.volume : source.hostPath;
      return ["--volume", `${from}:${path}${readOnly ? ":ro" : ""}`] as const;
    }),
    ...Object.entries(container.tmpfsBytes).map(
      ([path, bytes]) => ["--tmpfs", `${path}:size=${bytes}`] as const,
    ),
    ...(container.readOnlyRoot ? [["--read-only", null] as const] : []),
    ...(container.user === null ? [] : [["--user", container.user] as const]),
    ...(container.memoryMiB === null ? [] : [["--memory", `${container.memoryMiB}m`] as const]),
    ...(container.entrypoint === null ? [] : [["--entrypoint", container.entrypoint.join(" ")] as const]),
    ["--stop-timeout", String(container.stopTimeoutSeconds)],
    ["--log-driver", LOG_LIMITS.driver],
    ["--log-opt", `max-file=${LOG_LIMITS.files}`],
    ["--log-opt", `max-size=${LOG_LIMITS.fileMiB}m`],
    ...healthOptions(container),
    ...Object.entries(container.labels).map(([name, value]) => ["--label", `${name}=${value}`] as const),
  ];
  const reference = image.kind === "locked" ? image.reference : image.tag;
  return runLine(options, reference, container.command);
}

function gpuValue(gpus: NonNullable<DockerContainer["gpus"]>): string {
  return gpus === "all" ? gpus : `device=${gpus.join(",")}`;
}

function healthOptions({ health }: DockerContainer): readonly RunOption[] {
  if (health === null) return [];
  return [
    ["--health-cmd", health.test.join(" ")],
    ["--health-interval", `${health.intervalSeconds}s`],
    ["--health-timeout", `${health.timeoutSeconds}s`],
    ["--health-retries", String(health.retries)],
    ["--health-start-period", `${health.startPeriodSeconds}s`],
  ];
}

const LONG_NAMES: Readonly<Record<string, string>> = {
  "--net": "--network",
  "-e": "--env",
  "-v": "--volume",
  "-w": "--workdir",
};

const WITHOUT_VALUE = new Set(["--rm", "-it", "-ti"]);

/** A line of a document. */
export function parseRunLine(text: string): RunLine {
  const words = text.replace(/\\\n/g, " ").trim().split(/\s+/);
  if (words.splice(0, 2).join(" ") !== "docker run") throw new Error(`No docker run: ${text}`);
  const options: RunOption[] = [];
  while (words[0]?.startsWith("-") === true) {
    const [name = "", joined] = splitOnce(words.shift() ?? "");
    const long = LONG_NAMES[name] ?? name;
    options.push([long, WITHOUT_VALUE.has(name) ? null : (joined ?? words.shift() ?? "")]);
  }
  const [image = "", ...command] = words;
  return runLine(options, image, command);
}

function splitOnce(word: string): [string, string?] {
  const at = word.indexOf("=");
  return at < 0 ? [word] : [word.slice(0, at), word.slice(at + 1)];
}
