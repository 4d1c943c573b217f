/** What a command that was killed has left on a Docker host, and no state knows. */
import { UserError } from "../errors.ts";
import type { HostProbe } from "../preflight/host-probe.ts";
import { containerName, dockerLines, type HostContainer, ofStack, stackContainers } from "./containers.ts";

/** The state of a stack, as `pulumi stack export` has it. */
export interface KnownObjects {
  /** Of all resources. */
  readonly ids: ReadonlySet<string>;
  /** Of what was being made when the state was written for the last time. */
  readonly begunNames: ReadonlySet<string>;
}

/**
 * Removes containers and networks of a stack that its state does not know: those that were begun when the command was
 * killed, and containers that do not run. Their names and ports would be in the way. A container holds nothing that is
 * not made again; volumes are left.
 *
 * @returns Names of the containers that are gone.
 * @throws UserError where one runs that this state did not begin, because somebody else's state may know it.
 */
export async function removeLeftovers(
  stack: string,
  { ids, begunNames }: KnownObjects,
  probe: HostProbe,
): Promise<readonly string[]> {
  const unknown = (await stackContainers(stack, probe)).filter(({ Id }) => !ids.has(Id));
  const strangers = unknown
    .filter((one) => isUp(one) && !begunNames.has(containerName(one)))
    .map(containerName);
  if (strangers.length > 0) {
    const names = strangers.join(" ");
    throw new UserError(
      `The Docker host has ${strangers.length} running containers of a stack ${stack} that the state of this checkout does not know (${names}), so it may be somebody else's. Take another name for the stack, or remove them: \`docker --host ${probe.uri} rm --force ${names}\`.`,
    );
  }
  const names = unknown.map(containerName);
  if (names.length > 0) await dockerLines(probe, ["rm", "--force", ...names]);
  const networks = await dockerLines(probe, ["network", "ls", "--quiet", "--no-trunc", ...ofStack(stack)]);
  const unused = networks.filter((id) => !ids.has(id));
  // One that is still in use by a stranger stays where it is.
  if (unused.length > 0) await probe.docker(["network", "rm", ...unused]);
  return names;
}

function isUp({ State: { Status } }: HostContainer): boolean {
  return Status === "running" || Status === "restarting" || Status === "paused";
}
