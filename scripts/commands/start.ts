import { ensureSystemPackages } from "../setup/system-packages.ts";
import { openStack } from "../stack/backend.ts";
import { endpointTable } from "../stack/endpoint-table.ts";
import { type Command, EXIT, UserError } from "./command.ts";

export const command: Command = {
  summary:
    "Brings the whole service up on this machine: sets up what is missing, starts everything, prints the endpoints.",
  usage: "[--stack NAME] [--yes]",
  details: ["--yes          install missing Debian packages (as root); CI=true means the same"],
  options: { yes: { type: "boolean", short: "y" } },
  async run({ stack, values }) {
    const started = performance.now();
    await ensureSystemPackages({ install: values.yes === true || process.env.CI === "true" });
    const backend = await openStack(stack);
    process.stderr.write(`Stack ${stack.name}, applied by: ${backend.title}\n`);
    await backend.up();
    const outputs = await backend.outputs();
    if (outputs === undefined) throw new UserError(`The stack ${stack.name} has no outputs after \`up\`.`);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    process.stdout.write(
      `\nUp in ${seconds} s.\n\n${endpointTable(outputs)}\n${nextCommand(stack.name, outputs.endpoints.gateway, outputs.models[0]?.name ?? "")}`,
    );
    return EXIT.ok;
  },
};

function nextCommand(stack: string, gateway: string, model: string): string {
  const suffix = stack === "local" ? "" : ` -- --stack ${stack}`;
  return [
    "Try:",
    `  curl -s ${gateway}/v1/chat/completions -H 'content-type: application/json' \\`,
    `    -d '{"model": "${model}", "messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}'`,
    "",
    `  npm run smoke${suffix}    a real request to every endpoint`,
    `  npm run down${suffix}     stop and delete everything`,
    "",
  ].join("\n");
}
