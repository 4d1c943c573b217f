/** What a Docker engine says of itself. */
import { type HostProbe, lastLine, type ProbeAnswer } from "./host-probe.ts";

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
