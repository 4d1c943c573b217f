/** A container as a person would start it, and such a line taken apart. */
import {
  containerLine as plannedLine,
  type RunLine,
  type RunOption,
} from "../../../../infra/plan/docker/run-line.ts";
import type { DockerContainer, DockerStack } from "../../../../infra/plan/docker/types.ts";

/** With its options sorted, since their order means nothing. */
export function runLine(options: readonly RunOption[], image: string, command: readonly string[]): RunLine {
  const text = ([name, value]: RunOption) => `${name} ${value ?? ""}`;
  return { options: options.toSorted((a, b) => (text(a) < text(b) ? -1 : 1)), image, command };
}

/** What Docker is asked for; files come into the container with `docker cp` before it starts. */
export function containerLine(container: DockerContainer, stack: DockerStack): RunLine {
  const image = stack.images.find(({ name }) => name === container.image);
  if (image === undefined) throw new Error(`No image ${container.image}`);
  const reference = image.kind === "locked" ? image.reference : image.tag;
  const { options, command } = plannedLine(container, stack.network, reference);
  const restart: RunOption[] = container.lifecycle === "service" ? [["--restart", "unless-stopped"]] : [];
  return runLine([["--detach", null], ...restart, ...options], reference, command);
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
