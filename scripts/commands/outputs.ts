import { requireOutputs } from "../stack/backend.ts";
import { endpointTable } from "../stack/endpoint-table.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Prints the stack's outputs: endpoint URLs, models, release, cost.",
  usage: "[--json]",
  details: ["--json               the outputs as one JSON object, for scripts"],
  options: { json: { type: "boolean" } },
  async run({ stack, values }) {
    const outputs = await requireOutputs(stack);
    process.stdout.write(
      values.json === true ? `${JSON.stringify(outputs, null, 2)}\n` : endpointTable(outputs),
    );
    return EXIT.ok;
  },
};
