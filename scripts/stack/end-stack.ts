/** The way in which every stack ends: `npm run down`, and `npm run expire`. */
import { existsSync, rmSync } from "node:fs";
import { relative } from "node:path";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { leftoversReport } from "../aws/leftovers-report.ts";
import { dockerLines, ofStack } from "../docker-host/containers.ts";
import { hostProbe } from "../preflight/host-probe.ts";
import { isOnAws } from "../program/aws-target.ts";
import { isOnDocker, readDockerTarget } from "../program/docker-target.ts";
import { projectName, projectRoot, readStackFile, type StackReference } from "../program/stack-file.ts";
import { openStack, stackPaths } from "./backend.ts";

/**
 * Stops and deletes everything of a stack, and prints what stays: documents, and of a stack on AWS what still costs money.
 *
 * @param deletesData - Whether the documents of its databases go as well.
 * @throws UserError where something could not be deleted; the state has what is left, so it can be called again.
 */
export async function endStack(stack: StackReference, deletesData: boolean): Promise<void> {
  await (await openStack(stack)).down();
  const { data } = stackPaths(stack.name);
  if (isOnDocker(stack)) await endVolumes(stack, deletesData);
  else if (!deletesData && existsSync(data)) sayKept(relative(projectRoot, data), stack);
  if (deletesData) rmSync(data, { recursive: true, force: true });
  if (isOnAws(stack)) await sayLeftovers(stack);
}

/** `destroy` leaves the volumes that are worth keeping. The engine store is not among the documents. */
async function endVolumes(stack: StackReference, deletesData: boolean): Promise<void> {
  const { plan, stack: planned } = readDockerTarget(stack);
  const probe = hostProbe(plan.host.uri);
  const onHost = await dockerLines(probe, ["volume", "ls", "--quiet", ...ofStack(stack.name)]);
  const documents = planned.volumes
    .filter(({ purpose, name }) => (purpose === "mongo" || purpose === "vector") && onHost.includes(name))
    .map(({ name }) => name);
  if (documents.length === 0) return;
  if (deletesData) await dockerLines(probe, ["volume", "rm", ...documents]);
  else sayKept(`the volumes ${documents.join(" and ")} of the Docker host`, stack);
}

/**
 * `retain`, claims of databases and copies outlive a stack, and cost money. Its file need not be one that can be planned: an
 * older program may have deployed it.
 */
async function sayLeftovers(stack: StackReference): Promise<void> {
  const { region } = fromRuntimeConfig(readStackFile(stack).values, projectName());
  process.stdout.write(await leftoversReport({ region: String(region), stack: stack.name }));
}

function sayKept(where: string, { name }: StackReference): void {
  process.stderr.write(
    `The documents are kept in ${where}; \`npm run down -- --stack ${name} --delete-data\` deletes them.\n`,
  );
}
