import type { StackOutputs } from "../../infra/outputs.ts";
import { UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { type StackReference, stackOptions } from "../program/stack-file.ts";
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
      "install missing Debian packages (as root), and rent machines, without confirmation; CI=true means the same",
    "--no-samples": "leave a new stack without documents, instead of loading the sample pictures",
    "--json": "print JSON as `up` does: {stack, changes, unchanged, outputs}",
  },
  async run({ stack, values }) {
    const started = performance.now();
    const plan = readPlan(stack);
    const operations = await operationsOf(stack);
    await operations.installPrograms(values.yes === true || process.env.CI === "true");
    const backend = await openStack(stack, "up");
    if (!(await isConfirmed(stack, backend, "up", values.yes === true))) return EXIT.failed;
    process.stderr.write(`Stack ${stack.name}, applied by: ${backend.title}\n`);
    const changes = await backend.up();
    const outputs = await backend.outputs();
    if (outputs === undefined) throw new UserError(`The stack ${stack.name} has no outputs after \`up\`.`);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    const isBehindSsh = operations.isBehindSsh();
    if (values.samples !== false && !isBehindSsh) await loadSamples(stack, outputs);
    const options = stackOptions(stack);
    const suffix = options === "--stack local" ? "" : ` ${options}`;
    const { gateway } = outputs.endpoints;
    const question = {
      model: outputs.models[0]?.name,
      messages: [{ role: "user", content: "What is the capital of France?" }],
      temperature: 0,
    };
    const next = [
      ...(isBehindSsh
        ? [
            `Addresses are the host's own: \`npx engine-room connect${suffix}\` brings them here, \`npx engine-room seed${suffix}\` loads samples.`,
          ]
        : []),
      `Open ${gateway}/ in a browser, or try:`,
      `  curl -s ${gateway}/v1/chat/completions -H 'content-type: application/json' \\`,
      ...(plan.gateway.apiKeys.length > 0 ? ['    -H "authorization: Bearer $ENGINE_ROOM_API_KEY" \\'] : []),
      `    -d '${JSON.stringify(question)}'`,
      "",
      `  npx engine-room smoke${suffix}    # a real request to every endpoint`,
      `  npx engine-room down${suffix}     # stop everything; documents ${operations.isRented ? "are deleted too" : "are kept"}`,
    ];
    return {
      json: { stack: stack.name, ...changes, outputs },
      text: `\nUp in ${seconds} s.\n\n${forTerminal(endpointTable(outputs), process.stdout)}\n${next.join("\n")}\n`,
    };
  },
});

/** A service without pictures is still useful: errors here are reported, and end nothing. */
async function loadSamples({ name }: StackReference, { endpoints }: StackOutputs): Promise<void> {
  // Samples are only for this stack's own databases.
  if (endpoints.mongo === null) return;
  const say = (text: string) => process.stderr.write(`  ${text} \`npx engine-room seed\` tries again.\n`);
  try {
    const { gateway } = endpoints;
    const apiKey = process.env.ENGINE_ROOM_API_KEY;
    const summary = await seedSamplesOnce(new SampleMark(stackPaths(name).data), { gateway, apiKey });
    const [failure] = summary?.failures ?? [];
    if (failure !== undefined) say(`Sample ${failure.label} is missing: ${failure.reason}`);
    if (summary?.stopped !== undefined) say(`The samples are not all loaded: ${summary.stopped}.`);
  } catch (error) {
    say(`No sample pictures: ${(error as Error).message}`);
  }
}
