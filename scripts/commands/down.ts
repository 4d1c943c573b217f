import { existsSync, rmSync } from "node:fs";
import { relative } from "node:path";
import { dockerLines, ofStack } from "../docker-host/containers.ts";
import { hostProbe } from "../preflight/host-probe.ts";
import { isOnDocker, readDockerTarget } from "../program/docker-target.ts";
import { projectRoot, type StackReference } from "../program/stack-file.ts";
import { openStack, stackPaths } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Stops and deletes everything of the stack but its documents; downloads stay in the cache.",
  usage: "[--stack NAME] [--delete-data]",
  details: ["--delete-data        the documents of its databases as well"],
  options: { "delete-data": { type: "boolean" } },
  async run({ stack, values }) {
    await (await openStack(stack)).down();
    const { data } = stackPaths(stack.name);
    const deletesData = values["delete-data"] === true;
    if (isOnDocker(stack)) await endVolumes(stack, deletesData);
    else if (!deletesData && existsSync(data)) sayKept(relative(projectRoot, data), stack);
    if (deletesData) rmSync(data, { recursive: true, force: true });
    return EXIT.ok;
  },
};

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

function sayKept(where: string, { name }: StackReference): void {
  process.stderr.write(
    `The documents are kept in ${where}; \`npm run down -- --stack ${name} --delete-data\` deletes them.\n`,
  );
}
