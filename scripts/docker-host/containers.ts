/** The containers of a stack on its host's Docker engine, and the remains of a killed command. */
import { labels } from "../../infra/plan/docker/host-objects.ts";
import { UserError } from "../errors.ts";
import { engineFailure, engineFinding } from "../preflight/docker-facts.ts";
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
    /** Absent if the container has no health check. */
    readonly Health?: { readonly Status: "starting" | "healthy" | "unhealthy" };
  };
}

/** Name for commands of `docker`. */
export function containerName({ Name }: HostContainer): string {
  return Name.replace(/^\//, "");
}

/** Options of the Docker CLI that select objects with the labels of a stack. */
export function ofStack(stack: string): readonly string[] {
  return labels(stack).flatMap(({ label, value }) => ["--filter", `label=${label}=${value}`]);
}

/** Lists all containers, ended containers included. @throws UserError if the engine does not answer. */
export async function stackContainers(stack: string, probe: HostProbe): Promise<readonly HostContainer[]> {
  const ids = await dockerLines(probe, ["ps", "--all", "--quiet", "--no-trunc", ...ofStack(stack)]);
  if (ids.length === 0) return [];
  // A container that is removed meanwhile makes it fail, but the others are printed.
  const answer = await probe.docker(["inspect", "--type", "container", ...ids]);
  if (answer.exitCode === null) throw failure("inspect", probe, answer);
  return JSON.parse(answer.stdout) as HostContainer[];
}

/** Lines that a command of the Docker CLI prints. @throws UserError with its own last words if it fails. */
export async function dockerLines(probe: HostProbe, args: readonly string[]): Promise<readonly string[]> {
  const answer = await probe.docker(args);
  if (answer.exitCode === 0) return answer.stdout.split("\n").filter((line) => line !== "");
  throw failure(args[0] ?? "", probe, answer);
}

function failure(command: string, { uri }: HostProbe, answer: ProbeAnswer): UserError {
  const silence = engineFailure(answer);
  if (silence === null || uri === null)
    return new UserError(`\`docker ${command}\` failed at ${uri}: ${lastLine(answer.stderr)}`);
  const { what, why, fix } = engineFinding(uri, silence);
  return new UserError(`${what} ${why}\n${fix}`);
}

/** The state of a stack, as `pulumi stack export` has it. */
export interface KnownObjects {
  /** Ids of all resources. */
  readonly ids: ReadonlySet<string>;
  /** Names of resources that were in creation when the state was last written. */
  readonly begunNames: ReadonlySet<string>;
}

/**
 * Removes containers and networks of a stack that are missing from its state: those that were in creation when the
 * command was killed, and stopped containers, whose names and ports would conflict. A container's contents can be
 * created again; volumes are kept.
 *
 * @returns Names of removed containers.
 * @throws UserError for a running container that this state did not begin, because it may belong to another state.
 */
export async function removeLeftovers(
  stack: string,
  { ids, begunNames }: KnownObjects,
  probe: HostProbe,
): Promise<readonly string[]> {
  const unknown = (await stackContainers(stack, probe)).filter(({ Id }) => !ids.has(Id));
  const names = unknown.map(containerName);
  const running = unknown.filter(({ State: { Status } }) => /^(running|restarting|paused)$/.test(Status));
  const foreign = running.map(containerName).filter((name) => !begunNames.has(name));
  if (foreign.length > 0)
    throw new UserError(
      `The Docker host has ${foreign.length} running containers of a stack ${stack} that the state of this checkout does not know (${foreign.join(" ")}), so they may be another user's. Choose another name for the stack, or remove them: \`docker --host ${probe.uri} rm --force ${foreign.join(" ")}\`.`,
    );
  if (names.length > 0) await dockerLines(probe, ["rm", "--force", ...names]);
  const networks = await dockerLines(probe, ["network", "ls", "--quiet", "--no-trunc", ...ofStack(stack)]);
  const unused = networks.filter((id) => !ids.has(id));
  // A network in use is kept.
  if (unused.length > 0) await probe.docker(["network", "rm", ...unused]);
  return names;
}
