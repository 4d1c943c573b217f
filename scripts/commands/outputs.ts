import { requireOutputs } from "../stack/backend.ts";
import { endpointTable } from "../stack/endpoint-table.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: { "--json": "print the outputs as one JSON object" },
  async run({ stack, values }) {
    const outputs = await requireOutputs(stack);
    process.stdout.write(
      values.json === true ? `${JSON.stringify(outputs, null, 2)}\n` : endpointTable(outputs),
    );
    return EXIT.ok;
  },
});
