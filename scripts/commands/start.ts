import type { StackOutputs } from "../../infra/outputs.ts";
import { UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { type StackReference, stackReference } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import { SampleMark } from "../seed/samples.ts";
import { seedSamplesOnce } from "../seed/seed.ts";
import { openStack } from "../stack/backend.ts";
import { isConfirmed } from "../stack/confirm.ts";
import { endpointTable } from "../stack/endpoint-table.ts";
import { stackPaths } from "../stack/stack-paths.ts";
import { forTerminal } from "../terminal-text.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: {
    "-y, --yes":
      "install missing Debian packages (as root), and rent machines, without a question; CI=true means the same",
    "--no-samples": "leave a new stack without documents, instead of loading the sample pictures",
  },
  async run({ stack, values }) {
    const started = performance.now();
    const plan = readPlan(stack);
    const operations = await operationsOf(stack);
    await operations.installPrograms(values.yes === true || process.env.CI === "true");
    const backend = await openStack(stack, "up");
    if (!(await isConfirmed(stack, backend, "up", values.yes === true))) return EXIT.failed;
    process.stderr.write(`Stack ${stack.name}, applied by: ${backend.title}\n`);
    await backend.up();
    const outputs = await backend.outputs();
    if (outputs === undefined) throw new UserError(`The stack ${stack.name} has no outputs after \`up\`.`);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    const isBehindSsh = operations.isBehindSsh();
    if (values.samples !== false && !isBehindSsh) await loadSamples(stack, outputs);
    const next = nextCommands(stack, outputs, {
      needsKey: plan.gateway.apiKeys.length > 0,
      isBehindSsh,
      keepsDocuments: !operations.isRented,
    });
    process.stdout.write(
      `\nUp in ${seconds} s.\n\n${forTerminal(endpointTable(outputs), process.stdout)}\n${next}`,
    );
    return EXIT.ok;
  },
});

/** A service without pictures still is a service: what goes wrong here is said, and ends nothing. */
async function loadSamples({ name }: StackReference, { endpoints }: StackOutputs): Promise<void> {
  // Databases that are not this stack's own get nothing that nobody asked for.
  if (endpoints.mongo === null) return;
  const command = "npx engine-room seed";
  try {
    const summary = await seedSamplesOnce(new SampleMark(stackPaths(name).data), {
      gateway: endpoints.gateway,
      apiKey: process.env.ENGINE_ROOM_API_KEY,
    });
    if (summary === undefined) return;
    for (const { label, reason } of summary.failures)
      process.stderr.write(`  Sample ${label} is not there: ${reason}\n`);
    if (summary.stopped !== undefined)
      process.stderr.write(`  The samples are not all there: ${summary.stopped}; \`${command}\` goes on.\n`);
  } catch (error) {
    process.stderr.write(`  No sample pictures: ${(error as Error).message} \`${command}\` tries again.\n`);
  }
}

interface NextSteps {
  readonly needsKey: boolean;
  readonly isBehindSsh: boolean;
  /** Whether `down` leaves them. */
  readonly keepsDocuments: boolean;
}

function nextCommands(
  stack: StackReference,
  { endpoints, models }: StackOutputs,
  { needsKey, isBehindSsh, keepsDocuments }: NextSteps,
): string {
  const options = [
    ...(stack.name === "local" ? [] : ["--stack", stack.name]),
    ...(stack.configFile === stackReference(stack.name).configFile
      ? []
      : ["--config-file", stack.configFile]),
  ];
  const suffix = options.length === 0 ? "" : ` ${options.join(" ")}`;
  const question = {
    model: models[0]?.name,
    messages: [{ role: "user", content: "What is the capital of France?" }],
    temperature: 0,
  };
  return [
    ...(isBehindSsh
      ? [
          `Addresses are the host's own: \`npx engine-room connect${suffix}\` brings them here, \`npx engine-room seed${suffix}\` loads samples.`,
        ]
      : []),
    `Open ${endpoints.gateway}/ in a browser, or try:`,
    `  curl -s ${endpoints.gateway}/v1/chat/completions -H 'content-type: application/json' \\`,
    ...(needsKey ? ['    -H "authorization: Bearer $ENGINE_ROOM_API_KEY" \\'] : []),
    `    -d '${JSON.stringify(question)}'`,
    "",
    `  npx engine-room smoke${suffix}    # a real request to every endpoint`,
    `  npx engine-room down${suffix}     # stop everything; documents ${keepsDocuments ? "are kept" : "go too, unless `retain` names the stack"}`,
    "",
  ].join("\n");
}
