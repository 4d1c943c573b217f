/** The way in which every stack ends: `npm run down`, and `npm run expire`. */
import { existsSync, rmSync } from "node:fs";
import { relative } from "node:path";
import { leftoversReport, refuseStrangers } from "../aws/leftovers-report.ts";
import { requireAccount } from "../aws/own-account.ts";
import { taggedArns } from "../aws/tagged.ts";
import { dockerLines, ofStack } from "../docker-host/containers.ts";
import { type HostProbe, hostProbe } from "../preflight/host-probe.ts";
import { readDockerTarget } from "../program/docker-target.ts";
import { projectRoot, type StackReference } from "../program/stack-file.ts";
import { awsPlace, isOnDocker } from "../program/stack-platform.ts";
import { noSuchStack, openStack, requireKnownStack, type StackBackend, stackPaths } from "./backend.ts";

/** How a stack ended. */
export interface StackEnd {
  /** False: the stack is gone, and nobody can say whether something of it still costs money. */
  readonly isRestKnown: boolean;
}

/**
 * Stops and deletes everything of a stack, and prints what stays: documents, and of a stack on AWS what still costs money.
 *
 * @param deletesData - Whether the documents of its databases go as well.
 * @throws UserError where something could not be deleted; the state has what is left, so it can be called again. Also where the
 *   account has things of a stack that the state does not know.
 * @throws ConfigError where there is neither a file nor a state of such a stack.
 */
export async function endStack(stack: StackReference, deletesData: boolean): Promise<StackEnd> {
  requireKnownStack(stack);
  const backend = await openStack(stack);
  const place = awsPlace(stack);
  if (place !== null) await refuseUnknown(stack, backend, place);
  // A host that gives no answer ends it before anything is said to be gone.
  if (isOnDocker(stack)) await documentVolumes(stack);
  await backend.down();
  const { data } = stackPaths(stack.name);
  if (isOnDocker(stack)) await endVolumes(stack, deletesData);
  else if (!deletesData && existsSync(data)) sayKept(relative(projectRoot, data), stack);
  if (deletesData) rmSync(data, { recursive: true, force: true });
  return { isRestKnown: place === null || (await sayLeftovers(stack.name, place.region)) };
}

/** @throws UserError where the state knows of nothing that could be deleted, and the account has, or may have, things of it. */
async function refuseUnknown(
  stack: StackReference,
  backend: StackBackend,
  place: Parameters<typeof requireAccount>[0],
): Promise<void> {
  const record = await backend.record();
  if (record === "resources") return;
  await requireAccount(place);
  const answer = await taggedArns(place.region, stack.name);
  // Deletes nothing but the record.
  if (record === "empty") await backend.down();
  refuseStrangers(noSuchStack(stack.name), { region: place.region, stack: stack.name }, answer);
}

/** Volumes of a stack that hold documents, as its Docker host has them; the engine store is none. */
async function documentVolumes(stack: StackReference): Promise<{
  readonly probe: HostProbe;
  readonly names: readonly string[];
}> {
  const { plan, stack: planned } = readDockerTarget(stack);
  const probe = hostProbe(plan.host.uri);
  const onHost = await dockerLines(probe, ["volume", "ls", "--quiet", ...ofStack(stack.name)]);
  const names = planned.volumes
    .filter(({ purpose, name }) => (purpose === "mongo" || purpose === "vector") && onHost.includes(name))
    .map(({ name }) => name);
  return { probe, names };
}

/** `destroy` leaves the volumes that are worth keeping. */
async function endVolumes(stack: StackReference, deletesData: boolean): Promise<void> {
  const { probe, names } = await documentVolumes(stack);
  if (names.length === 0) return;
  if (deletesData) await dockerLines(probe, ["volume", "rm", ...names]);
  else sayKept(`the volumes ${names.join(" and ")} of the Docker host`, stack);
}

/** `retain`, claims of databases and copies outlive a stack, and cost money. @returns Whether AWS says what there is. */
async function sayLeftovers(stack: string, region: string): Promise<boolean> {
  const answer = await taggedArns(region, stack);
  process.stdout.write(leftoversReport(region, stack, answer));
  return answer.kind === "answer";
}

function sayKept(where: string, { name }: StackReference): void {
  process.stderr.write(
    `The documents are kept in ${where}; \`npm run down -- --stack ${name} --delete-data\` deletes them.\n`,
  );
}
