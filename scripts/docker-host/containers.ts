/** The containers of a stack, as its host's Docker engine has them. */
import { labels } from "../../infra/plan/docker/host-objects.ts";
import { UserError } from "../errors.ts";
import { engineFinding, engineSilence } from "../preflight/docker-reading.ts";
import { type HostProbe, lastLine, type ProbeAnswer } from "../preflight/host-probe.ts";

/** The part of `docker inspect` that is read. */
export interface HostContainer {
  readonly Id: string;
  /** With a slash before it. */
  readonly Name: string;
  readonly RestartCount: number;
  readonly State: {
    readonly Status: "created" | "running" | "paused" | "restarting" | "removing" | "exited" | "dead";
    readonly ExitCode: number;
    /** ISO 8601. */
    readonly StartedAt: string;
    /** Absent where the container has no health check. */
    readonly Health?: { readonly Status: "starting" | "healthy" | "unhealthy" };
  };
}

/** As `docker` commands take it. */
export function containerName({ Name }: HostContainer): string {
  return Name.replace(/^\//, "");
}

/** Words of the Docker CLI that choose what bears the labels of a stack. */
export function ofStack(stack: string): readonly string[] {
  return labels(stack).flatMap(({ label, value }) => ["--filter", `label=${label}=${value}`]);
}

/** All of them, those that have ended included. @throws UserError where the engine gives no answer. */
export async function stackContainers(stack: string, probe: HostProbe): Promise<readonly HostContainer[]> {
  const list = ["ps", "--all", "--quiet", "--no-trunc", ...ofStack(stack)];
  const ids = await dockerLines(probe, list);
  if (ids.length === 0) return [];
  // One that went meanwhile makes it fail, and the others are printed all the same.
  const answer = await probe.docker(["inspect", "--type", "container", ...ids]);
  if (answer.exitCode === null) throw failure("inspect", probe, answer);
  return JSON.parse(answer.stdout) as HostContainer[];
}

/** Lines that a command of the Docker CLI prints. @throws UserError with its own last words where it fails. */
export async function dockerLines(probe: HostProbe, args: readonly string[]): Promise<readonly string[]> {
  const answer = await probe.docker(args);
  if (answer.exitCode === 0) return answer.stdout.split("\n").filter((line) => line !== "");
  throw failure(args[0] ?? "", probe, answer);
}

function failure(command: string, { uri }: HostProbe, answer: ProbeAnswer): UserError {
  const silence = engineSilence(answer);
  if (silence !== null && uri !== null) {
    const { what, why, fix } = engineFinding(uri, silence);
    return new UserError(`${what} ${why}\n${fix}`);
  }
  return new UserError(`\`docker ${command}\` failed at ${uri}: ${lastLine(answer.stderr)}`);
}
