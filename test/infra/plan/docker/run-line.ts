/** A container as a person would start it, and such a line taken apart. */
import { isTask } from "../../../../infra/plan/containers/container.ts";
import type { ContainerArgs, DockerContainer } from "../../../../infra/plan/docker/container-args.ts";
import type { DockerStack } from "../../../../infra/plan/docker/docker-stack.ts";
import { imageNamed } from "../../../../infra/plan/images.ts";
import { secondsOf } from "../../../harness/docker/create-body.ts";

/** `docker run OPTIONS IMAGE COMMAND`. */
export interface RunLine {
  /** Long names with their values, null for an option without one. */
  readonly options: readonly RunOption[];
  readonly image: string;
  readonly command: readonly string[];
}

export type RunOption = readonly [name: string, value: string | null];

/** A line with sorted options, since their order does not matter. */
export function runLine(options: readonly RunOption[], image: string, command: readonly string[]): RunLine {
  const text = ([name, value]: RunOption) => `${name} ${value ?? ""}`;
  return { options: options.toSorted((a, b) => (text(a) < text(b) ? -1 : 1)), image, command };
}

/** The options of a container for Docker; files are copied into it with `docker cp` before it starts. */
export function containerLine({ container, args, gpus }: DockerContainer, stack: DockerStack): RunLine {
  const image = imageNamed(container.image, stack.images);
  const all = (name: string, values: readonly string[]): RunOption[] => values.map((value) => [name, value]);
  return runLine(
    [
      ["--detach", null],
      ...all("--name", [args.name]),
      ...all("--restart", isTask(container) ? [] : [args.restart ?? ""]),
      ...all("--network", [stack.network]),
      ...all("--network-alias", args.networksAdvanced[0]?.aliases ?? []),
      ...all(
        "--publish",
        args.ports.map(({ ip, external, internal }) => `${ip}:${external}:${internal}`),
      ),
      ...all("--gpus", gpus === null ? [] : [gpus === "all" ? gpus : `device=${gpus.join(",")}`]),
      ...all("--shm-size", args.shmSize === undefined ? [] : [`${args.shmSize / 1024}g`]),
      ...all(
        "--ulimit",
        (args.ulimits ?? []).map(({ name, hard }) => `${name}=${hard}`),
      ),
      ...all("--env", args.envs),
      ...all(
        "--volume",
        args.mounts.map(({ source, target, readOnly }) => `${source}:${target}${readOnly ? ":ro" : ""}`),
      ),
      ...all("--stop-timeout", [String(args.stopTimeout)]),
      ...all("--log-driver", [args.logDriver ?? ""]),
      ...all(
        "--log-opt",
        Object.entries(args.logOpts ?? {}).map(([name, value]) => `${name}=${value}`),
      ),
      ...healthOptions(args),
      ...all(
        "--label",
        args.labels.map(({ label, value }) => `${label}=${value}`),
      ),
    ],
    image.reference,
    args.command ?? [],
  );
}

/** `docker run` gives the check to a shell of the container, where the Engine's API takes its words. */
function healthOptions({ healthcheck }: ContainerArgs): readonly RunOption[] {
  if (healthcheck === undefined) return [];
  const { tests = [], interval, timeout, retries, startPeriod } = healthcheck;
  const words = tests.slice(1).map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word}'`));
  return [
    ["--health-cmd", words.join(" ")],
    ["--health-interval", interval ?? null],
    ["--health-timeout", timeout ?? null],
    ["--health-retries", String(retries)],
    ["--health-start-period", `${secondsOf(startPeriod ?? "")}s`],
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
