/** What a Docker engine says of itself. */
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { type Finding, problem } from "./finding.ts";
import { type HostProbe, lastLine, type ProbeAnswer, sshDestination } from "./host-probe.ts";

/** A container of the engine that runs. */
interface RunningContainer {
  readonly name: string;
  /** Of the label `engine-room.stack`; empty for a stranger's. */
  readonly stack: string;
  /** Of the host. */
  readonly ports: readonly number[];
}

export interface EngineReading {
  readonly kind: "engine";
  /** `28.2.2`. */
  readonly version: string;
  /** Where images and volumes lie on the host. */
  readonly rootDirectory: string;
  readonly runtimes: readonly string[];
  /** Devices of the Container Device Interface: `nvidia.com/gpu=0`. */
  readonly cdiDevices: readonly string[];
  readonly isRootless: boolean;
  readonly containers: readonly RunningContainer[];
  /** `repository:tag` and `repository@sha256:…`, without `docker.io/library/`. */
  readonly images: ReadonlySet<string>;
}

type DockerReading = EngineReading | EngineSilence;

/** No CLI on this machine; no rights on the engine's socket; nobody answers there. */
export interface EngineSilence {
  readonly kind: "noCli" | "denied" | "unreachable";
  readonly words: string;
}

export async function readDocker(probe: HostProbe): Promise<DockerReading> {
  const info = await probe.docker(["info", "--format", "{{json .}}"]);
  if (isNoCli(info)) return { kind: "noCli", words: info.stderr };
  const engine = parseInfo(info.stdout);
  const version = engine.ServerVersion ?? "";
  // The CLI prints what it knows of itself where no engine answers; older ones end with exit code 0 then.
  if (version === "") return silence(engine.ServerErrors?.[0] ?? lastLine(info.stderr));
  const [containers, images] = await Promise.all([
    probe.docker(["ps", "--format", '{{.Names}}\t{{.Label "engine-room.stack"}}\t{{.Ports}}']),
    probe.docker(["image", "ls", "--digests", "--format", "{{.Repository}}\t{{.Tag}}\t{{.Digest}}"]),
  ]);
  return {
    kind: "engine",
    version,
    rootDirectory: engine.DockerRootDir ?? "",
    runtimes: Object.keys(engine.Runtimes ?? {}),
    cdiDevices: (engine.DiscoveredDevices ?? []).flatMap(({ Source, ID }) =>
      Source === "cdi" && ID !== undefined ? [ID] : [],
    ),
    isRootless: (engine.SecurityOptions ?? []).some((option) => option.includes("rootless")),
    containers: parseContainers(containers.stdout),
    images: parseImages(images.stdout),
  };
}

/** The parts of `docker info` that are read; the engine leaves out what it does not know. */
interface DockerInfo {
  readonly ServerVersion?: string;
  readonly ServerErrors?: readonly string[];
  readonly DockerRootDir?: string;
  readonly Runtimes?: Readonly<Record<string, unknown>> | null;
  readonly DiscoveredDevices?: readonly { readonly Source?: string; readonly ID?: string }[] | null;
  readonly SecurityOptions?: readonly string[] | null;
}

function parseInfo(text: string): DockerInfo {
  try {
    return JSON.parse(text) as DockerInfo;
  } catch {
    return {};
  }
}

/** Why a command of the Docker CLI got no answer of an engine; null where one answered, with an error. */
export function engineSilence(answer: ProbeAnswer): EngineSilence | null {
  if (isNoCli(answer)) return { kind: "noCli", words: answer.stderr };
  const words = lastLine(answer.stderr);
  const isSilent =
    /cannot connect to the docker daemon|error during connect|permission denied.* docker/i.test(words);
  return isSilent ? silence(words) : null;
}

function isNoCli({ exitCode, stderr }: ProbeAnswer): boolean {
  return exitCode === null && stderr.includes("ENOENT");
}

function silence(words: string): EngineSilence {
  // ssh says the same of a key that the host does not take.
  const isDenied = /permission denied/i.test(words) && !/publickey|password/i.test(words);
  return { kind: isDenied ? "denied" : "unreachable", words };
}

function parseContainers(text: string): RunningContainer[] {
  return lines(text).map((line) => {
    const [name = "", stack = "", ports = ""] = line.split("\t");
    return { name, stack, ports: [...new Set(ports.split(", ").flatMap(publishedPorts))] };
  });
}

/** `127.0.0.1:8000-8002->8000-8002/tcp`: the host's ports. */
function publishedPorts(text: string): number[] {
  const [, first, last] = /:(\d+)(?:-(\d+))?->\d+(?:-\d+)?\/tcp$/.exec(text.trim()) ?? [];
  if (first === undefined) return [];
  const count = Number(last ?? first) - Number(first) + 1;
  return Array.from({ length: count }, (_, index) => Number(first) + index);
}

function parseImages(text: string): ReadonlySet<string> {
  return new Set(
    lines(text).flatMap((line) => {
      const [repository = "", tag = "", digest = ""] = line.split("\t");
      return [`${repository}:${tag}`, `${repository}@${digest}`].map(shortReference);
    }),
  );
}

/** As `docker image ls` prints it: Docker Hub's own prefix is left out. */
export function shortReference(reference: string): string {
  return reference.replace(/^docker\.io\/(library\/)?/, "");
}

function lines(text: string): string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}

/** Check of an engine that gave no answer: what went wrong before anything could be asked. The stack file names it. */
export function engineFinding(uri: string, reading: EngineSilence): Finding {
  const where = uri.startsWith("ssh:") ? `on the other side of ${uri}` : `at ${uri}`;
  switch (reading.kind) {
    case "noCli":
      return problem(
        "docker",
        "This machine has no `docker` command.",
        `It asks the engine ${where}, and none was found on the PATH.`,
        "Install Docker's CLI (https://docs.docker.com/engine/install/).",
      );
    case "denied":
      return problem(
        "docker",
        `You have no rights on the Docker engine ${where}.`,
        reading.words,
        "Add the user to the group docker (`sudo usermod -aG docker USER`, then log in again): that is as good as root.",
      );
    case "unreachable":
      // What the CLI calls the engine behind ssh; without words of ssh itself the connection stands.
      if (reading.words.includes("docker.example.com") && !reading.words.includes("command [ssh")) {
        return problem(
          "docker",
          `No Docker engine answers ${where}.`,
          "ssh connects, and nobody answers at the socket that Docker has there.",
          "Start it there (`sudo systemctl start docker`).",
        );
      }
      return problem(
        "docker",
        `No Docker engine answers ${where}.`,
        // The CLI's own words before those of ssh are its guess, and long.
        reading.words.replace(/^.* stderr=/s, ""),
        uri.startsWith("ssh:")
          ? `Try \`${shellLine(["ssh", "-o", "BatchMode=yes", ...(sshDestination(uri) ?? []), "docker", "info"])}\`, which must work without a password.`
          : "Start it (`sudo systemctl start docker`), or correct host.uri of the stack file.",
      );
  }
}

/** As {@link engineFinding} of this machine's own engine, which builds for clusters and for AWS: no stack file names it. */
export function ownEngineFinding(uri: string, reading: EngineSilence): Finding {
  const finding = engineFinding(uri, reading);
  if (reading.kind !== "unreachable") return finding;
  return {
    ...finding,
    // The CLI says no more than that in its own words.
    why: /^Cannot connect to the Docker daemon/.test(reading.words)
      ? "It builds and pushes the images of the stack."
      : finding.why,
    fix: "Start it (`sudo systemctl start docker`), or run this on a machine that has one (https://docs.docker.com/engine/install/).",
  };
}
