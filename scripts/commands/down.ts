import { existsSync, rmSync } from "node:fs";
import { relative } from "node:path";
import { leftoversReport } from "../aws/leftovers-report.ts";
import { dockerLines, ofStack } from "../docker-host/containers.ts";
import { hostProbe } from "../preflight/host-probe.ts";
import { awsTarget, isOnAws } from "../program/aws-target.ts";
import { isOnDocker, readDockerTarget, readPlan } from "../program/docker-target.ts";
import { projectRoot, type StackReference } from "../program/stack-file.ts";
import { openStack, stackPaths } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Stops and deletes everything of the stack but its documents; downloads stay in the cache.",
  usage: "[--stack NAME] [--delete-data]",
  details: [
    "--delete-data        the documents of its databases as well",
    "Of a stack on AWS it lists at the end, by tag, what still costs money, and how each is deleted.",
  ],
  options: { "delete-data": { type: "boolean" } },
  async run({ stack, values }) {
    await (await openStack(stack)).down();
    const { data } = stackPaths(stack.name);
    const deletesData = values["delete-data"] === true;
    if (isOnDocker(stack)) await endVolumes(stack, deletesData);
    else if (!deletesData && existsSync(data)) sayKept(relative(projectRoot, data), stack);
    if (deletesData) rmSync(data, { recursive: true, force: true });
    if (isOnAws(stack)) await sayLeftovers(stack);
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

/** `retain`, claims of databases and copies outlive a stack, and cost money. */
async function sayLeftovers(stack: StackReference): Promise<void> {
  const plan = readPlan(stack);
  if (plan.platform !== "aws") return;
  process.stdout.write(await leftoversReport(awsTarget(plan, stack.name).context));
}

function sayKept(where: string, { name }: StackReference): void {
  process.stderr.write(
    `The documents are kept in ${where}; \`npm run down -- --stack ${name} --delete-data\` deletes them.\n`,
  );
}
