/** Facts about a Docker engine. */
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { type Finding, problem } from "./finding.ts";
import { type HostProbe, lastLine, type ProbeAnswer, sshDestination } from "./host-probe.ts";

export interface EngineReading {
  readonly kind: "engine";
  /** `28.2.2`. */
  readonly version: string;
  /** System that runs the containers, which may be a virtual machine: `linux`. */
  readonly system: string;
  /** `x86_64`. */
  readonly architecture: string;
  readonly isRootless: boolean;
  /** Folder of images and volumes on the host. */
  readonly rootDirectory: string;
  readonly runtimes: readonly string[];
  /** GPUs of the Container Device Interface: `nvidia.com/gpu=0`. */
  readonly cdiGpus: readonly string[];
  /** `repository:tag` and `repository@sha256:…`, without `docker.io/library/`. */
  readonly images: ReadonlySet<string>;
}

/** Missing CLI on this machine; no rights on the engine's socket; no answer. */
interface EngineSilence {
  readonly kind: "noCli" | "denied" | "unreachable";
  readonly words: string;
}

/** The parts of `docker info` that are read; the engine leaves out unknown parts. */
interface DockerInfo {
  readonly ServerVersion?: string;
  readonly ServerErrors?: readonly string[];
  readonly OSType?: string;
  readonly Architecture?: string;
  readonly SecurityOptions?: readonly string[] | null;
  readonly DockerRootDir?: string;
  readonly Runtimes?: Readonly<Record<string, unknown>> | null;
  readonly DiscoveredDevices?: readonly { readonly ID?: string }[] | null;
}

export async function readDocker(probe: HostProbe): Promise<EngineReading | EngineSilence> {
  const answer = await probe.docker(["info", "--format", "{{json .}}"]);
  const info: DockerInfo = answer.stdout.startsWith("{") ? (JSON.parse(answer.stdout) as DockerInfo) : {};
  const { ServerVersion: version = "", ServerErrors } = info;
  // Without an engine the CLI prints its own facts; older versions end with exit code 0 then.
  if (version === "") {
    const stderr = ServerErrors?.[0] ?? answer.stderr;
    return engineFailure({ ...answer, stderr }) ?? { kind: "unreachable", words: lastLine(stderr) };
  }
  const format = "{{.Repository}}:{{.Tag}}\n{{.Repository}}@{{.Digest}}";
  const images = await probe.docker(["image", "ls", "--digests", "--format", format]);
  return {
    kind: "engine",
    version,
    system: info.OSType ?? "",
    architecture: info.Architecture ?? "",
    isRootless: (info.SecurityOptions ?? []).some((option) => option.includes("rootless")),
    rootDirectory: info.DockerRootDir ?? "",
    runtimes: Object.keys(info.Runtimes ?? {}),
    cdiGpus: (info.DiscoveredDevices ?? []).flatMap(({ ID = "" }) =>
      ID.startsWith("nvidia.com/gpu") ? [ID] : [],
    ),
    images: new Set(images.stdout.split("\n").map(shortReference)),
  };
}

/** Reason why a command of the Docker CLI got no answer of an engine; null if an engine answered, even with an error. */
export function engineFailure({ exitCode, stderr }: ProbeAnswer): EngineSilence | null {
  const words = lastLine(stderr);
  if (exitCode === null && stderr.includes("ENOENT")) return { kind: "noCli", words };
  // ssh reports a refused key in the same words.
  if (/permission denied.* docker/i.test(words) && !/publickey|password/i.test(words))
    return { kind: "denied", words };
  const isSilent = /cannot connect to the docker daemon|error during connect/i.test(words);
  return isSilent ? { kind: "unreachable", words } : null;
}

/** As `docker image ls` prints it: Docker Hub's own prefix is left out. */
export function shortReference(reference: string): string {
  return reference.replace(/^docker\.io\/(library\/)?/, "");
}

/** Check of an engine that did not answer: the failure before any request. The stack file names it. */
export function engineFinding(uri: string, { kind, words }: EngineSilence): Finding {
  const destination = sshDestination(uri);
  const where = destination === undefined ? `at ${uri}` : `on the other side of ${uri}`;
  switch (kind) {
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
        words,
        "Add the user to the group docker (`sudo usermod -aG docker USER`, then log in again): that is as good as root.",
      );
    case "unreachable":
      return problem(
        "docker",
        `No Docker engine answers ${where}.`,
        // The CLI's own words before those of ssh are its guess, and long; it calls the engine behind ssh docker.example.com.
        words.replace(/^.* stderr=/s, "").replaceAll("http://docker.example.com", uri),
        destination === undefined
          ? "Start it (`sudo systemctl start docker`), or correct host.uri of the stack file."
          : `Try \`${shellLine(["ssh", "-o", "BatchMode=yes", ...destination, "docker", "info"])}\`, which must work without a password; start the engine there (\`sudo systemctl start docker\`).`,
      );
  }
}

/** As {@link engineFinding} for this machine's own engine, which builds for clusters and for AWS: no stack file names it. */
export function ownEngineFinding(uri: string, reading: EngineSilence): Finding {
  const finding = engineFinding(uri, reading);
  if (reading.kind !== "unreachable") return finding;
  const fix =
    "Start it (`sudo systemctl start docker`), or run this on a machine that has one (https://docs.docker.com/engine/install/).";
  return { ...finding, fix };
}
