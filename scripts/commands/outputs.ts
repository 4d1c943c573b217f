import { UserError } from "../errors.ts";
import { openStack } from "../stack/backend.ts";
import { endpointTable } from "../stack/endpoint-table.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Prints the stack's outputs: endpoint URLs, models, release, cost.",
  usage: "[--stack NAME] [--json]",
  details: ["--json         the outputs as one JSON object, for scripts"],
  options: { json: { type: "boolean" } },
  async run({ stack, values }) {
    const outputs = await (await openStack(stack)).outputs();
    if (outputs === undefined)
      throw new UserError(
        `The stack ${stack.name} is not up; \`npm start -- --stack ${stack.name}\` brings it up.`,
      );
    process.stdout.write(
      values.json === true ? `${JSON.stringify(outputs, null, 2)}\n` : endpointTable(outputs),
    );
    return EXIT.ok;
  },
};
